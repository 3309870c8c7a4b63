//! HTTP/1: the examples of RFC 9110 and 9112, and what must not pass.

use crate::support::messages::{
    HTTP_CONNECT, HTTP_GET, HTTP_OK, HTTP_OPTIONS, HTTP_PROXY, HTTP_SSDP,
};
use ringside_proto::http1::{looks_like, parse};
use ringside_proto::{Http1, Outcome};

fn request<'a>(method: &'a str, target: &'a str, host: Option<&'a str>) -> Outcome<Http1<'a>> {
    Outcome::Fields(Http1 {
        method: Some(method.as_bytes()),
        target: Some(target.as_bytes()),
        minor_version: Some(1),
        host: host.map(str::as_bytes),
        status: None,
    })
}

fn host(payload: &str) -> Option<String> {
    match parse(payload.as_bytes()) {
        Outcome::Fields(found) => found.host.map(|host| String::from_utf8(host.to_vec()).unwrap()),
        other => panic!("{other:?} {payload}"),
    }
}

#[test]
fn the_examples_of_the_rfcs() {
    assert_eq!(parse(HTTP_GET), request("GET", "/hello.txt", Some("www.example.com")));
    let target = "http://www.example.org/pub/WWW/TheProject.html";
    assert_eq!(parse(HTTP_PROXY), request("GET", target, Some("www.example.org")));
    let target = "www.example.com:80";
    assert_eq!(parse(HTTP_CONNECT), request("CONNECT", target, Some("www.example.com")));
    assert_eq!(parse(HTTP_OPTIONS), request("OPTIONS", "*", Some("www.example.org")));
    assert_eq!(parse(HTTP_SSDP), request("M-SEARCH", "*", Some("239.255.255.250")));
    let response = Http1 { status: Some(200), minor_version: Some(1), ..Http1::default() };
    assert_eq!(parse(HTTP_OK), Outcome::Fields(response));
    for message in [HTTP_GET, HTTP_PROXY, HTTP_CONNECT, HTTP_OPTIONS, HTTP_SSDP, HTTP_OK] {
        assert!(looks_like(message));
    }
}

#[test]
fn a_host_comes_without_its_port() {
    let of = |line: &str| host(&format!("GET / HTTP/1.1\r\n{line}\r\n\r\n"));
    for (line, expected) in [
        ("Host: a.example", Some("a.example")),
        ("hOST:\t a.example:8080 \t", Some("a.example")),
        ("Host:a.example:", Some("a.example")),
        ("Host: [2001:db8::1]:443", Some("[2001:db8::1]")),
        ("Host: [2001:db8::1]", Some("[2001:db8::1]")),
        ("Host:\r\n a.example", Some("a.example")),
        ("A: 1\r\n and more\r\nHost: a.example", Some("a.example")),
        ("Host: A.Example", Some("A.Example")),
        ("Host: first\r\nHost: second", Some("first")),
        ("Host:", None),
        ("Host: a b", None),
        ("Host: a\r\n b", None),
        ("Host: a:b", None),
        ("Host: []", None),
        ("Host: [::1", None),
        ("Host: [::1]x", None),
        ("Host: user@a", None),
        ("Hosts: a", None),
    ] {
        assert_eq!(of(line).as_deref(), expected, "{line}");
    }
}

#[test]
fn a_host_in_the_target_comes_first() {
    for (line, expected) in [
        ("GET http://a.example HTTP/1.1", Some("a.example")),
        ("GET HTTP://user:word@a.example:80?q HTTP/1.1", Some("a.example")),
        ("GET http://[::1]/x@y HTTP/1.1", Some("[::1]")),
        ("GET ftp://a.example/ HTTP/1.0", Some("a.example")),
        ("CONNECT [::1]:443 HTTP/1.1", Some("[::1]")),
        ("GET http:///x HTTP/1.1", Some("header")),
        ("GET /?u=http://a.example HTTP/1.1", Some("header")),
        ("\r\n\r\nGET / HTTP/1.1", Some("header")),
    ] {
        let payload = format!("{line}\r\nHost: header\r\n\r\n");
        assert_eq!(host(&payload).as_deref(), expected, "{line}");
        assert!(looks_like(payload.as_bytes()) || line.starts_with("GET ftp"), "{line}");
    }
}

#[test]
fn a_cut_message_says_what_is_sure() {
    let found = |payload: &str| match parse(payload.as_bytes()) {
        Outcome::Incomplete(found) => {
            let text = |field: Option<&[u8]>| field.map(crate::support::text).unwrap_or_default();
            let version = found.minor_version.map(|digit| digit.to_string()).unwrap_or_default();
            [text(found.method), text(found.target), version, text(found.host)].join("|")
        }
        other => panic!("{other:?} {payload}"),
    };
    for (payload, expected) in [
        ("", "|||"),
        ("\r\n\r", "|||"),
        ("HT", "|||"),
        ("GET", "|||"),
        ("GET /", "GET|||"),
        ("GET /a", "GET|||"),
        ("GET /a ", "GET|/a||"),
        ("OPTIONS sip:a@b ", "|||"),
        ("NOTIFY * HTT", "|||"),
        ("NOTIFY * HTTP/1.", "NOTIFY|*||"),
        ("GET http://a/ ", "GET|http://a/||"),
        ("GET http://a/ HTTP/1.", "GET|http://a/||a"),
        ("GET / HTTP/1.1\r", "GET|/||"),
        ("GET / HTTP/1.1\r\n", "GET|/|1|"),
        ("GET / HTTP/1.1\r\nHost: a", "GET|/|1|"),
        ("GET / HTTP/1.1\r\nHost: a\r\n", "GET|/|1|"),
    ] {
        assert_eq!(found(payload), expected, "{payload}");
    }
    assert_eq!(host("GET / HTTP/1.1\r\nHost: a\r\nX").as_deref(), Some("a"));
    let cut = parse(b"HTTP/1.1 200");
    assert_eq!(cut, Outcome::Incomplete(Http1::default()));
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(1 << 17));
    assert_eq!(host(&long).as_deref(), Some("a"));
}

#[test]
fn what_breaks_the_grammar_is_not_http() {
    for payload in [
        "\0",
        " GET / HTTP/1.1\r\n\r\n",
        "GET  / HTTP/1.1\r\n\r\n",
        "GET / a HTTP/1.1\r\n\r\n",
        "GET /\r\n",
        "GET / HTTP/1.1 \r\n\r\n",
        "GET / HTTP/2.0\r\n\r\n",
        "GET / http/1.1\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "G(T / HTTP/1.1\r\n\r\n",
        "GET /\x7f HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\rHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\n Host: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\n: a\r\n\r\n",
        "GET / HTTP/1.1\r\nA: \0\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\rc\r\n\r\n",
        "HTTP/1.1  200 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1200 OK\r\n\r\n",
        "HTTP/2 200\r\n\r\n",
        "SIP/2.0 200 OK\r\n\r\n",
        "OPTIONS rtsp://a/ RTSP/1.0\r\n\r\n",
        "EHLO mail.example.org\r\n",
    ] {
        assert_eq!(parse(payload.as_bytes()), Outcome::NotThis, "{payload:?}");
    }
    let method = |bytes: usize| format!("{} / HTTP/1.0\r\n\r\n", "A".repeat(bytes));
    assert!(matches!(parse(method(64).as_bytes()), Outcome::Fields(_)));
    assert_eq!(parse(method(65).as_bytes()), Outcome::NotThis);
    assert_eq!(parse("A".repeat(65).as_bytes()), Outcome::NotThis);
    assert!(matches!(parse(b"\n\n\n\nGET / HTTP/1.0\n\n"), Outcome::Fields(_)));
    assert_eq!(parse(b"\n\n\n\n\nGET / HTTP/1.0\n\n"), Outcome::NotThis);
}

#[test]
fn a_hundred_header_lines_are_looked_at() {
    let lines =
        |count: usize| format!("GET / HTTP/1.1\r\n{}Host: a\r\n\r\n", "A: b\r\n".repeat(count));
    assert_eq!(host(&lines(99)).as_deref(), Some("a"));
    assert_eq!(host(&lines(100)), None);
}

#[test]
fn other_protocols_do_not_look_like_it() {
    for payload in [
        "INVITE sip:a@b SIP/2.0\r\n",
        "OPTIONS rtsp://a/b RTSP/1.0\r\n",
        "OPTIONS * RTSP/1.0\r\n",
        "SIP/2.0 200 OK\r\n",
        "PRI * HTTP/2.0\r\n",
        "get / HTTP/1.1\r\n",
        "SSH-2.0-OpenSSH\r\n",
        "GET",
        "",
    ] {
        assert!(!looks_like(payload.as_bytes()), "{payload}");
    }
}
