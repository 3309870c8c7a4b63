//! HTTP/1 as tshark reads it.

use super::rows::{Differences, Row, plain, rows};
use ringside_proto::{Outcome, http1};

const OTHER_PORT: &str = "tshark takes the port for another protocol's";
const CONNECT: &str = "tshark takes the host from the header alone";
const REFUSED: &str = "breaks the grammar, as httparse says too";
const CUT: &str = "cut within a word that tshark gives as it is";

#[test]
fn tshark_finds_the_same_http() {
    let test = "tshark_finds_the_same_http";
    let rows = rows(test);
    if rows.is_empty() {
        return;
    }
    let mut differences = Differences::default();
    for row in rows {
        compare(row, &mut differences);
    }
    let expected = [(OTHER_PORT, 14), (CONNECT, 1), (REFUSED, 10), (CUT, 3)];
    differences.check(test, &expected);
}

fn compare(row: &Row, differences: &mut Differences) {
    let outcome = http1::parse(&row.payload);
    let ours = outcome.found().unwrap_or_default();
    let is_cut = matches!(outcome, Outcome::Incomplete(_));
    let explain = |ours: Option<&str>, theirs: Option<&str>| match (ours, theirs) {
        (Some(_), None) if !row.has_layer("http") && !row.has_layer("ssdp") => Some(OTHER_PORT),
        (Some(_), None) if is_connect(row) => Some(CONNECT),
        (None, Some(_)) if outcome == Outcome::NotThis && httparse_refuses(&row.payload) => {
            Some(REFUSED)
        }
        (None, Some(theirs)) if is_cut && is_in_last_line(theirs, row) => Some(CUT),
        _ => None,
    };
    let mut field = |name: &str, value: Option<String>| {
        differences.compare(row, (value, row.first(name).map(str::to_owned)), explain);
    };
    field("http.request.method", ours.method.map(plain));
    field("http.request.uri", ours.target.map(plain));
    field("http.response.code", ours.status.map(|status| status.to_string()));
    // tshark gives the whole header.
    let theirs = row.first("http.host").map(without_port);
    differences.compare(row, (ours.host.map(plain), theirs), explain);
}

fn is_in_last_line(value: &str, row: &Row) -> bool {
    plain(&row.payload).lines().last().is_some_and(|line| line.contains(value))
}

fn is_connect(row: &Row) -> bool {
    row.payload.starts_with(b"CONNECT ")
}

fn httparse_refuses(payload: &[u8]) -> bool {
    let mut headers = [httparse::EMPTY_HEADER; 128];
    httparse::Request::new(&mut headers).parse(payload).is_err()
}

/// `host` of `host:port`.
fn without_port(host: &str) -> String {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name.to_owned(),
        _ => host.to_owned(),
    }
}
