//! Requests that say who sends them: AWS Signature Version 4, as S3 asks for it
//! (<https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html>).

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use std::fmt::Write;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Whose requests they are, and which part of the service takes them.
pub(super) struct Signer {
    /// Name and secret of a key.
    pub key: (String, String),
    pub region: String,
}

/// A request, as it is signed.
pub(super) struct Request<'r> {
    pub method: &'r str,
    /// As it stands in the URL.
    pub path: &'r str,
    /// Names in lower case, in order, without those that are added here.
    pub headers: &'r [(&'r str, &'r str)],
    pub body: &'r [u8],
}

impl Signer {
    /// The headers that a request needs in addition to its own: its time, the hash of its body, and
    /// the signature.
    pub fn sign(&self, request: &Request<'_>, now: Timestamp) -> [(&'static str, String); 3] {
        let time = now.strftime("%Y%m%dT%H%M%SZ").to_string();
        let day = now.strftime("%Y%m%d").to_string();
        let body = hex(&Sha256::digest(request.body));
        let mut headers: Vec<(&str, &str)> = request.headers.to_vec();
        headers.extend([("x-amz-content-sha256", &*body), ("x-amz-date", &*time)]);
        headers.sort_unstable();
        let signed: Vec<_> = headers.iter().map(|(name, _)| *name).collect();
        let signed = signed.join(";");
        let mut canonical = format!("{}\n{}\n\n", request.method, request.path);
        for (name, value) in &headers {
            canonical += &format!("{name}:{}\n", value.trim());
        }
        canonical += &format!("\n{signed}\n{body}");
        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let canonical = hex(&Sha256::digest(canonical));
        let text = format!("{ALGORITHM}\n{time}\n{scope}\n{canonical}");
        let secret = format!("AWS4{}", self.key.1);
        let parts = [&*day, &self.region, "s3", "aws4_request", &text];
        let signature =
            parts.iter().fold(secret.into_bytes(), |key, part| keyed_hash(&key, part.as_bytes()));
        let authorization = format!(
            "{ALGORITHM} Credential={}/{scope},SignedHeaders={signed},Signature={}",
            self.key.0,
            hex(&signature)
        );
        [("authorization", authorization), ("x-amz-content-sha256", body), ("x-amz-date", time)]
    }
}

/// HMAC-SHA256, which takes keys of any length.
fn keyed_hash(key: &[u8], text: &[u8]) -> Vec<u8> {
    match Hmac::<Sha256>::new_from_slice(key) {
        Ok(hash) => hash.chain_update(text).finalize().into_bytes().to_vec(),
        Err(_) => Vec::new(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // A String takes everything.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A key of an object as a path: all but letters, digits and `-._~/` is in hexadecimal.
pub(super) fn path_of(key: &str) -> String {
    key.bytes().fold(String::new(), |mut path, byte| {
        let is_plain = byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
        let _ = match is_plain {
            true => write!(path, "{}", char::from(byte)),
            false => write!(path, "%{byte:02X}"),
        };
        path
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the documentation.
    #[test]
    fn requests_are_signed_as_the_documentation_has_it() {
        let signer = Signer {
            key: ("AKIAIOSFODNN7EXAMPLE".into(), "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into()),
            region: "us-east-1".into(),
        };
        let host = ("host", "examplebucket.s3.amazonaws.com");
        let cases = [
            (
                Request {
                    method: "GET",
                    path: "/test.txt",
                    headers: &[host, ("range", "bytes=0-9")],
                    body: b"",
                },
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
            (
                Request {
                    method: "PUT",
                    path: &path_of("/test$file.text"),
                    headers: &[
                        ("date", "Fri, 24 May 2013 00:00:00 GMT"),
                        host,
                        ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
                    ],
                    body: b"Welcome to Amazon S3.",
                },
                "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
            ),
        ];
        for (request, signature) in cases {
            let now = "2013-05-24T00:00:00Z".parse().unwrap();
            let [(_, authorization), ..] = signer.sign(&request, now);
            assert!(authorization.ends_with(&format!("Signature={signature}")), "{authorization}");
            let credential = "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,";
            assert!(authorization.contains(credential), "{authorization}");
        }
    }

    #[test]
    fn what_is_not_plain_is_in_hexadecimal() {
        assert_eq!(path_of("/b/date=2026-11-29/~x y/ä"), "/b/date%3D2026-11-29/~x%20y/%C3%A4");
    }
}
