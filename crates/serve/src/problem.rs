//! What went wrong with a request, as its client reads it.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ringside_control::Refusal;
use serde::Serialize;
use std::time::Duration;
use utoipa::ToSchema;

/// Seconds after which a client that came at a bad moment may try again.
const RETRY_AFTER_S: u64 = 1;

/// An answer that is none.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    text: String,
    /// When another try makes sense.
    retry_after_s: Option<u64>,
}

/// Its body.
#[derive(Serialize, ToSchema)]
pub struct Error {
    /// What is wrong, and what to do, for people.
    pub error: String,
}

impl Problem {
    /// The request is wrong.
    pub fn bad(text: impl ToString) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, text)
    }

    /// Who sends it may not.
    pub fn forbidden(text: impl ToString) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, text)
    }

    /// Nothing says who sends it.
    pub fn unknown_client(text: impl ToString) -> Problem {
        Problem::new(StatusCode::UNAUTHORIZED, text)
    }

    /// What it is about is not there.
    pub fn not_found(text: impl ToString) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, text)
    }

    /// As many such requests are worked on as may be.
    pub fn busy() -> Problem {
        let text = "as many such requests are being worked on as may be at once: try again";
        let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, text);
        Problem { retry_after_s: Some(RETRY_AFTER_S), ..problem }
    }

    /// Too many wrong tokens came from where this comes from.
    pub fn guesser(left_out: Duration) -> Problem {
        let seconds = left_out.as_secs() + 1;
        let text = format!("too many wrong tokens came from this address: wait {seconds} s");
        let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, text);
        Problem { retry_after_s: Some(seconds), ..problem }
    }

    /// It took too long.
    pub fn late() -> Problem {
        let text = "it took too long: ask for less, as a shorter span of time";
        Problem::new(StatusCode::GATEWAY_TIMEOUT, text)
    }

    /// Its body is too long.
    pub fn too_large(bytes_max: usize) -> Problem {
        let text = format!("the body of a request has at most {bytes_max} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, text)
    }

    /// Its body does not come.
    pub fn slow() -> Problem {
        Problem::new(StatusCode::REQUEST_TIMEOUT, "the body of the request did not come in time")
    }

    /// A capture's refusal is the client's affair; everything else is ours.
    pub fn of_capture(error: &anyhow::Error) -> Problem {
        let is_refusal = error.chain().any(|cause| cause.downcast_ref::<Refusal>().is_some());
        let status = if is_refusal { StatusCode::CONFLICT } else { StatusCode::BAD_GATEWAY };
        Problem::new(status, format!("{error:#}"))
    }

    /// What would answer it is not there.
    pub fn absent(error: &anyhow::Error) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("{error:#}"))
    }

    /// Something else failed.
    pub fn failed(error: &anyhow::Error) -> Problem {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}"))
    }

    fn new(status: StatusCode, text: impl ToString) -> Problem {
        Problem { status, text: text.to_string(), retry_after_s: None }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(Error { error: self.text })).into_response();
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}
