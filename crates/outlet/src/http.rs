//! Requests to a server, bounded in time and in what is read of its answer.

use crate::engine::Outcome;
use crate::trust;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use std::time::Duration;
use ureq::http::Response;
use ureq::tls::TlsConfig;
use ureq::{Agent, Body};

/// Most bytes of an answer: servers say why in a few lines.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// Most bytes of an answer's head.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Most characters of a server's reason that are shown.
const REASON_CHARS_MAX: usize = 200;

/// Sends requests to one server. Each has a connection of its own: batches are large and few, and a
/// connection that was left open is found dead when it is needed.
pub(crate) struct Client {
    agent: Agent,
    authorization: Option<String>,
}

/// What a server answered.
pub(crate) struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Client {
    /// With TLS if there is a configuration of it.
    pub fn new(user: Option<&(String, String)>, tls: Option<TlsConfig>) -> Client {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_idle_connections(0)
            .max_response_header_size(HEAD_BYTES_MAX)
            // The environment's proxies are for pages, not for what an operator names here.
            .proxy(None)
            .tls_config(tls.unwrap_or_else(|| TlsConfig::builder().build()))
            .user_agent(concat!("ringside/", env!("CARGO_PKG_VERSION")))
            .build();
        let authorization = user.map(|(name, password)| {
            format!("Basic {}", BASE64_STANDARD.encode(format!("{name}:{password}")))
        });
        Client { agent: config.new_agent(), authorization }
    }

    /// Posts a body; the error says why there is no answer.
    pub fn post<'q>(
        &self,
        url: &str,
        query: impl IntoIterator<Item = (&'q str, &'q str)>,
        content_type: &str,
        body: &[u8],
        time: Duration,
    ) -> Result<Answer, String> {
        let request = self.agent.post(url).query_pairs(query).content_type(content_type);
        let request = match &self.authorization {
            Some(authorization) => request.header("authorization", authorization),
            None => request,
        };
        let request = request.config().timeout_global(Some(time)).build();
        read(request.send(body))
    }

    /// Puts a body there, with these headers; the error says why there is no answer.
    pub fn put(
        &self,
        url: &str,
        headers: &[(&str, String)],
        body: &[u8],
        time: Duration,
    ) -> Result<Answer, String> {
        let request = headers
            .iter()
            .fold(self.agent.put(url), |request, (name, value)| request.header(*name, value));
        let request = request.config().timeout_global(Some(time)).build();
        read(request.send(body))
    }
}

/// What was answered, if it was.
fn read(sent: Result<Response<Body>, ureq::Error>) -> Result<Answer, String> {
    let mut answer = sent.map_err(|error| trust::reason(&error))?;
    let status = answer.status().as_u16();
    match answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec() {
        Ok(body) => Ok(Answer { status, body }),
        // What it says of an error does not matter as much as that it is one.
        Err(_) if status >= 300 => Ok(Answer { status, body: Vec::new() }),
        Err(error) => Err(format!("the answer is not whole: {error}")),
    }
}

impl Answer {
    /// The batch's fate by the status; `None` if that is a success. What an operator can put right
    /// (a missing table, a password) and what passes by itself is tried again; what the server
    /// calls wrong with the request is not.
    pub fn failure(&self) -> Option<Outcome> {
        let said = |what: &str| match reason(&self.body) {
            text if text.is_empty() => format!("{what} (status {})", self.status),
            text => format!("{what} (status {}): {text}", self.status),
        };
        match self.status {
            200..300 => None,
            300..400 => Some(Outcome::Failed(said("the server names another place"))),
            401 | 403 => Some(Outcome::Failed(said("the server does not let this user in"))),
            404 => Some(Outcome::Failed(said("the server has no such place"))),
            408 | 425 | 429 => Some(Outcome::Failed(said("the server is busy"))),
            400..500 => Some(Outcome::Refused(said("the server refused a batch"))),
            _ => Some(Outcome::Failed(said("the server failed"))),
        }
    }
}

/// What a server said, in one line that a terminal can be shown.
pub(crate) fn reason(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(REASON_CHARS_MAX).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests;
