//! Whole heads and bodies of HTTP/1.

use ringside_proto::http1::{
    Beginning, Body, Chunks, Head, Start, beginning, head_end, looks_like,
};

fn body(head: &str, method: Option<&str>) -> Body {
    Head::parse(head.as_bytes()).unwrap().body(method.map(str::as_bytes))
}

#[test]
fn a_head_ends_behind_its_empty_line_however_it_comes() {
    for (text, end) in [
        ("GET / HTTP/1.1\r\nA: b\r\n\r\nbody", Some(24)),
        ("\r\n\r\nGET / HTTP/1.1\r\n\r\n", Some(22)),
        ("GET / HTTP/1.1\nA: b\n\n", Some(21)),
        ("GET / HTTP/1.1\r\nA: b\r\n", None),
        ("GET / HTTP/1.1\r\nA: b\r\n\r", None),
        ("", None),
    ] {
        for seen in 0..=text.len() {
            if head_end(&text.as_bytes()[..seen], 0).is_none() {
                assert_eq!(head_end(text.as_bytes(), seen), end, "{text:?} {seen}");
            }
        }
    }
}

#[test]
fn start_lines_and_odd_ones() {
    let start = |line: &'static str| {
        let text = format!("{line}\r\n\r\n").leak();
        Head::parse(text.as_bytes()).map(|head| head.start)
    };
    let request = |method: &'static str, target: &'static str, minor_version| {
        let (method, target) = (method.as_bytes(), target.as_bytes());
        Some(Start::Request { method, target, minor_version })
    };
    assert_eq!(start("GET / HTTP/1.1"), request("GET", "/", Some(1)));
    assert_eq!(start("GET /a b HTTP/1.0"), request("GET", "/a b", Some(0)));
    assert_eq!(start("GET /"), request("GET", "/", None));
    let response = |status, reason: &'static str, minor_version| {
        Some(Start::Response { status, reason: reason.as_bytes(), minor_version })
    };
    assert_eq!(start("HTTP/1.1 200 All is well"), response(200, "All is well", 1));
    assert_eq!(start("HTTP/1.0 304"), response(304, "", 0));
    for line in ["HTTP/1.1 2000 OK", "HTTP/1.1 20", "HTTP/1.x 200 OK", "GET", "HTTP/1.1 OK"] {
        assert_eq!(start(line), None, "{line}");
    }
}

#[test]
fn header_lines_are_read_leniently() {
    let head =
        Head::parse(b"GET / HTTP/1.1\r\nA: 1\r\nno colon\r\nB : 2\r\n 3\r\nC:\r\n\r\nD: 4\r\n");
    let lines: Vec<_> = head.unwrap().lines().collect();
    let lines: Vec<_> =
        lines.iter().map(|(name, value)| (*name, value.bytes().collect::<Vec<_>>())).collect();
    let expected: [(&[u8], &[u8]); 3] = [(b"A", b"1"), (b"B", b"2 3"), (b"C", b"")];
    assert_eq!(lines, expected.map(|(name, value)| (name, value.to_vec())));
}

#[test]
fn bodies_are_as_long_as_the_rfc_says() {
    let response = |status: u16, lines: &str| format!("HTTP/1.1 {status} X\r\n{lines}\r\n\r\n");
    let length = "Content-Length: 5";
    let chunked = "Transfer-Encoding: gzip, chunked";
    for (head, method, expected) in [
        (response(200, length), Some("GET"), Body::Length(5)),
        (response(200, length), None, Body::Length(5)),
        (response(200, length), Some("HEAD"), Body::None),
        (response(200, length), Some("CONNECT"), Body::Tunnel),
        (response(407, length), Some("CONNECT"), Body::Length(5)),
        (response(100, ""), Some("GET"), Body::None),
        (response(101, ""), Some("GET"), Body::Tunnel),
        (response(304, length), Some("GET"), Body::None),
        (response(200, ""), Some("GET"), Body::UntilClose),
        (response(200, chunked), Some("GET"), Body::Chunked),
        (response(200, &format!("{length}\r\n{chunked}")), Some("GET"), Body::Chunked),
        (response(200, "Transfer-Encoding: gzip"), Some("GET"), Body::UntilClose),
        (response(200, "Content-Length: 5, 5"), Some("GET"), Body::Length(5)),
        (response(200, "Content-Length: 5\r\nContent-Length: 6"), Some("GET"), Body::UntilClose),
        (response(200, "Content-Length: 99999999999999999999"), None, Body::UntilClose),
        ("GET / HTTP/1.1\r\n\r\n".into(), None, Body::None),
        ("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n".into(), None, Body::Length(5)),
        ("POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n".into(), None, Body::None),
        ("GET /\r\n\r\n".into(), None, Body::None),
    ] {
        assert_eq!(body(&head, method), expected, "{head}");
    }
}

#[test]
fn chunks_however_they_are_cut() {
    let text = b"4\r\nWiki\r\n6;a=b\r\npedia \r\nE \r\nin \r\n\r\nchunks.\r\n0\r\nA: b\r\n\r\nnext";
    for step in 1..text.len() {
        let (mut chunks, mut used, mut contents) = (Chunks::default(), 0, 0);
        for piece in text.chunks(step) {
            let (here, body) = chunks.take_in(piece);
            (used, contents) = (used + here, contents + body);
        }
        assert!(chunks.is_done());
        assert_eq!((used, contents), (text.len() - 4, 4 + 6 + 14), "{step}");
    }
    let mut chunks = Chunks::default();
    chunks.take_in(b"a\r\n12");
    assert!(chunks.skip(5));
    assert_eq!(chunks.take_in(b"890\r\n0\r\n\r\n").1, 3);
    assert!(chunks.is_done());
    for broken in ["\r\n", "x", "1\r\nab", "11111111111111111\r\n", "1x\r\n"] {
        let mut chunks = Chunks::default();
        chunks.take_in(broken.as_bytes());
        assert!(chunks.is_broken(), "{broken:?}");
    }
    let mut chunks = Chunks::default();
    chunks.take_in(b"1\r\na");
    assert!(!chunks.skip(1) && chunks.is_broken());
}

#[test]
fn a_beginning_is_never_taken_back() {
    for text in [
        "GET / HTTP/1.1\r\n",
        "\r\nPOST http://a/ HTTP/1.1\r\n",
        "HTTP/1.1 200 OK\r\n",
        "OPTIONS * HTTP/1.1\r\n",
        "CONNECT a:443 HTTP/1.1\r\n",
        "HEAD /x HTTP/1.0\r\n",
        "INVITE sip:a@b SIP/2.0\r\n",
        "\x16\x03\x01",
        "SSH-2.0-OpenSSH\r\n",
    ] {
        let all = beginning(text.as_bytes());
        assert_ne!(all, Beginning::Undecided, "{text}");
        assert_eq!(
            matches!(all, Beginning::Request | Beginning::Response),
            looks_like(text.as_bytes())
        );
        for end in 0..text.len() {
            let part = beginning(&text.as_bytes()[..end]);
            assert!(part == Beginning::Undecided || part == all, "{text} {end} {part:?}");
        }
    }
}

#[test]
fn any_head_is_read_or_refused() {
    let seeds: [&[u8]; 4] = [
        b"GET /a?b HTTP/1.1\r\nHost: h\r\nContent-Length: 5, 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\nA: b\r\n\r\n",
        b"POST / HTTP/1.0\r\nA: b\r\n c\r\n\r\n",
        b"HTTP/1.0 404\r\n\r\n",
    ];
    let seeds = seeds.map(<[u8]>::to_vec);
    ringside_testkit::fuzz("proto HTTP heads", 60_000, &seeds, |input| {
        let end = head_end(input, 0);
        // However much was looked at before, the end is the same.
        let middle = input.len() / 2;
        if head_end(&input[..middle], 0).is_none() {
            assert_eq!(head_end(input, middle), end);
        }
        let Some(head) = Head::parse(&input[..end.unwrap_or(input.len())]) else { return };
        let lines: usize = head.lines().map(|(name, value)| name.len() + value.raw().len()).sum();
        assert!(lines <= input.len());
        let _ = (head.body(None), head.body(Some(b"HEAD")), head.content_length());
        let (mut all, mut parts) = (Chunks::default(), Chunks::default());
        let whole = all.take_in(input);
        let (first, second) = input.split_at(middle);
        let (one, other) = (parts.take_in(first), (0, 0));
        let other = if one.0 == first.len() { parts.take_in(second) } else { other };
        assert_eq!((one.0 + other.0, one.1 + other.1), whole);
        assert_eq!((all.is_done(), all.is_broken()), (parts.is_done(), parts.is_broken()));
    });
}
