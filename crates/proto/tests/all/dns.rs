//! DNS: names as RFC 1035 and 4343 write them, and what must not pass.

use crate::support::messages::{DNS_QUERY, dns_over_tcp};
use ringside_proto::dns::{looks_like, looks_like_tcp, parse, parse_tcp};
use ringside_proto::{Dns, Name, Outcome};

const HEADER: &[u8] = b"\0\x01\x01\0\0\x01\0\0\0\0\0\0";

/// A query for type 28 with `name` as on the wire.
fn query(name: &[u8]) -> Vec<u8> {
    [HEADER, name, b"\0\x1c\0\x01"].concat()
}

fn labels(labels: &[&[u8]]) -> Vec<u8> {
    let label = |label: &&[u8]| [&[label.len() as u8], *label].concat();
    labels.iter().flat_map(label).chain([0]).collect()
}

/// The name of the question, or how there is none.
fn name(message: &[u8]) -> Result<String, &'static str> {
    let mut name = Name::new();
    match parse(message, &mut name) {
        Outcome::Fields(Dns { qname: Some(name), qtype: Some(28), .. }) => {
            Ok(String::from_utf8(name.to_vec()).unwrap())
        }
        Outcome::Incomplete(_) => Err("cut"),
        Outcome::NotThis => Err("malformed"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_name_of_the_rfc() {
    let mut name = Name::new();
    let found = Dns { is_response: Some(false), qname: Some(b"f.isi.arpa"), qtype: Some(1) };
    assert_eq!(parse(DNS_QUERY, &mut name), Outcome::Fields(found));
    assert_eq!(parse_tcp(&dns_over_tcp(DNS_QUERY), &mut name), Outcome::Fields(found));
    assert_eq!(format!("{name:?}"), "Name(\"f.isi.arpa\")");
}

#[test]
fn names_are_written_in_one_way_only() {
    for (wire, text) in [
        (&[][..], "."),
        (&[&b"WWW"[..], b"Example", b"ORG"][..], "www.example.org"),
        // RFC 4343 section 2.1 has these.
        (&[b"a.b", b"c"], "a\\.b.c"),
        (&[b"a\\b"], "a\\\\b"),
        (&[b"a b\0\x7f"], "a\\032b\\000\\127"),
        (&[b"\xC3\x84"], "\\195\\132"),
        (&[b"_sip", b"_udp"], "_sip._udp"),
    ] {
        assert_eq!(name(&query(&labels(wire))).as_deref(), Ok(text));
    }
}

#[test]
fn the_longest_name_fits_and_no_longer_one_passes() {
    let label = [0xff; 63];
    let longest = labels(&[&label, &label, &label, &label[..61]]);
    assert_eq!(longest.len(), 255);
    assert_eq!(name(&query(&longest)).unwrap().len(), 4 * 250 + 3);
    let longer = labels(&[&label, &label, &label, &label[..62]]);
    assert_eq!(name(&query(&longer)), Err("malformed"));
    let many = labels(&[b"a".as_slice(); 127]);
    assert_eq!(name(&query(&many)).unwrap().len(), 2 * 127 - 1);
    assert_eq!(name(&query(&labels(&[b"a".as_slice(); 128]))), Err("malformed"));
}

#[test]
fn pointers_and_given_up_labels_are_malformed() {
    let to_itself = [HEADER, b"\xc0\x0c\0\x1c\0\x01"].concat();
    let after_a_label = [HEADER, b"\x01a\xc0\x0c\0\x1c\0\x01"].concat();
    let bits = [HEADER, b"\x41\x08ab\0"].concat();
    for message in [to_itself, after_a_label, bits, [HEADER, b"\x80"].concat()] {
        assert_eq!(name(&message), Err("malformed"), "{message:02x?}");
        assert!(!looks_like(&message) || message[12] == 1);
    }
}

#[test]
fn a_cut_message_says_what_is_sure() {
    let mut name = Name::new();
    let whole = query(&labels(&[b"a", b"b"]));
    let mut at = |end: usize| match parse(&whole[..end], &mut name) {
        Outcome::Incomplete(found) => (found.is_response, found.qname.map(<[u8]>::to_vec)),
        other => panic!("{end} {other:?}"),
    };
    assert_eq!(at(2), (None, None));
    assert_eq!(at(3), (Some(false), None));
    assert_eq!(at(16), (Some(false), None));
    assert_eq!(at(18), (Some(false), Some(b"a.b".to_vec())));
    let mut name = Name::new();
    let no_question = parse(b"\0\0\x84\0\0\0\0\x01\0\0\0\0", &mut name);
    let found = Dns { is_response: Some(true), qname: None, qtype: None };
    assert_eq!(no_question, Outcome::Fields(found));
}

#[test]
fn a_length_of_tcp_is_kept() {
    let mut name = Name::new();
    let mut outcome = |length: u16, message: &[u8]| {
        parse_tcp(&[&length.to_be_bytes()[..], message].concat(), &mut name).found().is_some()
    };
    let bytes = DNS_QUERY.len() as u16;
    assert!(outcome(bytes + 100, DNS_QUERY));
    // The class, which the parser does not read, may be missing.
    assert!(outcome(bytes - 2, DNS_QUERY));
    assert!(!outcome(bytes - 3, DNS_QUERY));
    assert!(!outcome(11, DNS_QUERY));
    assert!(outcome(12, HEADER.split_last_chunk::<8>().unwrap().0));
}

#[test]
fn a_guess_needs_a_plausible_header_and_a_label_of_text() {
    assert!(looks_like(DNS_QUERY));
    assert!(looks_like_tcp(&dns_over_tcp(DNS_QUERY)));
    let update = b"\0\x01\x28\0\0\x01\0\0\0\x01\0\0\x07example\0\0\x06\0\x01";
    let mdns = b"\0\0\x84\0\0\0\0\x01\0\0\0\0\x04_tcp\x05local\0\0\x0c\0\x01";
    let root = b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\0\0\x02\0\x01";
    let two = b"\0\0\0\0\0\x02\0\0\0\0\0\0\x04_ipp\x04_tcp\x05local\0\0\x0c\0\x01";
    assert!(looks_like(two));
    assert!(looks_like(update) && looks_like(mdns) && looks_like(root));
    let rtp = b"\x80\0\0\x01\0\0\0\xa0\xde\xad\xbe\xef\xff\xff\xff\xff\xff\xff";
    let reserved = b"\0\x01\x01\x40\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";
    let binary = b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x02\x01\x02\0\0\x01\0\x01";
    let with_result = b"\0\x01\x01\x03\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";
    for other in [&rtp[..], reserved, binary, with_result, &[0; 40], HEADER, b"", b"GET / HTTP/1.1"]
    {
        assert!(!looks_like(other), "{other:02x?}");
    }
}
