//! Whole hellos: what tls-parser reads of the same bytes.

use crate::support::messages::TLS_HELLO;
use ringside_proto::tls::{ClientHelloBody, Extensions, ServerHello};
use tls_parser::{TlsMessage, TlsMessageHandshake};

/// A ServerHello with the version and the key share of TLS 1.3.
const SERVER_HELLO: &[u8] = b"\x02\0\0\x36\x03\x03abcdefghijklmnopqrstuvwxyz012345\x02id\x13\x01\0\
    \0\x0c\0\x2b\0\x02\x03\x04\0\x33\0\x02\0\x1d";

/// The message with the length that it has.
fn message(bytes: &[u8]) -> Vec<u8> {
    let Some((&kind, body)) = bytes.split_first() else { return Vec::new() };
    let body = body.get(3..).unwrap_or_default();
    let [_, length @ ..] = (body.len() as u32).to_be_bytes();
    [&[kind], &length[..], body].concat()
}

/// How many extensions tls-parser finds, if it reads them all.
fn extensions(bytes: Option<&[u8]>) -> Option<usize> {
    let (rest, found) = tls_parser::parse_tls_extensions(bytes.unwrap_or_default()).ok()?;
    rest.is_empty().then_some(found.len())
}

/// Each extension lies behind the one before.
fn count(extensions: Extensions<'_>, body: &[u8]) -> usize {
    let mut bytes = 0;
    let found = extensions.inspect(|(_, data)| bytes += 4 + data.len()).count();
    assert!(bytes <= body.len());
    found
}

/// What tls-parser reads and we refuse has extensions that are longer than it, which it leaves out.
fn refused(extensions: Option<&[u8]>) {
    assert_eq!(extensions, None);
}

#[test]
fn tls_parser_reads_the_same_of_any_hello() {
    let seeds = [TLS_HELLO[5..].to_vec(), SERVER_HELLO.to_vec()];
    let compared = std::cell::Cell::new(0);
    ringside_testkit::fuzz("proto-tls-hellos", 60_000, &seeds, |bytes| {
        let message = message(bytes);
        let body = message.get(4..).unwrap_or_default();
        let (client, server) = (ClientHelloBody::parse(body), ServerHello::parse(body));
        if let Ok(hello) = &client {
            count(hello.extensions, body);
        }
        if let Ok(hello) = &server {
            count(hello.extensions, body);
        }
        let theirs = tls_parser::parse_tls_message_handshake(&message);
        let Ok((_, TlsMessage::Handshake(theirs))) = theirs else { return };
        match theirs {
            TlsMessageHandshake::ClientHello(theirs) => {
                let Ok(ours) = client else { return refused(theirs.ext) };
                assert_eq!(ours.legacy_version, theirs.version.0);
                assert_eq!(ours.session_id, theirs.session_id.unwrap_or_default());
                let ciphers = theirs.ciphers.iter().map(|cipher| cipher.0);
                assert!(ours.cipher_suites.eq(ciphers));
                let Some(expected) = extensions(theirs.ext) else { return };
                assert_eq!(count(ours.extensions, body), expected);
            }
            TlsMessageHandshake::ServerHello(theirs) => {
                let Ok(ours) = server else { return refused(theirs.ext) };
                assert_eq!(
                    (ours.legacy_version, ours.cipher_suite),
                    (theirs.version.0, theirs.cipher.0)
                );
                assert_eq!(ours.session_id, theirs.session_id.unwrap_or_default());
            }
            _ => return,
        }
        compared.set(compared.get() + 1);
    });
    assert!(compared.get() > 1_000, "{}", compared.get());
}
