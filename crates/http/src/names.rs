//! What the fields of a transaction are called: each field once, and the columns of five schemes.

mod ecs;
mod eve;
mod otel;
mod ringside;
mod zeek;

use crate::Transaction;
use crate::text::Text;
use crate::transaction::{Message, Request, Response};
use ringside_record::{Column, Kind, Names, Row, community_id};
use ringside_wire::IpProtocol;
use serde_json::Value;

type Field = ringside_record::Field<Transaction>;

impl ringside_record::Record for Transaction {
    const LOG: &'static str = "http";

    fn columns(names: Names) -> &'static [Column<Transaction>] {
        match names {
            Names::Ringside => ringside::COLUMNS,
            Names::Zeek => zeek::COLUMNS,
            Names::Eve => eve::COLUMNS,
            Names::Ecs => ecs::COLUMNS,
            Names::Otel => otel::COLUMNS,
        }
    }
}

const CONNECTION: Field = Field::new(Kind::Count, |row| row.record.connection.into());
const DEPTH: Field = Field::new(Kind::Count, |row| row.record.depth.into());
const COMMUNITY_ID: Field = Field::new(Kind::Text, |row| row.record.community_id().into());
const INTERFACE: Field = Field::new(Kind::Text, |row| row.interface());
const VLAN: Field = Field::new(Kind::Count, |row| row.record.vlan.into());
const CLIENT: Field = Field::new(Kind::Address, |row| row.record.client.0.to_string().into());
const CLIENT_PORT: Field = Field::new(Kind::Port, |row| row.record.client.1.into());
const SERVER: Field = Field::new(Kind::Address, |row| row.record.server.0.to_string().into());
const SERVER_PORT: Field = Field::new(Kind::Port, |row| row.record.server.1.into());
const FIRST: Field = Field::new(Kind::Time, |row| row.record.first_ns().into());
const LAST: Field = Field::new(Kind::Time, |row| row.record.last_ns().into());
const FIRST_BYTE: Field = Field::new(Kind::Duration, |row| row.record.first_byte_ns().into());
const DURATION: Field = Field::new(Kind::Duration, |row| row.record.duration_ns().into());
const ENDING: Field = Field::new(Kind::Text, |row| row.record.ending.name().into());
const METHOD: Field = Field::new(Kind::Text, |row| asked(row, |r| text(&r.method)));
const TARGET: Field = Field::new(Kind::Text, |row| asked(row, |r| text(&r.target)));
const HOST: Field = Field::new(Kind::Text, |row| asked(row, |r| optional(&r.host)));
const USER_AGENT: Field = Field::new(Kind::Text, |row| asked(row, |r| optional(&r.user_agent)));
const REFERRER: Field = Field::new(Kind::Text, |row| asked(row, |r| optional(&r.referrer)));
const ORIGIN: Field = Field::new(Kind::Text, |row| asked(row, |r| optional(&r.origin)));
const USER: Field = Field::new(Kind::Text, |row| asked(row, |r| optional(&r.user)));
const PASSWORD: Field = Field::new(Kind::Text, |row| asked(row, |r| optional(&r.password)));
const COOKIE: Field = Field::new(Kind::Text, |row| asked(row, |r| optional(&r.cookie)));
const PROXIED: Field = Field::new(Kind::List, |row| {
    asked(row, |request| match request.proxied.is_empty() {
        true => Value::Null,
        false => request.proxied.iter().map(text).collect(),
    })
});
const URL: Field = Field::new(Kind::Text, |row| optional(&row.record.url()));
const VERSION: Field = Field::new(Kind::Text, |row| version(row.record).into());
const REQUEST_BYTES: Field =
    Field::new(Kind::Bytes, |row| asked(row, |r| r.message.body_bytes.into()));
const REQUEST_TYPE: Field =
    Field::new(Kind::Text, |row| asked(row, |r| optional(&r.message.content_type)));
const STATUS: Field = Field::new(Kind::Count, |row| answered(row, status));
const REASON: Field = Field::new(Kind::Text, |row| answered(row, |r| text(&r.reason)));
const INTERIM: Field = Field::new(Kind::Count, |row| row.record.interim.into());
const RESPONSE_BYTES: Field =
    Field::new(Kind::Bytes, |row| answered(row, |r| r.message.body_bytes.into()));
const RESPONSE_TYPE: Field =
    Field::new(Kind::Text, |row| answered(row, |r| optional(&r.message.content_type)));
const LOCATION: Field = Field::new(Kind::Text, |row| answered(row, |r| optional(&r.location)));

impl Transaction {
    /// The [Community ID](community_id()) of its connection.
    pub fn community_id(&self) -> String {
        community_id(self.client, self.server, IpProtocol::TCP, false, 0)
    }

    /// `http://host/path` of the request, as a proxy would be asked for it.
    pub fn url(&self) -> Option<Text> {
        let request = self.request.as_ref()?;
        let target = &request.target;
        if !target.starts_with(b"/") {
            return Some(target.clone());
        }
        let host = request.host.clone();
        let host = host.unwrap_or_else(|| self.server_name().into_bytes().into());
        Some([b"http://", &*host, target].concat().into())
    }

    /// The server's address and, unless it is the usual one, port.
    fn server_name(&self) -> String {
        let (address, port) = self.server;
        let address = match address.is_ipv6() {
            true => format!("[{address}]"),
            false => address.to_string(),
        };
        if port == 80 { address } else { format!("{address}:{port}") }
    }
}

/// Of the request, if it was seen.
fn asked(row: &Row<'_, Transaction>, value: impl Fn(&Request) -> Value) -> Value {
    row.record.request.as_ref().map_or(Value::Null, value)
}

/// Of the response, if it was seen.
fn answered(row: &Row<'_, Transaction>, value: impl Fn(&Response) -> Value) -> Value {
    row.record.response.as_ref().map_or(Value::Null, value)
}

/// A response of HTTP/0.9 has no status.
fn status(response: &Response) -> Value {
    if response.status == 0 { Value::Null } else { response.status.into() }
}

/// Bytes as text. What is no UTF-8 is taken for Latin 1, as headers once were, so that nothing is
/// lost.
fn text(bytes: &Text) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => bytes.iter().map(|&byte| byte as char).collect::<String>().into(),
    }
}

fn optional(bytes: &Option<Text>) -> Value {
    bytes.as_ref().map_or(Value::Null, text)
}

/// The version of the request or, if that was not seen, of the response: `1.1`.
fn version(record: &Transaction) -> String {
    let of_response = record.response.as_ref().and_then(|response| response.minor_version);
    let minor = match &record.request {
        Some(request) => request.minor_version,
        None => of_response,
    };
    minor.map_or_else(|| "0.9".into(), |minor| format!("1.{minor}"))
}

/// What a direction's body says of its length.
fn declared(message: &Message) -> Value {
    message.declared_bytes.into()
}

#[cfg(test)]
pub(crate) mod tests;
