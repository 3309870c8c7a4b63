//! Other parsers of Rust as judges: httparse for whole messages, tls-parser for whole records.

use super::rows::rows;
use crate::support::text;
use ringside_proto::{Http1, Name, Outcome, http1, tls};
use ringside_testkit::by_run;

/// More header lines than this crate looks at, so that the judge does not stop before us.
const HEADERS_MAX: usize = 128;

#[test]
fn httparse_agrees_on_real_payloads() {
    let rows = rows("httparse_agrees_on_real_payloads");
    let agreed = rows.iter().filter(|row| httparse(&row.payload)).count();
    eprintln!("httparse agrees on {agreed} messages of {} payloads", rows.len());
    assert!(rows.is_empty() || agreed > by_run(400, 2000));
}

/// Mutated captures had one after 2 million inputs.
#[test]
fn a_whole_message_with_a_longer_method_than_ours_is_no_disagreement() {
    let longest = "M".repeat(64);
    assert!(httparse(format!("{longest} / HTTP/1.1\r\n\r\n").as_bytes()));
    assert!(!httparse(format!("{longest}M / HTTP/1.1\r\n\r\n").as_bytes()));
}

#[test]
fn tls_parser_agrees_on_real_payloads() {
    let rows = rows("tls_parser_agrees_on_real_payloads");
    let agreed = rows.iter().filter(|row| tls_parser(&row.payload)).count();
    eprintln!("tls-parser agrees on {agreed} hellos of {} payloads", rows.len());
    assert!(rows.is_empty() || agreed > by_run(50, 300));
}

/// Panics where httparse reads another message than we do. True if it read a whole one.
pub fn httparse(payload: &[u8]) -> bool {
    let ours = http1::parse(payload);
    let context = || format!("{ours:?} {}", text(payload));
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    if payload.trim_ascii_start().starts_with(b"HTTP/") {
        let mut response = httparse::Response::new(&mut headers);
        let judged = response.parse(payload);
        if judged.is_ok() && response.code.is_some() {
            let Some(found) = ours.found() else {
                assert!(is_over_a_limit(payload), "{}", context());
                return false;
            };
            let status = found.status;
            assert!(status.is_none() || status == response.code, "{}", context());
        }
        return matches!(judged, Ok(httparse::Status::Complete(_)));
    }
    let mut request = httparse::Request::new(&mut headers);
    let judged = request.parse(payload);
    let Ok(judged) = judged else { return false };
    let Some(found) = ours.found() else {
        assert!(is_over_a_limit(payload), "{}", context());
        return false;
    };
    if judged.is_partial() {
        return false;
    }
    assert!(matches!(ours, Outcome::Fields(_)), "{}", context());
    assert_eq!(found.method.map(text), request.method.map(|m| text(m.as_bytes())));
    assert_eq!(found.target.map(text), request.path.map(|path| text(path.as_bytes())));
    assert_eq!(found.minor_version, request.version);
    check_host(found, &request);
    true
}

/// True for more empty lines, or a longer method, than this crate takes.
fn is_over_a_limit(payload: &[u8]) -> bool {
    let message = payload.iter().position(|byte| !b"\r\n".contains(byte)).unwrap_or(payload.len());
    // The last one may have only begun.
    let lines = payload[..message].split_inclusive(|&byte| byte == b'\n').count();
    lines > 4 || payload[message..].iter().take(65).filter(|&&byte| byte != b' ').count() == 65
}

/// The host is that of the first Host header, where the target has none of its own.
fn check_host(found: Http1<'_>, request: &httparse::Request<'_, '_>) {
    let path = request.path.unwrap_or_default();
    if path.contains("://") || request.method == Some("CONNECT") {
        return;
    }
    let mut headers = request.headers.iter();
    let header = headers.find(|header| header.name.eq_ignore_ascii_case("host"));
    match (found.host, header) {
        (Some(host), Some(header)) => assert!(header.value.starts_with(host), "{header:?}"),
        (Some(_), None) => panic!("{found:?}"),
        (None, _) => {}
    }
}

/// Panics where tls-parser reads another name than we do. True if it read one.
pub fn tls_parser(payload: &[u8]) -> bool {
    let Some(theirs) = name_by_tls_parser(payload) else { return false };
    let mut name = Name::new();
    match tls::parse(payload, &mut name) {
        Outcome::Fields(hello) => {
            let written = |byte: u8| match byte {
                b'\\' => "\\\\".to_owned(),
                b'!'..=b'~' => char::from(byte).to_ascii_lowercase().to_string(),
                _ => format!("\\{byte:03}"),
            };
            let theirs: String = theirs.into_iter().map(written).collect();
            assert_eq!(hello.sni.map(text), Some(text(theirs.as_bytes())));
        }
        // We refuse more than it does: lengths that do not add up.
        Outcome::NotThis => {}
        Outcome::Incomplete(_) => panic!("{}", text(payload)),
    }
    true
}

/// The first name in a whole hello within one record.
fn name_by_tls_parser(payload: &[u8]) -> Option<Vec<u8>> {
    use tls_parser::{SNIType, TlsExtension, TlsMessage, TlsMessageHandshake};
    let (_, record) = tls_parser::parse_tls_plaintext(payload).ok()?;
    let Some(TlsMessage::Handshake(TlsMessageHandshake::ClientHello(hello))) = record.msg.first()
    else {
        return None;
    };
    let (_, extensions) = tls_parser::parse_tls_client_hello_extensions(hello.ext?).ok()?;
    let names = extensions.iter().find_map(|extension| match extension {
        TlsExtension::SNI(names) => Some(names),
        _ => None,
    })?;
    let (kind, name) = names.first()?;
    (*kind == SNIType::HostName && name.is_ascii()).then(|| name.to_vec())
}
