//! Every kind of sink on a test network: bytes, counts, refusals, ends.

use crate::common::{Witness, config, played, tool};
use ringside_core::{ChecksumRequest, Refusal, Sink, SinkCounters, SinkError};
use ringside_lab::{Lab, LabConfig, Napi};
use ringside_netdev::{self as netdev, DeviceStatistics};
use ringside_sys::netns::Namespace;
use ringside_sys::thread::{allowed_cpus, pin_to_cpu};
use ringside_testkit::{Random, WAIT_MAX, need_root, need_tool, skip};
use ringside_transmit::sink::{AnySink, SinkConfig, SinkKind, open};
use ringside_transmit::{Error, Shape};
use std::ops::Range;
use std::panic::resume_unwind;
use std::time::{Duration, Instant};

/// Only a broken sink makes a test wait so long.
const PATIENCE: Duration = WAIT_MAX;

fn ready(test: &str) -> bool {
    need_root(test) && need_tool(test, "tcpdump")
}

/// Runs `work` on a thread in the sender's namespace. It stays on one CPU, on which the far end's
/// NAPI runs too unless it has threads: then no ring overflows.
fn at_sender<T: Send>(lab: &Lab, work: impl FnOnce() -> T + Send) -> T {
    inside(&lab.status().sender_namespace, work)
}

fn inside<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> T {
    let body = || {
        pin_to_cpu(allowed_cpus().unwrap()[0]).unwrap();
        Namespace::open(namespace).unwrap().enter().unwrap();
        work()
    };
    std::thread::scope(|scope| scope.spawn(body).join())
        .unwrap_or_else(|panic| resume_unwind(panic))
}

/// Kinds whose accounts end with the interface's own counts: the kernel's, and those that are
/// played over it.
fn kinds(test: &str) -> Vec<SinkKind> {
    let mut kinds = [&SinkKind::OF_KERNEL[..], &[SinkKind::Netmap]].concat();
    match played::no_pf_ring() {
        None => kinds.push(SinkKind::PfRing),
        Some(reason) => skip(&format!("{test}: pf-ring"), &reason),
    }
    kinds
}

fn try_open(kind: SinkKind, config: &SinkConfig) -> Result<AnySink, Error> {
    match kind {
        SinkKind::PfRing => played::pf_ring(config),
        SinkKind::Netmap => played::netmap(config),
        kind => open(Some(kind), config).map(|opened| opened.sink),
    }
}

fn opened(kind: SinkKind, payload_bytes: usize) -> AnySink {
    let config = SinkConfig { payload_bytes, ..SinkConfig::new("tx0") };
    let sink = try_open(kind, &config).unwrap();
    assert_eq!((sink.kind(), sink.name()), (kind, kind.name()));
    sink
}

/// The account of a sink at its end, at which nothing went wrong.
fn drained(sink: &mut impl Sink, timeout: Duration) -> SinkCounters {
    let (counters, failure) = sink.drain(timeout);
    assert!(failure.is_none(), "{failure:?}");
    counters
}

/// Puts a frame, however long it takes.
fn put(sink: &mut impl Sink, frame: &[u8]) -> Result<(), SinkError> {
    let start = Instant::now();
    while !sink.put(frame.len(), None, |slot| slot.copy_from_slice(frame))? {
        assert!(start.elapsed() < PATIENCE, "there is no room: {:?}", sink.counters());
        std::thread::sleep(Duration::from_micros(50));
    }
    Ok(())
}

fn statistics(interface: &str) -> DeviceStatistics {
    netdev::by_name(interface).unwrap().unwrap().statistics
}

/// What the sending interface counted since `before`, once it has counted `frames` at least: sent
/// and dropped.
fn judged(before: DeviceStatistics, frames: u64) -> (u64, u64) {
    let start = Instant::now();
    loop {
        let now = statistics("tx0");
        let sent = now.tx_packets - before.tx_packets;
        let dropped = now.tx_dropped - before.tx_dropped;
        if sent + dropped >= frames || start.elapsed() > PATIENCE {
            return (sent, dropped);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Frames come out as they were put, all of them, and the account says so.
fn each_as_it_is(kinds: &[SinkKind], config: LabConfig, sizes: &str, count: u64) {
    let lab = Lab::up(&config).unwrap();
    let shape = Shape::new(sizes.parse().unwrap(), 3).unwrap();
    for &kind in kinds {
        as_it_is(&lab, &shape, count, || opened(kind, 0));
    }
}

fn as_it_is(lab: &Lab, shape: &Shape, count: u64, open: impl Fn() -> AnySink + Sync) {
    let witness = Witness::start(lab.status());
    let kind = at_sender(lab, || {
        let before = statistics("tx0");
        let mut sink = open();
        let kind = sink.kind();
        let mut bytes = 0;
        for number in 0..count {
            let frame = shape.frame(0, number);
            put(&mut sink, &frame).unwrap();
            bytes += frame.len() as u64;
        }
        let counters = drained(&mut sink, PATIENCE);
        let expected = SinkCounters {
            offered: count,
            offered_bytes: bytes,
            accepted: count,
            ..SinkCounters::default()
        };
        assert_eq!(counters, expected, "{kind}");
        assert_eq!(judged(before, count), (count, 0), "{kind}");
        let ended = sink.put(60, None, |_| ());
        assert!(matches!(ended, Err(SinkError::Ended { .. })), "{kind}");
        kind
    });
    let frames = witness.frames(count);
    assert_eq!(frames.len() as u64, count, "{kind}");
    for (number, frame) in (0..).zip(frames) {
        assert_eq!(frame, shape.frame(0, number), "{kind}: frame {number}");
    }
}

#[test]
fn every_kind_sends_frames_of_all_lengths_as_they_are() {
    const NAME: &str = "every_kind_sends_frames_of_all_lengths_as_they_are";
    if ready(NAME) {
        each_as_it_is(&kinds(NAME), config("sink-lengths"), "14-1514", 3000);
    }
}

/// By net_af_packet, which a sink on an interface of the kernel's is.
#[test]
fn dpdk_sends_frames_of_all_lengths_as_they_are() {
    const NAME: &str = "dpdk_sends_frames_of_all_lengths_as_they_are";
    if !ready(NAME) {
        return;
    }
    if let Err(error) = ringside_dpdk::release() {
        return skip(NAME, &error.to_string());
    }
    each_as_it_is(&[SinkKind::Dpdk], config("sink-dpdk"), "14-1514", 3000);
    let jumbo = LabConfig { mtu: 9000, ..config("sink-dpdk-jumbo") };
    each_as_it_is(&[SinkKind::Dpdk], jumbo, "14,2024,4073,9014", 300);
}

#[test]
fn every_kind_sends_long_frames_where_the_mtu_allows() {
    const NAME: &str = "every_kind_sends_long_frames_where_the_mtu_allows";
    if ready(NAME) {
        let mut kinds = kinds(NAME);
        // On a card a frame is not longer than a buffer of netmap's; on a switch it has several.
        kinds.retain(|kind| *kind != SinkKind::Netmap);
        let jumbo = LabConfig { mtu: 9000, ..config("sink-jumbo") };
        each_as_it_is(&kinds, jumbo, "14,2024,2025,4072,4073,8999,9014", 500);
        let longest = LabConfig { mtu: 65_535, ..config("sink-longest") };
        each_as_it_is(&kinds, longest, "30000-65535", 60);
        let lab = Lab::up(&LabConfig { mtu: 65_535, ..config("sink-switch") }).unwrap();
        let shape = Shape::new("14,2048,2049,4097,9014,65535".parse().unwrap(), 3).unwrap();
        as_it_is(&lab, &shape, 300, || played::netmap_switch("tx0"));
    }
}

#[test]
fn what_a_full_ring_refuses_is_counted_to_the_frame() {
    const NAME: &str = "what_a_full_ring_refuses_is_counted_to_the_frame";
    const COUNT: u64 = 100_000;
    if !ready(NAME) {
        return;
    }
    // The NAPI shares the sender's CPU and gets it only between calls: the ring must overflow.
    let napi = Napi::Pinned(allowed_cpus().unwrap()[0]);
    let lab = Lab::up(&LabConfig { napi, ..config("sink-full") }).unwrap();
    let received = || inside(&lab.status().receiver_namespace, || statistics("rx0").rx_packets);
    let shape = Shape::new("64".parse().unwrap(), 1).unwrap();
    for kind in kinds(NAME) {
        let before = received();
        let accepted = at_sender(&lab, || {
            let before = statistics("tx0");
            let mut sink = opened(kind, 0);
            for number in 0..COUNT {
                put(&mut sink, &shape.frame(0, number)).unwrap();
                let now = sink.counters();
                assert!(now.accepted + now.refused_total() <= now.offered, "{kind}: {now:?}");
            }
            let counters = drained(&mut sink, PATIENCE);
            assert!(counters.is_balanced() && counters.offered == COUNT, "{kind}: {counters:?}");
            let (sent, dropped) = judged(before, COUNT);
            assert!(sent == counters.accepted && dropped > 0, "{kind}: {sent} {dropped}");
            // netmap keeps what its driver had no room for, and tries again.
            let refused = if kind == SinkKind::Netmap { 0 } else { dropped };
            let no_room = counters.refused.get(&Refusal::NoRoom).copied().unwrap_or(0);
            assert_eq!((no_room, counters.refused_total()), (refused, refused), "{kind}");
            counters.accepted
        });
        assert_eq!(received() - before, accepted, "{kind}");
    }
}

#[test]
fn chains_that_a_full_ring_refuses_come_back_whole() {
    const COUNT: u64 = 30_000;
    if !ready("chains_that_a_full_ring_refuses_come_back_whole") {
        return;
    }
    let napi = Napi::Pinned(allowed_cpus().unwrap()[0]);
    let lab = Lab::up(&LabConfig { napi, ..config("sink-full-chains") }).unwrap();
    at_sender(&lab, || {
        let before = statistics("tx0");
        let mut sink = opened(SinkKind::AfXdp, 50_000);
        let start = Instant::now();
        for number in 0..COUNT as usize {
            let at = number % 400 * 100 + 1;
            let pieces = [at..at + 99, 7..8, at + 3000..at + 3333];
            while !sink.put_chain(60, None, |slot| slot.fill(1), &pieces).unwrap() {
                assert!(start.elapsed() < PATIENCE, "{:?}", sink.counters());
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        let counters = drained(&mut sink, PATIENCE);
        let refused = counters.refused_total();
        assert!(refused > 0 && counters.is_balanced(), "{counters:?}");
        assert_eq!(judged(before, COUNT), (counters.accepted, refused));
        let all = sink.features().chains.unwrap().payload_bytes;
        assert!(sink.write_payload(0..all, |part| part.fill(0)).unwrap(), "nothing is in flight");
    });
}

/// A UDP header stack for `payload` bytes; the checksum's field holds the pseudo-header's sum.
fn udp_header(payload: usize) -> Vec<u8> {
    let mut header = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 0x45, 0];
    header.extend_from_slice(&(28 + payload as u16).to_be_bytes());
    header.extend_from_slice(&[0, 1, 0x40, 0, 64, 17, 0, 0, 10, 99, 0, 7, 10, 99, 0, 8]);
    let sum = !fold(sum(&header[14..34]));
    header[24..26].copy_from_slice(&sum.to_be_bytes());
    let length = (8 + payload as u16).to_be_bytes();
    let pseudo = fold(sum_of(&[&header[26..34], &[0, 17], &length]));
    header.extend_from_slice(&[0x13, 0x88, 0x17, 0x70]);
    header.extend_from_slice(&length);
    header.extend_from_slice(&pseudo.to_be_bytes());
    header
}

/// The sum of RFC 1071, of bytes from an even place on.
fn sum(bytes: &[u8]) -> u64 {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
    bytes.chunks(2).map(word).sum()
}

fn sum_of(pieces: &[&[u8]]) -> u64 {
    pieces.iter().map(|piece| sum(piece)).sum()
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[test]
fn chains_arrive_byte_for_byte_and_requested_checksums_are_right() {
    const COUNT: u64 = 600;
    if !ready("chains_arrive_byte_for_byte_and_requested_checksums_are_right") {
        return;
    }
    let lab = Lab::up(&LabConfig { mtu: 9000, ..config("sink-chains") }).unwrap();
    let witness = Witness::start(lab.status());
    let mut random = Random::new(7);
    let sent = at_sender(&lab, || {
        let mut sink = opened(SinkKind::AfXdp, 100_000);
        let chains = sink.features().chains.unwrap();
        assert!(chains.payload_bytes >= 100_000 && sink.features().checksums, "{chains:?}");
        let payload = random.bytes(chains.payload_bytes);
        let mut from = 0;
        let write = |part: &mut [u8]| {
            part.copy_from_slice(&payload[from..from + part.len()]);
            from += part.len();
        };
        assert!(sink.write_payload(0..payload.len(), write).unwrap());
        let mut sent = Vec::new();
        for number in 0..COUNT {
            let pieces = pieces(1 + number as usize % 17, chains.part_bytes, &mut random);
            let bytes: Vec<u8> =
                pieces.iter().flat_map(|piece| &payload[piece.clone()]).copied().collect();
            let header = udp_header(bytes.len());
            let request = (number % 2 == 0).then_some(ChecksumRequest { start: 34, offset: 6 });
            let write = |slot: &mut [u8]| slot.copy_from_slice(&header);
            assert!(sink.put_chain(header.len(), request, write, &pieces).unwrap());
            // A frame in one piece may ask for a checksum too.
            let whole = [&header[..], &bytes].concat();
            if number % 5 == 0 && whole.len() < 4000 {
                let write = |slot: &mut [u8]| slot.copy_from_slice(&whole);
                assert!(sink.put(whole.len(), request, write).unwrap());
                sent.push((whole.clone(), request.is_some()));
            }
            sent.push((whole, request.is_some()));
        }
        sent.push((too_many_parts(&mut sink, &payload), false));
        let counters = drained(&mut sink, PATIENCE);
        assert_eq!((counters.accepted, counters.is_balanced()), (sent.len() as u64, true));
        sent
    });
    let frames = witness.frames(sent.len() as u64);
    assert_eq!(frames.len(), sent.len());
    for (frame, (mut expected, has_checksum)) in frames.into_iter().zip(sent) {
        if has_checksum {
            let end = expected.len();
            let covered = fold(sum_of(&[&expected[34..end]]));
            let checksum = if covered == 0xffff { 0xffff } else { !covered };
            expected[40..42].copy_from_slice(&checksum.to_be_bytes());
            let pseudo = sum_of(&[&frame[26..34], &[0, 17], &frame[38..40], &frame[34..]]);
            assert_eq!(fold(pseudo), 0xffff, "the checksum is right");
        }
        assert!(frame == expected, "{} and {} bytes", frame.len(), expected.len());
    }
}

/// This number of pieces of one part each, together no longer than a frame may be.
fn pieces(count: usize, part_bytes: usize, random: &mut Random) -> Vec<Range<usize>> {
    let piece = |_| {
        let start = random.below(20) * part_bytes + 1 + random.below(part_bytes / 2);
        start..start + 1 + random.below(8900 / count).min(part_bytes / 2 - 1)
    };
    (0..count).map(piece).collect()
}

/// Refused by the sink, not by the kernel.
/// Returns the one that was sent.
fn too_many_parts(sink: &mut AnySink, payload: &[u8]) -> Vec<u8> {
    let before = sink.counters().offered;
    let pieces: Vec<Range<usize>> = (0..18).map(|at| at..at + 1).collect();
    for count in [18, 17] {
        let result = sink.put_chain(60, None, |slot| slot.fill(0), &pieces[..count]);
        assert_eq!(result.is_err(), count == 18, "{result:?}");
    }
    let crossing = sink.features().chains.unwrap().part_bytes - 1;
    let mut crossed = pieces[..16].to_vec();
    crossed.push(crossing..crossing + 2);
    assert!(sink.put_chain(60, None, |_| (), &crossed).is_err(), "a piece of two parts");
    assert_eq!(sink.counters().offered, before + 1);
    [&[0; 60], &payload[..17]].concat()
}

#[test]
fn an_interface_that_goes_is_named_and_the_account_balances() {
    const NAME: &str = "an_interface_that_goes_is_named_and_the_account_balances";
    if !ready(NAME) {
        return;
    }
    for (event, said) in [("set tx0 down", "was set down"), ("delete tx0", "was removed")] {
        for kind in kinds(NAME) {
            let name = format!("sink-gone-{}-{kind}", event.len());
            let lab = Lab::up(&config(&name)).unwrap();
            let namespace = &lab.status().sender_namespace;
            let counters = at_sender(&lab, || {
                let mut sink = opened(kind, 0);
                for _ in 0..1000 {
                    put(&mut sink, &[3; 60]).unwrap();
                }
                tool(&format!("ip -n {namespace} link {event}"));
                let start = Instant::now();
                let error = loop {
                    assert!(start.elapsed() < PATIENCE, "{kind} goes on after {event}");
                    match put(&mut sink, &[3; 60]) {
                        Ok(()) => {}
                        Err(error) => break error.to_string(),
                    }
                };
                assert!(error.contains("tx0") && error.contains(said), "{kind}: {error}");
                // It may be reported once more.
                sink.drain(PATIENCE).0
            });
            assert!(counters.is_balanced() && counters.offered > 1000, "{kind}: {counters:?}");
            assert!(counters.accepted >= 1000 - 64, "{kind}: {counters:?}");
            assert!(counters.refused_total() > 0, "{kind}: {counters:?}");
            let only = counters.refused.keys().all(|cause| *cause == Refusal::InterfaceGone);
            assert!(only, "{kind}: {counters:?}");
        }
    }
}

#[test]
fn what_is_not_handed_over_in_time_is_refused_and_never_sent() {
    const NAME: &str = "what_is_not_handed_over_in_time_is_refused_and_never_sent";
    if !ready(NAME) {
        return;
    }
    let kinds = kinds(NAME);
    let lab = Lab::up(&config("sink-time")).unwrap();
    at_sender(&lab, || {
        for kind in kinds {
            let before = statistics("tx0");
            let mut sink = opened(kind, 0);
            let waits = !matches!(kind, SinkKind::Pcap | SinkKind::PfRing);
            for _ in 0..40 {
                put(&mut sink, &[3; 60]).unwrap();
            }
            assert_eq!(sink.counters().in_flight(), if waits { 40 } else { 0 }, "{kind}");
            let counters = drained(&mut sink, Duration::ZERO);
            assert!(counters.is_balanced(), "{kind}: {counters:?}");
            assert_eq!(drained(&mut sink, PATIENCE), counters, "the account is closed");
            let account = (counters.accepted, counters.refused_total());
            assert_eq!(judged(before, counters.accepted).0, account.0, "{kind}");
            assert_eq!(account, (40, 0), "{kind}: a veth pair takes them at once");
        }
        let before = statistics("tx0");
        let mut sink = played::netmap_at_rest("tx0");
        let mut count = 0;
        while sink.put(60, None, |slot| slot.fill(3)).unwrap() {
            count += 1;
        }
        assert_eq!((sink.counters().in_flight(), count), (1023, 1023), "a ring but for one slot");
        let counters = drained(&mut sink, Duration::from_millis(1));
        assert_eq!(counters.refused.into_iter().collect::<Vec<_>>(), [(Refusal::NotSent, count)]);
        assert_eq!((counters.accepted, counters.offered), (0, count));
        drop(sink);
        assert_eq!(judged(before, 0), (0, 0));
    });
}

#[test]
fn auto_says_what_it_chose_and_errors_what_fixes_them() {
    const NAME: &str = "auto_says_what_it_chose_and_errors_what_fixes_them";
    if !ready(NAME) {
        return;
    }
    let kinds = kinds(NAME);
    let lab = Lab::up(&config("sink-auto")).unwrap();
    at_sender(&lab, || {
        let best = open(None, &SinkConfig::new("tx0")).unwrap();
        assert_eq!(best.sink.kind(), SinkKind::AfXdp);
        let notes = best.notes.join("\n");
        assert!(notes.contains("tx0: af-xdp, because") && notes.contains("copy with"), "{notes}");
        let second = open(None, &SinkConfig::new("tx0")).unwrap();
        let notes = second.notes.join("\n");
        assert_eq!(second.sink.kind(), SinkKind::AfPacket, "the queue is in use: {notes}");
        assert!(notes.contains("not af-xdp") && notes.contains("one socket"), "{notes}");
        drop(best);
        let text = |result: Result<_, Error>| result.err().map(|e| e.to_string()).unwrap();
        let queue = SinkConfig { queue: 9, ..SinkConfig::new("tx0") };
        let error = text(try_open(SinkKind::AfXdp, &queue));
        assert!(error.contains("queue 9") && error.contains("ethtool -l"), "{error}");
        let error = text(try_open(SinkKind::Netmap, &queue));
        assert!(error.contains("transmit ring 9") && error.contains("number of rings"), "{error}");
        for &kind in &kinds {
            assert!(text(try_open(kind, &SinkConfig::new("tx7"))).contains("ip link"));
            let mut sink = opened(kind, 0);
            let long = sink.put(1519, None, |_| ()).unwrap_err().to_string();
            assert!(long.contains("1519") && long.contains("14 to 1518"), "{kind}: {long}");
            assert!(sink.put(13, None, |_| ()).is_err(), "{kind}");
            let chain = sink.put_chain(60, None, |_| (), &[]).unwrap_err().to_string();
            assert!(chain.contains(kind.name()) && chain.contains("chains"), "{chain}");
            assert_eq!(sink.counters(), SinkCounters::default(), "{kind}");
        }
        tags_and_lengths(&kinds);
        tool(&format!("ip -n {} link set tx0 down", lab.status().sender_namespace));
        let down = open(None, &SinkConfig::new("tx0")).map(|opened| opened.sink);
        assert!(text(down).contains("set tx0 up"));
    });
}

/// What is longer than the MTU has a tag, or is refused where the kernel looks.
fn tags_and_lengths(kinds: &[SinkKind]) {
    let mut tagged = [8; 1518];
    tagged[12..14].copy_from_slice(&[0x81, 0x00]);
    for &kind in kinds {
        let before = statistics("tx0");
        let mut sink = opened(kind, 0);
        for _ in 0..2 {
            put(&mut sink, &[8; 60]).unwrap();
            put(&mut sink, &[8; 1515]).unwrap();
            put(&mut sink, &tagged).unwrap();
        }
        let counters = drained(&mut sink, PATIENCE);
        let too_long = if kind == SinkKind::AfXdp { 0 } else { 2 };
        let accepted = 6 - too_long;
        assert_eq!((counters.accepted, counters.refused_total()), (accepted, too_long), "{kind}");
        assert!(counters.refused.keys().all(|cause| *cause == Refusal::TooLong), "{kind}");
        assert_eq!(judged(before, accepted).0, accepted, "{kind}");
    }
}
