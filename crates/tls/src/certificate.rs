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

#[cfg(test)]
mod tests {
    use super::*;

    /// As openssl makes it for `/O=Lab/CN=known.test`.
    const DER: &str = "\
        3082019b30820141a00302010202141ec4bcdb93bede21c0b4094ad8706dcfa12ede01300a06082a8648ce3d\
        0403023023310c300a060355040a0c034c61623113301106035504030c0a6b6e6f776e2e74657374301e170d\
        3236313132373136343734355a170d3236313230363136343734355a3023310c300a060355040a0c034c6162\
        3113301106035504030c0a6b6e6f776e2e746573743059301306072a8648ce3d020106082a8648ce3d030107\
        03420004c89b50c7ebdce27cf1155ed781a34987f0bdfafc0b5357d7b65ffd6346d0b406f90b79ab754328d5\
        da4db0a858fb768ed08d3b3fa1376802aee28ea282a81150a3533051301d0603551d0e0416041443a1394439\
        76ea8e1f33f7c98e6ae45ddd7a1abf301f0603551d2304183016801443a139443976ea8e1f33f7c98e6ae45d\
        dd7a1abf300f0603551d130101ff040530030101ff300a06082a8648ce3d0403020348003045022033412a0f\
        2fdf60045dfe4b6e924a13d0fef24a44ae093069347ea57378e06f1e022100e31307bb37f78b3dbaa83ef653\
        6ae581f7132456e7e54c1fd5756c5d74ff4e5a";

    fn der() -> Vec<u8> {
        let byte = |at: usize| u8::from_str_radix(&DER[at..at + 2], 16).unwrap();
        (0..DER.len()).step_by(2).map(byte).collect()
    }

    #[test]
    fn it_says_what_openssl_wrote() {
        let name = || "O=Lab, CN=known.test".to_owned();
        let expected = Certificate {
            subject: name(),
            issuer: name(),
            serial: "1ec4bcdb93bede21c0b4094ad8706dcfa12ede01".into(),
            not_before: 1_795_798_065,
            not_after: 1_796_575_665,
        };
        assert_eq!(Certificate::parse(&der()), Some(expected));
        assert_eq!(Certificate::parse(&der()[..300]), None);
    }

    #[test]
    fn any_certificate_is_read_within_bounds_or_refused() {
        ringside_testkit::fuzz("certificate", 20_000, &[der()], |bytes| {
            let Some(found) = Certificate::parse(bytes) else { return };
            for name in [&found.subject, &found.issuer, &found.serial] {
                assert!(name.chars().count() <= SUBJECT_CHARS_MAX);
                assert!(!name.contains(char::is_control));
            }
        });
    }
}
