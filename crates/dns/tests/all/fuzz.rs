//! Hostile frames: nothing panics, and the account holds.

use crate::support::{Kept, message, see, tcp, udp, with_length};
use ringside_core::Timestamp;
use ringside_dns::{DnsObserver, Limits, text};
use ringside_inspect::Observer;
use ringside_record::{LineFormat, LineWriter, Names, Row};

/// Frames, each after its length in two bytes.
fn seed(frames: &[Vec<u8>]) -> Vec<u8> {
    frames.iter().flat_map(|frame| with_length(frame)).collect()
}

fn frames(mut input: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while let [high, low, rest @ ..] = input {
        let bytes = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
        let (frame, after) = rest.split_at(bytes);
        frames.push(frame);
        input = after;
    }
    frames
}

#[test]
fn any_frames_keep_the_account() {
    let (query, answer) = (message(7, false, "a.example"), message(7, true, "a.example"));
    let seeds = [
        seed(&[udp(1000, false, &query), udp(1000, true, &answer), udp(1000, true, &answer)]),
        seed(&[udp(5353, false, &query), udp(5355, true, &answer)]),
        seed(&[
            tcp(1000, false, 1, &with_length(&query)),
            tcp(1000, true, 1, &with_length(&answer)[..9]),
            tcp(1000, true, 10, &with_length(&answer)[9..]),
        ]),
    ];
    ringside_testkit::fuzz("dns", 4_000, &seeds, |input| {
        let kept = Kept::default();
        let limits = Limits { transactions: 3, ..Limits::default() };
        let mut observer = DnsObserver::new(limits, kept.sinks());
        for (index, frame) in frames(input).into_iter().enumerate() {
            let stamp = 1_000_000_000 + index as u64 * 4_000_000_000;
            see(&mut observer, frame, stamp);
            observer.tick(Timestamp(stamp));
            assert!(observer.balances());
        }
        observer.finish();
        assert!(observer.balances() && observer.open() == 0);
        for found in kept.0.lock().unwrap().iter() {
            assert!(!text(found).contains(char::is_control));
            let mut out = Vec::new();
            for names in Names::ALL {
                let row = Row { record: found, interface: "eth1" };
                LineWriter::new(LineFormat::Json, names).write(&row, &mut out).unwrap();
            }
        }
    });
}
