//! Hostile frames, and floods: nothing panics, the account holds, and memory is bounded.

use crate::support::{Kept, client_hello, record, see, server_hello, tcp};
use ringside_core::Timestamp;
use ringside_inspect::Observer;
use ringside_record::{LineFormat, LineWriter, Names, Row};
use ringside_streams::Limits;
use ringside_tls::{Ending, TlsObserver, text};

fn with_length(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as u16).to_be_bytes(), frame].concat()
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
    let (hello, answer) = (client_hello("a.example"), server_hello());
    let done = [answer.clone(), record(11, &[0, 0, 5, 0, 0, 2, 0x30, 0]), record(14, &[])].concat();
    let seed = |frames: &[Vec<u8>]| frames.iter().flat_map(|f| with_length(f)).collect::<Vec<_>>();
    let seeds = [
        seed(&[tcp(1000, false, 1, &hello), tcp(1000, true, 1, &done)]),
        seed(&[
            tcp(1000, false, 0, b""),
            tcp(1000, false, 1, &hello[..9]),
            tcp(1000, false, 10, &hello[9..]),
            tcp(1000, true, 1, &[21, 3, 3, 0, 2, 2, 40]),
        ]),
    ];
    let limits = Limits { connections: 64, ..Limits::default() };
    ringside_testkit::fuzz("tls", 4_000, &seeds, |input| {
        let kept = Kept::default();
        let mut observer = TlsObserver::new(limits, kept.sinks());
        for (index, frame) in frames(input).into_iter().enumerate() {
            let stamp = 1_000_000_000 + index as u64 * 400_000_000;
            see(&mut observer, frame, stamp);
            observer.tick(Timestamp(stamp));
            assert!(observer.balances());
        }
        observer.finish();
        assert!(observer.balances() && observer.open() == 0 && observer.kept_memory() == 0);
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

#[test]
fn hellos_lie_in_segments_as_they_like() {
    let (hello, answer) = (client_hello("a.example"), server_hello());
    let answer = [answer, vec![20, 3, 3, 0, 1, 1]].concat();
    for bytes in 1..=hello.len().max(answer.len()) {
        let kept = Kept::default();
        let mut observer = TlsObserver::new(Limits::default(), kept.sinks());
        for is_back in [false, true] {
            see(&mut observer, &tcp(1000, is_back, 0, b""), 1_000_000_000);
        }
        for (is_back, said) in [(false, &hello), (true, &answer)] {
            let mut sequence = 1;
            for piece in said.chunks(bytes) {
                see(&mut observer, &tcp(1000, is_back, sequence, piece), 1_000_000_000);
                sequence += piece.len() as u32;
            }
        }
        assert!(observer.balances());
        let found = kept.0.lock().unwrap();
        let [found] = found.as_slice() else { panic!("{} of {bytes} bytes", found.len()) };
        let name = found.hello.as_ref().unwrap().server_name.as_deref();
        let resumed = (found.ending, found.is_resumed());
        assert_eq!((name, resumed), (Some("a.example"), (Ending::Complete, Some(true))));
    }
}

#[test]
fn a_flood_of_hellos_stays_within_its_memory() {
    let kept = Kept::default();
    let limits = Limits { connections: 1 << 18, ..Limits::default() };
    let mut observer = TlsObserver::new(limits, kept.sinks());
    let name = "a".repeat(250);
    let frame = tcp(0, false, 1, &client_hello(&name));
    let count = ringside_testkit::by_run(100_000_u32, 1_000_000);
    for number in 0..count {
        let mut frame = frame.clone();
        frame[28..30].copy_from_slice(&((number >> 16) as u16).to_be_bytes());
        frame[34..36].copy_from_slice(&(number as u16).to_be_bytes());
        see(&mut observer, &frame, 1_000_000_000 + u64::from(number) * 1_000);
        assert!(observer.kept_memory() <= 64 << 20);
    }
    let refused = observer.ledger().ended[Ending::NoRoom.index()];
    assert!(observer.balances() && refused > 0, "{:?}", observer.ledger());
}
