//! Which answer belongs to which query.

use crate::support::{Kept, message, opened, see, tcp, texts, udp, with_length};
use ringside_core::Timestamp;
use ringside_dns::{DnsObserver, Ending, Limits};
use ringside_inspect::Observer;

fn query(port: u16, id: u16, name: &str) -> Vec<u8> {
    udp(port, false, &message(id, false, name))
}

fn answer(port: u16, id: u16, name: &str) -> Vec<u8> {
    udp(port, true, &message(id, true, name))
}

#[test]
fn answers_come_to_their_queries() {
    let frames = [
        (0, query(1000, 7, "a.example")),
        (1, query(1000, 8, "b.example")),
        (2, query(1001, 7, "c.example")),
        (5, answer(1000, 8, "B.Example")),
        (6, answer(1001, 7, "c.example")),
        (9, answer(1000, 7, "a.example")),
    ];
    let expected = [
        "8 b.example answered 0 4 192.0.2.7",
        "7 c.example answered 0 4 192.0.2.7",
        "7 a.example answered 0 9 192.0.2.7",
    ];
    assert_eq!(texts(&frames), expected);
}

/// The frame in a virtual network.
fn vxlan(network: u8, frame: &[u8]) -> Vec<u8> {
    let header = [8, 0, 0, 0, 0, 0, network, 0];
    let mut above = vec![0xc0, 0, 0x12, 0xb5];
    above.extend((16 + frame.len() as u16).to_be_bytes());
    above.extend([0, 0]);
    above.extend(header);
    above.extend(frame);
    crate::support::frame(17, false, &above)
}

#[test]
fn virtual_networks_are_apart() {
    let frames = [
        (0, vxlan(1, &query(1000, 7, "a.example"))),
        (1, vxlan(2, &answer(1000, 7, "a.example"))),
        (3, vxlan(1, &answer(1000, 7, "a.example"))),
    ];
    let expected = ["7 a.example query_unseen 0 - 192.0.2.7", "7 a.example answered 0 3 192.0.2.7"];
    assert_eq!(texts(&frames), expected);
}

#[test]
fn what_is_sent_again_is_one_transaction() {
    let frames = [
        (0, query(1000, 7, "a")),
        (5_000, query(1000, 7, "a")),
        // The wait begins anew with each.
        (14_000, answer(1000, 7, "a")),
        (14_001, answer(1000, 7, "a")),
    ];
    let expected = ["7 a answered 1 14000 192.0.2.7", "7 a answered_before 0 - 192.0.2.7"];
    assert_eq!(texts(&frames), expected);
}

#[test]
fn what_has_no_other_half_says_why() {
    let frames = [
        (0, query(1000, 7, "late")),
        (1, query(1000, 8, "one")),
        (2, query(1000, 8, "other")),
        (3, answer(1000, 9, "nobody")),
        (4, answer(1000, 8, "forged")),
        (5, answer(1000, 8, "other")),
        (10_001, answer(1000, 7, "late")),
        (10_002, query(1000, 1, "last")),
    ];
    let expected = [
        "8 one id_reused 0 -",
        "9 nobody query_unseen 0 - 192.0.2.7",
        "8 forged other_question 0 - 192.0.2.7",
        "8 other answered 0 3 192.0.2.7",
        "7 late timed_out 0 -",
        "7 late query_unseen 0 - 192.0.2.7",
        "1 last forced 0 -",
    ];
    assert_eq!(texts(&frames), expected);
}

#[test]
fn messages_of_a_stream_lie_in_segments_as_they_like() {
    let asked = [with_length(&message(7, false, "a")), with_length(&message(8, false, "b"))];
    let answered = [with_length(&message(8, true, "b")), with_length(&message(7, true, "a"))];
    let (asked, answered) = (asked.concat(), answered.concat());
    let expected = ["8 b answered 0 - 192.0.2.7", "7 a answered 0 - 192.0.2.7"];
    let plain = |texts: Vec<String>| -> Vec<String> {
        let without_latency = |text: &String| {
            let mut words: Vec<&str> = text.split(' ').collect();
            words[4] = "-";
            words.join(" ")
        };
        texts.iter().map(without_latency).collect()
    };
    for bytes in 1..=asked.len().max(answered.len()) {
        let mut frames = opened(1000);
        for (is_back, stream) in [(false, &asked), (true, &answered)] {
            let mut sequence = 1;
            for piece in stream.chunks(bytes) {
                frames.push((frames.len() as u64, tcp(1000, is_back, sequence, piece)));
                sequence += piece.len() as u32;
            }
        }
        assert_eq!(plain(texts(&frames)), expected, "{bytes} bytes each");
    }
}

#[test]
fn behind_a_gap_messages_are_found_again() {
    let one = with_length(&message(7, false, "a"));
    let other = with_length(&message(8, false, "b"));
    let mut frames = opened(1000);
    frames.extend([
        (1, tcp(1000, false, 1, &one[..5])),
        (2, tcp(1000, false, 1 + 2 * one.len() as u32, &other)),
        (9_000, tcp(1000, true, 1, &with_length(&message(8, true, "b")))),
    ]);
    assert_eq!(texts(&frames), ["8 b answered 0 8998 192.0.2.7"]);
}

#[test]
fn a_flood_of_queries_stays_within_its_places() {
    let limits = Limits { transactions: 1_000, ..Limits::default() };
    let kept = Kept::default();
    let mut observer = DnsObserver::new(limits, kept.sinks());
    let count = ringside_testkit::by_run(100_000_u32, 1_000_000);
    for number in 0..count {
        let stamp = 1_000_000_000 + u64::from(number) * 1_000;
        see(&mut observer, &query(number as u16, (number >> 16) as u16, "a.example"), stamp);
        if number % 1_000 == 0 {
            observer.tick(Timestamp(stamp));
            assert!(observer.balances() && observer.open() <= 1_000);
        }
    }
    let displaced = observer.ledger().ended[Ending::Displaced.index()];
    assert_eq!(displaced, u64::from(count) - 1_000);
    observer.tick(Timestamp(3_600_000_000_000));
    assert_eq!(observer.ledger().ended[Ending::TimedOut.index()], 1_000);
    assert!(observer.balances());
}
