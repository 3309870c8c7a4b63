//! Payloads, and the messages in them.

use super::frames::*;
use super::{dissected, judge};
use ringside_core::LinkType;
use ringside_inspect::DissectedFrame;
use ringside_wire::{IpProtocol, Tcp};

#[path = "../../../../proto/tests/all/support/messages.rs"]
#[allow(dead_code)] // the messages that rules ask about are a part of them
mod texts;

fn over_udp(payload: &[u8]) -> Vec<u8> {
    plain(IpProtocol::UDP, &udp(40_000, 40_001, payload))
}

fn over_tcp(payload: &[u8]) -> Vec<u8> {
    plain(IpProtocol::TCP, &tcp(40_000, 40_001, Tcp::ACK, payload))
}

#[test]
fn bytes_in_a_payload() {
    let frame = over_tcp(b"xGeT /Index\x00\xff");
    let yes = [
        "payload \"GeT /\"",
        "payload \"GeT\" at 1",
        "payload \"get /INDEX\" nocase",
        "payload \"GET\" nocase at 1",
        "payload hex \"00 ff\"",
        "payload hex \"ff\" at 12",
        "payload \"xGeT /Index\\x00\\xff\"",
    ];
    let no = [
        "payload \"GET\"",
        "payload \"GeT\" at 0",
        "payload \"GET\" nocase at 2",
        "payload hex \"ff\" at 13",
        "payload hex \"ff 00\"",
        "payload hex \"ff\" at 262143",
        "payload \"xGeT /Index\\x00\\xff\\x00\"",
    ];
    judge(&dissected(&frame), &yes, &no);
    judge(&dissected(&over_udp(b"")), &[], &["payload hex \"00\"", "payload \"a\" nocase"]);
    // Only letters of ASCII are folded.
    judge(
        &dissected(&over_udp(b"@[`{")),
        &["payload \"@[`{\" nocase"],
        &["payload \"`{@[\" nocase"],
    );
}

#[test]
fn padding_is_no_payload() {
    let mut frame = over_udp(b"ab");
    frame.extend_from_slice(b"padding");
    judge(&dissected(&frame), &["payload \"ab\"", "bytes payload+2 = 70"], &["payload \"padd\""]);
    let mut frame = over_tcp(b"ab");
    frame.extend_from_slice(b"padding");
    judge(&dissected(&frame), &["payload \"ab\""], &["payload \"padd\""]);
    // UDP ends before IP does.
    let mut datagram = udp(1, 2, b"ab");
    datagram.extend_from_slice(b"surplus");
    judge(
        &dissected(&plain(IpProtocol::UDP, &datagram)),
        &["payload \"ab\""],
        &["payload \"surp\""],
    );
}

#[test]
fn http() {
    let no = ["http.method POST", "http.host example.com", "http.status 100-999", "sip.method GET"];
    let frame = over_tcp(texts::HTTP_GET);
    judge(&dissected(&frame), &["http.method GET|HEAD", "http.host www.example.com"], &no);
    let yes = ["http.host *.example.com", "http.host x|*.com", "http.method GET http.host *.com"];
    judge(&dissected(&frame), &yes, &["http.method get", "http.host *.www.example.com"]);
    let frame = over_tcp(texts::HTTP_OK);
    let yes = ["http.status 200", "http.status 100-299|404"];
    judge(&dissected(&frame), &yes, &["http.status 404", "http.method GET", "http.host *.com"]);
    judge(&dissected(&over_udp(texts::HTTP_SSDP)), &["http.method M-SEARCH"], &["http.method GET"]);
    let port = over_tcp(b"GET / HTTP/1.1\r\nHost: A.Example.:8080\r\n\r\n");
    judge(&dissected(&port), &["http.host a.example"], &["http.host a.example.8080"]);
    // It could be read as HTTP, and does not look like it.
    let small = over_tcp(b"get / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    judge(&dissected(&small), &["tcp"], &["http.method get", "http.host a.example"]);
    // It goes on from the frame before.
    let middle = over_tcp(b"ost: a.example\r\n\r\nGET / HTTP/1.1\r\n");
    judge(&dissected(&middle), &["payload \"GET\""], &["http.method GET", "http.host a.example"]);
}

#[test]
fn fields_before_a_cut_count() {
    let frame = over_tcp(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let cut =
        |bytes: usize| DissectedFrame::new(&frame[..bytes], frame.len() as u32, LinkType::ETHERNET);
    judge(&cut(54 + 20), &["http.method GET"], &["http.host a.example", "http.host *.example"]);
    judge(&cut(54 + 3), &[], &["http.method GET"]);
    judge(&cut(54 + 34), &["http.method GET", "http.host a.example"], &[]);
}

#[test]
fn sip() {
    let yes = [
        "sip.method INVITE|BYE",
        "sip.from sip:alice@atlanta.com",
        "sip.to \"sip:bob@biloxi.com\"",
        "sip.via pc33.atlanta.com",
        "sip.call_id a84b4c76e66710",
    ];
    let no =
        ["sip.method BYE", "sip.from alice", "sip.to sip:alice@atlanta.com", "http.method INVITE"];
    judge(&dissected(&over_udp(texts::SIP_INVITE)), &yes, &no);
    judge(&dissected(&over_tcp(texts::SIP_INVITE)), &yes, &no);
    let no = ["sip.method INVITE", "sip.via PC33.atlanta.com", "http.status 180"];
    judge(&dissected(&over_udp(texts::SIP_RINGING)), &["sip.via pc33.atlanta.com"], &no);
}

#[test]
fn names_that_are_asked_for() {
    let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend_from_slice(b"\x03WWW\x07example\x03com\x00\x00\x01\x00\x01");
    let yes = ["dns.qname www.example.com", "dns.qname *.example.com", "dns.qname a|*.com"];
    let no = ["dns.qname example.com", "dns.qname *.www.example.com", "tls.sni *.com"];
    judge(&dissected(&over_udp(&query)), &yes, &no);
    // Over TCP its length is in front, and only there.
    let framed = [&(query.len() as u16).to_be_bytes()[..], &query].concat();
    judge(&dissected(&over_tcp(&framed)), &yes, &no);
    judge(&dissected(&over_udp(&framed)), &[], &yes);
    judge(&dissected(&over_tcp(&query)), &[], &yes);
    query[2] |= 0x80;
    judge(&dissected(&over_udp(&query)), &yes, &no);
}

#[test]
fn names_of_servers() {
    let frame = over_tcp(texts::TLS_HELLO);
    let mut name = ringside_proto::Name::new();
    let hello = ringside_proto::tls::parse(texts::TLS_HELLO, &mut name).found().unwrap();
    let sni = std::str::from_utf8(hello.sni.unwrap()).unwrap();
    let (exact, below) = (format!("tls.sni {sni}"), format!("tls.sni *.{sni}"));
    judge(
        &dissected(&frame),
        &[&exact],
        &[&below, "tls.sni x", "http.host *.com", "dns.qname *.com"],
    );
    judge(&dissected(&over_udp(texts::TLS_HELLO)), &[], &[&exact]);
}

#[test]
fn later_fragments_and_other_carriers_have_no_messages() {
    let frame = plain(IpProtocol::SCTP, &sctp(1, 2, texts::HTTP_GET));
    judge(&dissected(&frame), &["payload \"GET\" at 0"], &["http.method GET"]);
    let mut later = over_tcp(texts::HTTP_GET);
    later[14 + 7] = 1;
    judge(&dissected(&later), &[], &["http.method GET", "payload \"GET\""]);
}
