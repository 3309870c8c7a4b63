//! Where the body of a message ends (RFC 9112 section 6.3).

use super::head::{Head, Start};

/// How long a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// There is none.
    None,
    /// As many bytes.
    Length(u64),
    /// In chunks, of which the last says so.
    Chunked,
    /// Up to the end of the connection.
    UntilClose,
    /// The connection carries another protocol from now on.
    Tunnel,
}

impl Head<'_> {
    /// How long the body behind this head is; of a response to a request with this method, if that
    /// is known.
    pub fn body(&self, method: Option<&[u8]>) -> Body {
        match self.start {
            Start::Request { minor_version: None, .. } => Body::None,
            Start::Request { .. } => self.framing().unwrap_or(Body::None),
            Start::Response { status: 101, .. } => Body::Tunnel,
            Start::Response { status: 100..200 | 204 | 304, .. } => Body::None,
            Start::Response { .. } if method == Some(b"HEAD".as_slice()) => Body::None,
            Start::Response { status: 200..300, .. } if method == Some(b"CONNECT".as_slice()) => {
                Body::Tunnel
            }
            Start::Response { .. } => self.framing().unwrap_or(Body::UntilClose),
        }
    }

    /// The length by Content-Length, if it says one; several must agree.
    pub fn content_length(&self) -> Option<u64> {
        let mut length = None;
        for (name, value) in self.lines() {
            if !name.eq_ignore_ascii_case(b"content-length") {
                continue;
            }
            for element in value.elements() {
                let this = decimal(element)?;
                if length.replace(this).is_some_and(|other| other != this) {
                    return None;
                }
            }
        }
        length
    }

    /// What Transfer-Encoding says, which comes first, or Content-Length.
    fn framing(&self) -> Option<Body> {
        let mut codings =
            self.lines().filter(|(name, _)| name.eq_ignore_ascii_case(b"transfer-encoding"));
        if let Some((_, value)) = codings.next() {
            let last = codings.last().map_or(value, |(_, value)| value);
            let last = last.elements().next_back()?;
            if last.eq_ignore_ascii_case(b"chunked") {
                return Some(Body::Chunked);
            }
            if !last.eq_ignore_ascii_case(b"identity") {
                return None;
            }
        }
        self.content_length().map(Body::Length)
    }
}

fn decimal(digits: &[u8]) -> Option<u64> {
    let digit = |sum: Option<u64>, digit: &u8| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        sum?.checked_mul(10)?.checked_add(digit)
    };
    if digits.is_empty() { None } else { digits.iter().fold(Some(0), digit) }
}
