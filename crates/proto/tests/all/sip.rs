//! SIP: the examples of RFC 3261, the torture tests of RFC 4475, and what must not pass.

use crate::support::messages::{SIP_INVITE, SIP_RINGING, SIP_TORTUOUS, SIP_WIDE};
use ringside_proto::sip::{looks_like, parse};
use ringside_proto::{Outcome, Sip};

fn text(field: Option<&[u8]>) -> String {
    field.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()).unwrap_or_default()
}

#[track_caller]
fn fields(payload: &[u8]) -> Sip<'_> {
    match parse(payload) {
        Outcome::Fields(found) => found,
        other => panic!("{other:?}"),
    }
}

fn via(sip: &Sip<'_>) -> String {
    String::from_utf8(sip.via.unwrap().bytes().collect()).unwrap()
}

#[test]
fn the_examples_of_the_rfc() {
    let invite = fields(SIP_INVITE);
    assert_eq!((text(invite.method).as_str(), invite.status), ("INVITE", None));
    assert_eq!(text(invite.uri), "sip:bob@biloxi.com");
    assert_eq!(text(invite.call_id), "a84b4c76e66710");
    assert_eq!(text(invite.from.unwrap().uri()), "sip:alice@atlanta.com");
    assert_eq!(text(invite.to.unwrap().uri()), "sip:bob@biloxi.com");
    let to = invite.to.unwrap().value();
    assert_eq!(to.raw(), b"Bob <sip:bob@biloxi.com>");
    assert_eq!(via(&invite), "SIP/2.0/UDP pc33.atlanta.com;branch=z9hG4bKnashds8");

    let ringing = fields(SIP_RINGING);
    assert_eq!([invite.via_host(), ringing.via_host()], [Some(&b"pc33.atlanta.com"[..]); 2]);
    assert_eq!((ringing.method, ringing.uri, ringing.status), (None, None, Some(180)));
    let hop = "SIP/2.0/UDP pc33.atlanta.com;branch=z9hG4bKnashds8 ;received=192.0.2.1";
    assert_eq!(via(&ringing), hop);
    assert!(looks_like(SIP_INVITE) && looks_like(SIP_RINGING));
}

#[test]
fn a_tortuous_invite() {
    let invite = fields(SIP_TORTUOUS);
    assert_eq!(text(invite.from.unwrap().uri()), "sip:jdrosen@example.com");
    assert_eq!(text(invite.to.unwrap().uri()), "sip:vivekg@chair-dnrc.example.com");
    assert_eq!(text(invite.call_id), "wsinv.ndaksdj@192.0.2.1");
    assert_eq!(via(&invite), "SIP  /   2.0 /UDP 192.0.2.2;branch=390skdjuw");
    let from: Vec<u8> = invite.from.unwrap().value().bytes().collect();
    let expected = r#""J Rosenberg \\\""       <sip:jdrosen@example.com> ; tag = 98asjd8"#;
    assert_eq!(String::from_utf8(from).unwrap(), expected);
    assert!(looks_like(SIP_TORTUOUS));
}

#[test]
fn the_host_in_a_via() {
    for (via, host) in [
        ("SIP/2.0/UDP 192.0.2.1:5060;branch=z9", Some("192.0.2.1")),
        ("SIP / 2.0 / TCP \r\n\t[2001:db8::1]:5061 ;rport", Some("[2001:db8::1]")),
        ("SIP/2.0/UDP a.example , SIP/2.0/UDP b.example", Some("a.example")),
        ("SIP/2.0/UDP first.example : 4000", Some("first.example")),
        ("SIP/2.0/UDP", None),
        ("SIP/2.0/UDP ;branch=z9", None),
        ("SIP/2.0/UDP [2001:db8::1", None),
        ("SIP/2.0", None),
    ] {
        let message = format!("OPTIONS sip:a@b SIP/2.0\r\nVia: {via}\r\n\r\n");
        let found = fields(message.as_bytes());
        assert_eq!(found.via_host(), host.map(str::as_bytes), "{via}");
    }
}

#[test]
fn unusual_characters() {
    let found = fields(SIP_WIDE);
    assert_eq!(text(found.method), "!interesting-Method0123456789_*+`.%indeed'~");
    let to = found.to.unwrap().uri();
    assert_eq!(text(to), "sip:1_unusual.URI~(to-be!sure)@example.com");
}

#[test]
fn names_of_one_letter_and_lists() {
    let invite = fields(
        b"SIP/2.0 200\r\nv: A;x=\"a,b\" , B\r\nv: C\r\nf: sip:a@b;tag=1\r\n\
        t:<tel:1>\r\ni:\r\n 7\r\n\r\n",
    );
    assert_eq!(via(&invite), "A;x=\"a,b\"");
    assert_eq!(text(invite.from.unwrap().uri()), "sip:a@b");
    assert_eq!(text(invite.to.unwrap().uri()), "tel:1");
    assert_eq!(text(invite.call_id), "7");
    assert_eq!(invite.status, Some(200));
}

#[test]
fn a_uri_is_found_or_there_is_none() {
    for (from, uri) in [
        ("<sip:a@b>", "sip:a@b"),
        ("\"a <b>\" <sip:a@b;transport=tcp>;tag=1", "sip:a@b;transport=tcp"),
        ("\"\\\"<\" <sip:a@b>", "sip:a@b"),
        ("sip:a@b", "sip:a@b"),
        ("sip:a@b ;tag=1", "sip:a@b"),
        ("A B <sip:a@b", ""),
        ("<>", ""),
        ("sip:a@b>", ""),
        ("\\\"a\\\" <sip:a@b>", ""),
        ("<sip: a@b>", ""),
        ("a b", ""),
        ("\"open <sip:a@b>", ""),
    ] {
        let payload = format!("SIP/2.0 100 x\r\nFrom: {from}\r\n\r\n");
        assert_eq!(text(fields(payload.as_bytes()).from.unwrap().uri()), uri, "{from}");
    }
}

#[test]
fn a_cut_message_says_what_is_sure() {
    let found = |payload: &str| match parse(payload.as_bytes()) {
        Outcome::Incomplete(found) => {
            let from = found.from.map(|from| text(Some(from.value().raw()))).unwrap_or_default();
            [text(found.method), text(found.uri), from, text(found.call_id)].join("|")
        }
        other => panic!("{other:?} {payload}"),
    };
    for (payload, expected) in [
        ("", "|||"),
        ("\r\n\r\n", "|||"),
        ("SIP/2.0 200 O", "|||"),
        ("INVITE sip", "|||"),
        ("INVITE sip:", "INVITE|||"),
        ("INVITE tel:1 ", "INVITE|tel:1||"),
        ("OPTIONS im:a@b ", "|||"),
        ("OPTIONS im:a@b SIP/2.0", "OPTIONS|im:a@b||"),
        ("A sip:a SIP/2.0\r\nf: x\r\n", "A|sip:a||"),
        ("A sip:a SIP/2.0\r\nf: x\r\n\t", "A|sip:a||"),
        ("A sip:a SIP/2.0\r\nf: x\r\n\ty\r\ni", "A|sip:a|x\r\n\ty|"),
        ("A sip:a SIP/2.0\r\ni: x\r\n\r", "A|sip:a||x"),
    ] {
        assert_eq!(found(payload), expected, "{payload}");
    }
}

#[test]
fn what_breaks_the_grammar_is_not_sip() {
    for payload in [
        "INVITE  sip:a SIP/2.0\r\n\r\n",
        "INVITE sip:a SIP/2.0 \r\n\r\n",
        "INVITE sip:a SIP/3.0\r\n\r\n",
        "INV#TE sip:a SIP/2.0\r\n\r\n",
        "INVITE <sip:a b> SIP/2.0\r\n\r\n",
        "INVITE sip:a HTTP/1.1\r\n\r\n",
        "INVITE sip:a SIP/2.0\r\nno colon\r\n\r\n",
        "INVITE sip:a SIP/2.0\r\n folded: first\r\n\r\n",
        "INVITE sip:a SIP/2.0\r\nA|B: x\r\n\r\n",
        "SIP/2.0 20 OK\r\n\r\n",
        "SIP/2.0200 OK\r\n\r\n",
        "SIP/2.0 200 O\0\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
    ] {
        assert_eq!(parse(payload.as_bytes()), Outcome::NotThis, "{payload:?}");
    }
    let any_case = fields(b"sip/2.0 200 OK\n\n");
    assert_eq!(any_case.status, Some(200));
}

#[test]
fn other_protocols_do_not_look_like_it() {
    for payload in ["OPTIONS * HTTP/1.1\r\n", "OPTIONS rtsp://a RTSP/1.0", "SIP", "INVITE si", ""] {
        assert!(!looks_like(payload.as_bytes()), "{payload}");
    }
    assert!(looks_like(b"\r\n\r\nREGISTER sips:a@b"));
}
