//! Hostile traffic: nothing panics, the account holds, and memory stays within what is said.

use crate::support::{INVITE, Traffic, message, rtp, sdp, see};
use ringside_calls::{Call, CallsObserver, Limits, Options, text};
use ringside_inspect::Observer;
use ringside_logs::{Log, RecordFormat, RecordLines, RecordSink};
use ringside_record::Names;
use ringside_testkit::Random;

/// Frames, each after its length in two bytes.
fn seed(traffic: &Traffic) -> Vec<u8> {
    let frames = traffic.frames.iter().map(|(_, frame)| frame);
    frames.flat_map(|frame| [&(frame.len() as u16).to_be_bytes(), &frame[..]].concat()).collect()
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
    let mut call = Traffic::new();
    call.say(false, &message(INVITE, "c", "1 INVITE", "", &sdp(1, 4000)));
    call.say(true, &message("SIP/2.0 200 OK", "c", "1 INVITE", "b", &sdp(2, 6000)));
    for number in 0..5 {
        call.put((1, 4000), (2, 6000), &rtp(number, 7));
    }
    let report = [0x81, 200, 0, 12, 0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8];
    call.put((1, 4001), (2, 6001), &[&report[..], &[0; 36]].concat());
    call.say(true, &message("BYE sip:a SIP/2.0", "c", "1 BYE", "b", ""));
    let mut refused = Traffic::new();
    refused.say(false, &message(INVITE, "d", "1 INVITE", "", ""));
    refused.say(true, &message("SIP/2.0 401 Who", "d", "1 INVITE", "b", ""));
    refused.say(false, &message("CANCEL sip:b SIP/2.0", "d", "1 CANCEL", "", ""));
    let tried = ringside_testkit::fuzz("calls", 4_000, &[seed(&call), seed(&refused)], |input| {
        let limits = Limits { calls: 2, streams: 3, ..Limits::default() };
        let options =
            Options { limits, finds_unannounced: true, ladder: Some("c".into()), kernel: None };
        let log = |format: RecordFormat| {
            let lines = RecordLines::new(format, Names::Ringside, text);
            let log = Log::to_stream(std::io::sink(), Box::new(lines));
            let sink: Box<dyn RecordSink<Call>> = Box::new(log);
            (format.name().to_owned(), sink)
        };
        let mut observer = CallsObserver::new(options, RecordFormat::ALL.map(log).into());
        for (at, frame) in (1..).zip(frames(input)) {
            see(&mut observer, frame, at * 1_000_000_000);
            assert!(observer.balances(), "{:?}", observer.ledger());
        }
        observer.finish();
        assert!(observer.balances() && observer.open() == (0, 0));
        let _ = observer.ladder().map(|ladder| ladder.text());
    });
    assert!(tried >= 4_000);
}

/// Memory of this process, in bytes.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4_096
}

/// More calls than there is room for, each with texts as long as are kept and media, and RTP of as
/// many streams as a sender likes.
#[test]
fn calls_and_streams_stay_within_their_memory() {
    let limits = Limits::default();
    let before = resident_bytes();
    let options = Options { limits, finds_unannounced: true, ..Options::default() };
    let mut observer = CallsObserver::new(options, Vec::new());
    let mut random = Random::new(1);
    let mut at = 1_000_000_000;
    let name = "n".repeat(120);
    for number in 0..limits.calls + 2_000 {
        at += 1_000;
        let call_id = format!("{number}-{}", "c".repeat(200));
        let port = (number % 60_000) as u16 + 1_000;
        let host = (number / 60_000) as u8 + 3;
        let text = message(INVITE, &call_id, "1 INVITE", "", &sdp(host, port));
        let text = text.replace("alice@a", &format!("{name}@a"));
        see(&mut observer, &crate::support::datagram((1, 5060), (2, 5060), text.as_bytes()), at);
    }
    for _ in 0..limits.streams + 10_000 {
        at += 1_000;
        let packet = rtp(1, random.next_u64() as u32);
        let to = (random.below(8) as u8, random.below(1 << 16) as u16 | 1_024);
        see(&mut observer, &crate::support::datagram((9, 4000), to, &packet), at);
    }
    let (calls, streams) = observer.open();
    let used = resident_bytes().saturating_sub(before);
    eprintln!("{calls} calls, {streams} streams: {used} bytes of {}", limits.bytes());
    assert_eq!((calls, streams), (limits.calls, limits.streams));
    assert!(observer.balances(), "{:?}", observer.ledger());
    let tcp = 60 << 20;
    assert!(used <= limits.bytes() + tcp, "{used} bytes, {} were said", limits.bytes());
}
