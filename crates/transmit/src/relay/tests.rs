//! A relay from memory to memory: what comes out is what a plain reference makes, all of it is
//! accounted for, and no frame breaks it.

mod memory;

use super::*;
use memory::{MemorySink, MemorySource};
use ringside_core::SinkCounters;
use ringside_testkit::stacks::{Header, Stack, Wanted};
use ringside_testkit::{Random, fuzz};
use std::cell::Cell;

const ID: u32 = 0xffff_fffe;

fn config(mtu_bytes: usize) -> RelayConfig {
    let fragmenting = Fragmenting::All;
    RelayConfig { mtu_bytes, fragmenting, fragment_id: ID, count: None, duration: None }
}

fn run(source: &mut MemorySource, sink: &mut MemorySink, config: &RelayConfig) -> RelayReport {
    let report = relay(source, sink, config, &|| false, &mut |_| ()).unwrap();
    assert!(report.is_balanced(), "{report:?}");
    assert_eq!(report.ledger().balance(), Ok(()), "{report:?}");
    assert_eq!(report.sent.accepted, sink.frames.len() as u64);
    report
}

/// Relays frames with an MTU of 1500.
fn relayed(frames: &[&Vec<u8>]) -> (RelayReport, Vec<Vec<u8>>) {
    let mut sink = MemorySink::new(1500);
    let report = run(
        &mut MemorySource::new(frames.iter().map(|frame| &frame[..])),
        &mut sink,
        &config(1500),
    );
    (report, sink.frames)
}

fn ipv4(dont_fragment: bool) -> Header {
    let addresses = [10, 0, 0, 1, 10, 0, 0, 2];
    Header::Ipv4 { id: 7, dont_fragment, addresses, options: vec![] }
}

fn tcp(flags: u8) -> Header {
    Header::Tcp { ports: [1, 2], sequence: 3, flags, options: vec![] }
}

fn udp() -> Header {
    Header::Udp { ports: [1, 2], has_checksum: true }
}

#[test]
fn a_slow_sink_does_not_keep_a_relay_from_its_end() {
    let frame = jumbo(vec![ipv4(false), udp()]);
    let mut source = MemorySource::new([&frame[..]; 3]);
    let mut sink = MemorySink::new(1500);
    sink.pause = ROOM_WAIT / 2;
    // The end has come before the first frame: what waits for room then does so for a moment.
    let report = relay(&mut source, &mut sink, &config(1500), &|| true, &mut |_| ()).unwrap();
    assert!(report.is_balanced(), "{report:?}");
    assert!((1..5).contains(&report.sent.accepted), "{report:?}");
    assert_eq!(report.not_offered, report.segments - report.sent.accepted, "{report:?}");
}

/// A frame of 9,014 bytes.
fn jumbo(headers: Vec<Header>) -> Vec<u8> {
    let stack = Stack([vec![Header::Ethernet], headers].concat());
    stack.uncut(&vec![7; 9014 - stack.header_bytes()])
}

/// The frames that a packet becomes, made from scratch.
fn expected(stack: &Stack, payload: &[u8], mtu_bytes: usize, id: u32) -> Vec<Vec<u8>> {
    let uncut = stack.uncut(payload);
    let tags = stack.0.iter().take_while(|h| matches!(h, Header::Ethernet | Header::Tag { .. }));
    let link_bytes = 14 + 4 * (tags.count() - 1);
    // A sink takes one tag of 802.1Q beyond its MTU.
    let beyond = if uncut[12..14] == [0x81, 0] { 4 } else { 0 };
    let room = mtu_bytes + link_bytes.min(14 + beyond);
    if uncut.len() <= room {
        return vec![uncut];
    }
    if matches!(stack.0.last(), Some(Header::Tcp { .. })) {
        return stack.segments(payload, room - stack.header_bytes());
    }
    let header_bytes = stack.fragments(payload, 64, id)[0].len() - 64;
    stack.fragments(payload, (room - header_bytes) & !7, id)
}

#[test]
fn what_is_too_long_is_cut_as_the_reference_cuts_it() {
    let random = &mut Random::new(23);
    let mut counts = [0u64; 3];
    for round in 0..1500 {
        let is_tcp = round % 2 == 0;
        let wanted = Wanted {
            tunnels_max: round % 3,
            is_tcp: Some(is_tcp),
            is_fragmentable: true,
            is_summed: round % 5 == 0,
        };
        let stack = Stack::random(random, wanted);
        let bytes = random.below(9000);
        let (payload, mtu_bytes) = (random.bytes(bytes), 700 + random.below(9000));
        let expected = expected(&stack, &payload, mtu_bytes, ID);
        let mut sink = MemorySink::new(mtu_bytes);
        (sink.features.checksums, sink.full) = (round % 4 == 0, round % 3);
        let frame = stack.uncut(&payload);
        let report = run(&mut MemorySource::new([&frame[..]]), &mut sink, &config(mtu_bytes));
        assert!(report.is_complete(), "{stack:?} {bytes} {mtu_bytes} {report:?}");
        assert!(sink.frames == expected, "{stack:?} {bytes} {mtu_bytes}");
        assert_eq!(report.whole, u64::from(expected.len() == 1), "{stack:?} {bytes} {mtu_bytes}");
        counts[if report.whole == 1 { 2 } else { usize::from(is_tcp) }] += 1;
    }
    assert!(counts.iter().all(|&count| count > 100), "{counts:?} fragmented, segmented, whole");
}

#[test]
fn datagrams_that_are_cut_have_ids_of_their_own() {
    let addresses = [0xfd; 32];
    let ipv6 = Header::Ipv6 { addresses, extensions: vec![], before_fragment: 0 };
    let frame = jumbo(vec![ipv6, udp()]);
    let (report, out) = relayed(&[&frame; 3]);
    assert_eq!((report.cut, report.segments), (3, 21));
    let ids = [ID, ID + 1, 0].map(u32::to_be_bytes);
    for (index, frame) in out.iter().enumerate() {
        assert_eq!(frame[58..62], ids[index / 7], "frame {index}");
    }
}

#[test]
fn what_cannot_be_cut_is_counted_by_its_cause() {
    let ipv6 = Header::Ipv6 { addresses: [0xfd; 32], extensions: vec![], before_fragment: 0 };
    let mut icmp = jumbo(vec![ipv4(false), udp()]);
    icmp[23] = 1;
    let mut damaged = jumbo(vec![ipv4(true), tcp(0x18)]);
    damaged[5000] ^= 1;
    let mut header = jumbo(vec![ipv4(true), tcp(0x18)]);
    header[22] ^= 1;
    let mut later = jumbo(vec![ipv4(false), udp()]);
    later[21] = 9;
    let mut longer = jumbo(vec![ipv4(false), tcp(0x18)]);
    longer[16] = 0xf0;
    let mut broken = jumbo(vec![ipv4(false), tcp(0x18)]);
    broken[46] = 0;
    let arp = [&[0xff; 12][..], &[8, 6], &[0; 3000]].concat();
    use Fragmenting::{All, Ipv4, None};
    let cases = [
        (icmp, All, NotRelayed::Protocol),
        (arp, All, NotRelayed::Protocol),
        (damaged, All, NotRelayed::BadChecksum),
        (header, All, NotRelayed::BadChecksum),
        (later, All, NotRelayed::Fragment),
        (longer, All, NotRelayed::Truncated),
        (broken, All, NotRelayed::Malformed),
        (vec![0; 13], All, NotRelayed::TooShort),
        (jumbo(vec![ipv4(true), tcp(0x02)]), All, NotRelayed::NotDivisible),
        (jumbo(vec![ipv4(true), udp()]), All, NotRelayed::DontFragment),
        (jumbo(vec![ipv6, udp()]), Ipv4, NotRelayed::DontFragment),
        (jumbo(vec![ipv4(false), udp()]), None, NotRelayed::FragmentsOff),
    ];
    for (frame, fragmenting, cause) in cases {
        let mut sink = MemorySink::new(1500);
        let config = RelayConfig { fragmenting, ..config(1500) };
        let report = run(&mut MemorySource::new([&frame[..]]), &mut sink, &config);
        assert_eq!(report.not_relayed, [(cause, 1)].into(), "{cause}: {report:?}");
        assert_eq!(serde_json_name(cause), cause.name());
        assert!(sink.frames.is_empty() && !report.is_complete());
    }
    let frame = jumbo(vec![ipv4(true), tcp(0x18)]);
    let mut cut = MemorySource::new([&frame[..]]).cut_to(60);
    let report = run(&mut cut, &mut MemorySink::new(1500), &config(1500));
    assert_eq!(report.not_relayed, [(NotRelayed::Truncated, 1)].into());
    let mut raw = MemorySource::new([&frame[..]]);
    raw.interfaces[0].link_type = LinkType::RAW;
    let report = run(&mut raw, &mut MemorySink::new(1500), &config(1500));
    assert_eq!(report.not_relayed, [(NotRelayed::LinkType, 1)].into());
    let mut source = MemorySource::new([&frame[..]]);
    let report = run(&mut source, &mut MemorySink::new(68), &config(MTU_BYTES_MIN));
    assert_eq!((report.cut, report.segments), (1, 8960u64.div_ceil(28)));
}

/// As serde writes it: the variant's name in snake case.
fn serde_json_name(cause: NotRelayed) -> String {
    let mut name = String::new();
    for letter in format!("{cause:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

#[test]
fn headers_without_room_for_a_payload_are_refused() {
    let options = vec![1; 40];
    let ip = Header::Ipv4 { id: 1, dont_fragment: false, addresses: [9; 8], options };
    for (mtu_bytes, is_cut) in [(84, false), (87, false), (88, true)] {
        let frame = jumbo(vec![ip.clone(), tcp(0x10)]);
        let mut sink = MemorySink::new(mtu_bytes);
        let report = run(&mut MemorySource::new([&frame[..]]), &mut sink, &config(mtu_bytes));
        let cause = [(NotRelayed::HeadersTooLong, 1)].into();
        assert!(if is_cut { report.cut == 1 } else { report.not_relayed == cause }, "{report:?}");
    }
}

#[test]
fn an_mtu_beyond_its_limits_is_refused() {
    for mtu_bytes in [0, 67, 65_536] {
        let (mut source, mut sink) = (MemorySource::new([]), MemorySink::new(1500));
        let config = config(mtu_bytes);
        let error = relay(&mut source, &mut sink, &config, &|| false, &mut |_| ()).unwrap_err();
        let said = error.to_string();
        assert!(said.contains(&mtu_bytes.to_string()) && said.contains("68 to 65535"), "{said}");
    }
}

#[test]
fn a_checksum_that_was_left_to_the_interface_is_made() {
    let stack = Stack(vec![Header::Ethernet, ipv4(true), tcp(0x18)]);
    let payload = vec![9; 4000];
    let right = stack.uncut(&payload);
    let mut left = right.clone();
    // The pseudo header: addresses, protocol, length.
    let sum = Sum::new().bytes(&right[26..34]).add_u16(6).add_u16(4020).folded();
    left[50..52].copy_from_slice(&sum.to_be_bytes());
    assert_ne!(left, right);
    assert_eq!(relayed(&[&left]).1, relayed(&[&right]).1);
}

#[test]
fn padding_of_the_link_is_left_out_where_it_does_not_fit() {
    let frame = Stack(vec![Header::Ethernet, ipv4(true), tcp(0x02)]).uncut(&[7; 1400]);
    let padded = [&frame[..], &[0; 500]].concat();
    let (report, out) = relayed(&[&padded]);
    assert_eq!((report.whole, &out[0]), (1, &frame));
}

#[test]
fn limits_end_a_relay_and_what_came_beyond_is_counted() {
    let frame = [0; 60];
    let source = || MemorySource::new((0..20).map(|_| &frame[..]));
    let config = RelayConfig { count: Some(10), ..config(1500) };
    let mut sink = MemorySink::new(1500);
    let report = run(&mut source(), &mut sink, &config);
    assert_eq!((report.received, report.lane.received), (10, Some(20)));
    assert_eq!(report.lane.dropped, [(Cause::LimitReached, 10)].into());
    assert!(report.is_complete() && report.ended == Ended::Done);
    // A file is left where it is.
    let mut file = source();
    file.is_file = true;
    let report = run(&mut file, &mut MemorySink::new(1500), &config);
    assert_eq!((report.received, report.lane.received), (10, None));
    let mut sink = MemorySink::new(1500);
    let report = relay(&mut source(), &mut sink, &config, &|| true, &mut |_| ()).unwrap();
    assert_eq!((report.ended, report.received, sink.frames.len()), (Ended::Stopped, 10, 10));
}

#[test]
fn a_sink_that_fails_or_is_full_loses_nothing_uncounted() {
    let frame = jumbo(vec![ipv4(true), tcp(0x18)]);
    let mut sink = MemorySink::new(1500);
    sink.fails_at = Some(3);
    let report = run(&mut MemorySource::new([&frame[..]; 9]), &mut sink, &config(1500));
    // The third segment was offered; the other four were not.
    assert_eq!((report.cut, report.segments, report.not_offered), (1, 7, 4), "{report:?}");
    assert_eq!(report.not_relayed, [(NotRelayed::SinkFailed, 8)].into());
    let failure = report.failure.unwrap();
    assert!(report.ended == Ended::Failed && failure.contains("was removed"), "{failure}");
    let mut sink = MemorySink::new(1500);
    sink.full = usize::MAX - 1;
    let report = run(&mut MemorySource::new([&frame[..]; 2]), &mut sink, &config(1500));
    assert_eq!((report.segments, report.not_offered), (14, 14));
    assert_eq!(report.sent, SinkCounters::default());
    assert!(!report.is_complete() && report.failure.is_none());
}

#[test]
fn hostile_frames_are_relayed_cut_or_refused() {
    let mut random = Random::new(5);
    let seed = |number: usize| {
        let stack = Stack::random(
            &mut random,
            Wanted { tunnels_max: number % 3, is_fragmentable: true, ..Wanted::default() },
        );
        stack.uncut(&vec![number as u8; number * 20])
    };
    let seeds: Vec<Vec<u8>> = (0..200).map(seed).collect();
    let counts = Cell::new([0u64; 3]);
    fuzz("relay", 200_000, &seeds, |input| {
        let mtu_bytes = 68 + usize::from(input.last().copied().unwrap_or(0)) * 6;
        let mut sink = MemorySink::new(mtu_bytes);
        let report = run(&mut MemorySource::new([input]), &mut sink, &config(mtu_bytes));
        // Every piece has payload, so that an input cannot become many times its own frames.
        assert!(sink.frames.len() <= input.len() / 8 + 1);
        let [whole, cut, refused] = counts.get();
        counts.set([whole + report.whole, cut + report.cut, refused + report.not_relayed_total()]);
    });
    assert!(counts.get().iter().all(|&count| count > 100), "{:?}", counts.get());
}
