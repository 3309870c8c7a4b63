//! What a certificate says (RFC 5280).

use crate::limits::SUBJECT_CHARS_MAX;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The server's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Whose it is.
    pub subject: String,
    /// Who says so.
    pub issuer: String,
    /// Its number at the issuer, in hexadecimal digits.
    pub serial: String,
    /// Seconds since 1970 from which it holds.
    pub not_before: i64,
    /// Seconds since 1970 to which it holds.
    pub not_after: i64,
}

impl Certificate {
    /// Reads one; none if it is malformed.
    pub(crate) fn parse(der: &[u8]) -> Option<Certificate> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let plain = |name: String| -> String {
            let plain = name.chars().map(|c| if c.is_control() { '?' } else { c });
            plain.take(SUBJECT_CHARS_MAX).collect()
        };
        let serial = certificate.raw_serial().iter().map(|byte| format!("{byte:02x}"));
        let validity = certificate.validity();
        Some(Certificate {
            subject: plain(certificate.subject().to_string()),
            issuer: plain(certificate.issuer().to_string()),
            serial: serial.take(SUBJECT_CHARS_MAX / 2).collect(),
            not_before: validity.not_before.timestamp(),
            not_after: validity.not_after.timestamp(),
        })
    }
}
