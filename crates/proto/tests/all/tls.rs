//! TLS: the ClientHello of RFC 8448, whole, cut, in many records, and broken in each field.

use crate::support::messages::{TLS_HELLO, tls_hello_in_records};
use ringside_proto::tls::{looks_like, parse};
use ringside_proto::{Name, Outcome};

/// Where the first extension begins in [`TLS_HELLO`]: the server's name.
const EXTENSIONS: usize = 56;

/// A whole hello with `extensions`.
fn hello(extensions: &[u8]) -> Vec<u8> {
    let length = |bytes: usize| (bytes as u16).to_be_bytes();
    let body = [&TLS_HELLO[9..EXTENSIONS - 2], &length(extensions.len()), extensions].concat();
    let message = [&[1, 0], &length(body.len())[..], &body].concat();
    [&[22, 3, 1], &length(message.len())[..], &message].concat()
}

/// The extension of the server's name with `name` in it.
fn sni(name: &[u8]) -> Vec<u8> {
    let length = |bytes: usize| (bytes as u16).to_be_bytes();
    let parts: [&[u8]; 6] = [
        &[0, 0],
        &length(name.len() + 5),
        &length(name.len() + 3),
        &[0],
        &length(name.len()),
        name,
    ];
    parts.concat()
}

fn found(payload: &[u8]) -> Result<Option<String>, &'static str> {
    let mut name = Name::new();
    match parse(payload, &mut name) {
        Outcome::Fields(hello) => {
            Ok(hello.sni.map(|name| String::from_utf8(name.to_vec()).unwrap()))
        }
        Outcome::Incomplete(hello) => {
            assert_eq!(hello.sni, None);
            Err("cut")
        }
        Outcome::NotThis => Err("malformed"),
    }
}

fn server() -> Result<Option<String>, &'static str> {
    Ok(Some("server".to_owned()))
}

#[test]
fn the_hello_of_the_rfc_whole_and_cut() {
    assert_eq!(found(TLS_HELLO), server());
    assert!(looks_like(TLS_HELLO) && looks_like(&TLS_HELLO[..6]) && !looks_like(&TLS_HELLO[..5]));
    // The name ends 15 bytes into the extensions.
    assert_eq!(found(&TLS_HELLO[..EXTENSIONS + 15]), server());
    for end in 0..EXTENSIONS + 15 {
        assert_eq!(found(&TLS_HELLO[..end]), Err("cut"), "{end}");
    }
}

#[test]
fn a_hello_may_lie_in_many_records() {
    for fragment_bytes in 1..TLS_HELLO.len() {
        assert_eq!(found(&tls_hello_in_records(fragment_bytes)), server(), "{fragment_bytes}");
    }
    let mut other = tls_hello_in_records(60);
    other[65] = 23;
    assert_eq!(found(&other), Err("malformed"), "application data between");
}

#[test]
fn a_second_hello_has_a_record_in_front() {
    let second = [b"\x14\x03\x03\x00\x01\x01", TLS_HELLO].concat();
    assert_eq!(found(&second), server());
    assert!(looks_like(&second));
    for end in 0..6 + EXTENSIONS + 15 {
        assert_eq!(found(&second[..end]), Err("cut"), "{end}");
    }
    assert_eq!(found(&[&second[..6], &second[..]].concat()), Err("malformed"), "two of them");
}

#[test]
fn names_are_lower_case_text_of_255_bytes() {
    assert_eq!(found(&hello(&sni(b"WWW.Example.ORG"))), Ok(Some("www.example.org".to_owned())));
    assert_eq!(found(&hello(&sni(b"a\xff\\"))), Ok(Some("a\\255\\\\".to_owned())));
    assert_eq!(found(&hello(&sni(&[0xff; 255]))).unwrap().unwrap().len(), 1020);
    assert_eq!(found(&hello(&sni(&[b'a'; 256]))), Ok(None));
}

#[test]
fn a_hello_without_a_name() {
    assert_eq!(found(&hello(&[])), Ok(None));
    assert_eq!(found(&hello(&[0, 0x17, 0, 0])), Ok(None));
    // The end of the compression methods is the end of an old hello.
    let mut old = TLS_HELLO[..EXTENSIONS - 2].to_vec();
    (old[4], old[8]) = (49, 45);
    assert_eq!(found(&old), Ok(None));
    let other_kind = [0, 0, 0, 6, 0, 4, 7, 0, 1, b'a'];
    assert_eq!(found(&hello(&other_kind)), Ok(None));
}

#[test]
fn lengths_that_do_not_fit_are_malformed() {
    let with = |at: usize, byte: u8| {
        let mut payload = TLS_HELLO.to_vec();
        payload[at] = byte;
        found(&payload)
    };
    for (at, byte, what) in [
        (0, 23, "record of another kind"),
        (1, 2, "record of another version"),
        (3, 0x41, "record too long"),
        (5, 2, "another message"),
        (6, 5, "message too long"),
        (8, 0xbf, "message shorter than its extensions"),
        (9, 2, "hello of SSL 2"),
        (43, 33, "session id too long"),
        (45, 0, "no cipher suites"),
        (52, 0, "no compression method"),
        (55, 0x90, "extensions shorter than the message"),
        (59, 0x91, "extension longer than the rest"),
        (59, 0x0c, "list shorter than its extension"),
        (61, 0x0a, "list longer than its extension"),
        (64, 7, "name longer than its list"),
        (64, 0, "empty name"),
    ] {
        assert_eq!(with(at, byte), Err("malformed"), "{what}");
    }
    assert_eq!(found(b"\x16\x03\x01\x00\x00"), Err("malformed"), "empty record");
    assert_eq!(found(&hello(&[0, 0x17, 0])), Err("malformed"), "extension without length");
}

#[test]
fn extensions_and_records_have_a_limit() {
    let many = |count: usize| hello(&[[0xff, 0, 0, 0].repeat(count), sni(b"a")].concat());
    assert_eq!(found(&many(63)), Ok(Some("a".to_owned())));
    assert_eq!(found(&many(64)), Ok(None));
    let long = hello(&[vec![0xff, 0, 0x10, 0], vec![0; 4096], sni(b"a")].concat());
    let in_bytes = long[5..].iter().flat_map(|&byte| [22, 3, 1, 0, 1, byte]).collect::<Vec<u8>>();
    assert_eq!(found(&in_bytes), Err("malformed"));
}
