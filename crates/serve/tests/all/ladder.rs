//! The messages of one call with the quality of its media, and what is said of those that are
//! missing. That they are those of the command is tested where that is.

use crate::common::{Answer, Served, datagram, limits, with_service, write_pcap};
use ringside_core::Ledger;
use ringside_serve::{Config, Limits};
use serde_json::{Value, json};
use std::time::Duration;

/// With everything that an address has to write in another way.
const CALL_ID: &str = "1/4+2%<b>@10.0.0.1";
const PATH: &str = "1%2F4%2B2%25%3Cb%3E%4010.0.0.1";
/// RTP packets that are numbered, more than a batch of the reader has; this one is lost.
const PACKETS: u16 = 1000;
const LOST: u16 = 50;

fn sip(call_id: &str, start: &str, cseq: &str, to_tag: &str, media: Option<u16>) -> String {
    let body = media.map_or(String::new(), |port| {
        format!("v=0\r\nc=IN IP4 10.0.0.9\r\nm=audio {port} RTP/AVP 0\r\n")
    });
    let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
    format!(
        "{start}\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: <sip:alice@a>;tag=a\r\n\
         To: <sip:<script>@b>{to_tag}\r\nCall-ID: {call_id}\r\nCSeq: {cseq}\r\n{kind}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A call by a proxy, 10.0.0.2, which hands its INVITE on to 10.0.0.3; and the beginning of
/// another.
fn frames() -> Vec<(u64, Vec<u8>)> {
    let between = |from: u8, to: u8, ports: [u16; 2], payload: &[u8]| {
        datagram([10, 0, 0, from, 10, 0, 0, to], ports, payload)
    };
    let mut frames = Vec::new();
    let invite = "INVITE sip:bob@b SIP/2.0";
    for (at_us, from, to, start, cseq, tag, media) in [
        (0, 1, 2, invite, "7 INVITE", "", Some(4000)),
        (1_000, 2, 1, "SIP/2.0 100 Trying", "7 INVITE", "", None),
        (2_500, 2, 3, invite, "7 INVITE", "", Some(4000)),
        (1_000_000, 3, 2, "SIP/2.0 200 OK", "7 INVITE", ";tag=b", Some(6000)),
        (1_001_000, 2, 1, "SIP/2.0 200 OK", "7 INVITE", ";tag=b", Some(6000)),
        (1_002_000, 1, 2, "ACK sip:bob@b SIP/2.0", "7 ACK", ";tag=b", None),
        (23_000_000, 1, 2, "BYE sip:bob@b SIP/2.0", "8 BYE", ";tag=b", None),
    ] {
        let text = sip(CALL_ID, start, cseq, tag, media);
        frames.push((at_us, between(from, to, [5060; 2], text.as_bytes())));
    }
    let other = sip("other", invite, "1 INVITE", "", None);
    frames.push((3_000_000, between(1, 2, [5060; 2], other.as_bytes())));
    for number in (0..PACKETS).filter(|number| *number != LOST) {
        let mut rtp = vec![0x80, 0];
        rtp.extend(number.to_be_bytes());
        rtp.extend((u32::from(number) * 160).to_be_bytes());
        rtp.extend([0, 0, 0, 7]);
        rtp.extend([0xff; 160]);
        let at_us = 2_000_000 + u64::from(number) * 20_000;
        frames.push((at_us, datagram([10, 0, 0, 1, 10, 0, 0, 9], [4000, 6000], &rtp)));
    }
    frames.sort_by_key(|(at_us, _)| *at_us);
    frames
}

fn served(limits: Limits, work: impl FnOnce(&Served)) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("call.pcap");
    write_pcap(&path, frames().into_iter());
    let config = Config { recordings: vec![path], limits, ..Config::default() };
    with_service(Ledger::default(), config, work);
}

fn ask(service: &Served, question: &str) -> Value {
    let answer: Answer = service.get(&format!("/api/v1/calls/{PATH}/ladder{question}"));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// Milliseconds, hosts, and what was said.
fn said(ladder: &Value) -> Vec<String> {
    let line = |message: &Value| {
        let ms = message["since_ns"].as_f64().unwrap() / 1e6;
        let what = message["method"].as_str().map_or(message["status"].to_string(), str::to_owned);
        let sdp = if message["sdp"] == true { " sdp" } else { "" };
        let cseq = (&message["cseq"], message["cseq_method"].as_str().unwrap());
        let (from, to) = (&message["from"], &message["to"]);
        format!("{ms} {from}>{to} {what} of {} {}{sdp}", cseq.0, cseq.1)
    };
    ladder["messages"].as_array().unwrap().iter().map(line).collect()
}

#[test]
fn who_said_what_to_whom_and_how_well_it_was_heard() {
    served(limits(), |service| {
        let ladder = ask(service, "");
        let hosts = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
        let hosts: Vec<_> = hosts.map(|host| json!({"address": host, "port": 5060})).to_vec();
        assert_eq!(ladder["hosts"], json!(hosts));
        let expected = [
            "0 0>1 INVITE of 7 INVITE sdp",
            "1 1>0 100 of 7 INVITE",
            "2.5 1>2 INVITE of 7 INVITE sdp",
            "1000 2>1 200 of 7 INVITE sdp",
            "1001 1>0 200 of 7 INVITE sdp",
            "1002 0>1 ACK of 7 ACK",
            "23000 0>1 BYE of 8 BYE",
        ];
        assert_eq!(said(&ladder), expected);
        assert_eq!(ladder["messages"][1]["time_ns"], 1_700_000_000_001_000_000u64);
        assert_eq!((&ladder["incomplete"], &ladder["left_out"]), (&json!([]), &json!(0)));
        assert_eq!(ladder["search"]["packets"], frames().len());
        let [call] = &ladder["calls"].as_array().unwrap()[..] else { panic!("{ladder}") };
        let calls = service.get("/api/v1/records/calls").json();
        assert!(calls["records"].as_array().unwrap().contains(call), "{call}");
        let stream = &call["streams"][0];
        assert_eq!((&call["call_id"], &stream["lost"]), (&json!(CALL_ID), &json!(1)), "{call}");
        let quality = &stream["quality"];
        assert_eq!((&quality["loss_percent"], &quality["bpl"]), (&json!(0.1), &json!(25.1)));
        assert!((1.0..4.41).contains(&quality["mos_lq"].as_f64().unwrap()), "{quality}");
    });
}

#[test]
fn a_time_leaves_messages_out_as_everywhere() {
    served(limits(), |service| {
        let late = ask(service, "?from=1700000023");
        assert_eq!(said(&late), ["0 0>1 BYE of 8 BYE"]);
        assert_eq!(late["calls"], json!([]), "its beginning is not there");
        let none = service.get("/api/v1/calls/none/ladder").json();
        assert_eq!((&none["messages"], &none["hosts"]), (&json!([]), &json!([])));
        assert_eq!((&none["calls"], &none["incomplete"]), (&json!([]), &json!([])));
    });
}

#[test]
fn what_ends_a_ladder_is_said_in_it() {
    let causes = |ladder: &Value| -> Vec<String> {
        let missing = ladder["incomplete"].as_array().unwrap().iter();
        missing.map(|missing| missing["cause"].as_str().unwrap().to_owned()).collect()
    };
    served(limits(), |service| {
        let ladder = ask(service, "?limit=2");
        assert_eq!((said(&ladder).len(), &ladder["left_out"]), (2, &json!(5)));
        assert_eq!(causes(&ladder), ["limit"]);
        let text = ladder["incomplete"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("5 messages are left out"), "{text}");
        assert_eq!(ladder["calls"].as_array().unwrap().len(), 1, "with all of its media");
    });
    for (limits, cause) in [
        (Limits { records_time_max: Duration::ZERO, ..limits() }, "time"),
        (Limits { records_packets_max: 1, ..limits() }, "packets"),
    ] {
        served(limits, |service| assert_eq!(causes(&ask(service, "")), [cause]));
    }
}

#[test]
fn a_question_about_a_call_that_is_wrong_is_named() {
    served(limits(), |service| {
        let long = "c".repeat(257);
        for (path, status, words) in [
            ("c/ladder?limit=0", 400, "from 1 to 10000"),
            ("c/ladder?active=1h", 400, "active is for flows"),
            ("c/ladder?recording=other", 404, "no recording of that name"),
            ("c/ladder?colour=red", 400, ""),
            (&format!("{long}/ladder"), 400, "at most 256 bytes"),
        ] {
            let answer = service.get(&format!("/api/v1/calls/{path}"));
            assert_eq!(answer.status, status, "{path}: {answer:?}");
            assert!(answer.body.contains(words), "{path}: {answer:?}");
        }
    });
}
