//! Flows of the cache are those of a table that gets each packet: of captures, and of random
//! frames with tags, tunnels, fragments, options and cuts.

use crate::flows::ByFlow;
use crate::headers::table;
use ringside_core::{FrameMeta, LaneId, LinkType, SourceInterface, Timestamp};
use ringside_flow::{NoFlow, PacketReader, Sums};
use ringside_inspect::{DissectedFrame, Received};
use ringside_meter::{Hook, Meter, Options};
use ringside_sys::thread::{allowed_cpus, pin_to_cpu};
use ringside_testkit::stacks::{Stack, Wanted};
use ringside_testkit::{Random, by_run, is_runnable, need_root};

/// What a table makes of frames that it sees one by one.
fn expected(frames: &[Vec<u8>]) -> (ByFlow, [Sums; NoFlow::ALL.len()]) {
    let mut reader = PacketReader::new();
    let (mut table, mut flows) = (table(), ByFlow::default());
    let interface = SourceInterface::ethernet("end");
    for (at, frame) in (1_u64..).zip(frames) {
        let timestamp = Timestamp(1_700_000_000_000_000_000 + at);
        let wire_bytes = frame.len() as u32;
        let meta = FrameMeta { timestamp, wire_bytes, ..FrameMeta::default() };
        let dissected = DissectedFrame::new(frame, wire_bytes, LinkType::ETHERNET);
        let received = Received { meta: &meta, interface: &interface, lane: LaneId::default() };
        match reader.read(&dissected, &received) {
            Ok(packet) => table.add(&packet, &|| None, &mut |record| flows.add(&record)),
            Err(cause) => {
                table.count_no_flow(cause, Sums { packets: 1, octets: wire_bytes.into() });
            }
        }
    }
    table.flush(&mut |record| flows.add(&record));
    (flows, table.ledger().no_flow)
}

/// What comes out of the cache, with a reading after every `step` frames.
fn found(hook: Hook, frames: &[Vec<u8>], step: usize) -> (ByFlow, [Sums; NoFlow::ALL.len()]) {
    let options = Options { entries: 64, ..Options::default() };
    let mut meter = Meter::unattached(hook, &options).unwrap();
    let (mut table, mut flows) = (table(), ByFlow::default());
    for frames in frames.chunks(step) {
        for frame in frames {
            meter.cache().test_run(frame, false, 1).unwrap();
        }
        meter.poll(&mut table, &mut |record| flows.add(&record)).unwrap();
    }
    let ledger = meter.finish(&mut table, &mut |record| flows.add(&record)).unwrap();
    assert!(ledger.balances(), "{ledger:?}");
    assert!(table.ledger().balances(table.held()));
    assert_eq!(ledger.no_room, Sums::default());
    assert_eq!(ledger.received.packets, frames.len() as u64);
    (flows, ledger.no_flow)
}

fn compare(frames: &[Vec<u8>], what: &str) {
    // A CPU's part has one writer: the test's frames all come on one.
    pin_to_cpu(allowed_cpus().unwrap()[0]).unwrap();
    let expected = expected(frames);
    for (hook, step) in [(Hook::Xdp, 500), (Hook::Tc, 7)] {
        let found = found(hook, frames, step);
        assert_eq!(found.1, expected.1, "{what}");
        for (name, ways) in &expected.0.0 {
            assert_eq!(found.0.0.get(name), Some(ways), "{what}, {hook:?}: {name:?}");
        }
        assert_eq!(found.0, expected.0, "{what}");
    }
}

#[test]
fn captures_give_the_flows_that_a_table_makes_of_each_packet() {
    if !need_root("captures_give_the_flows_that_a_table_makes_of_each_packet") {
        return;
    }
    let all = crate::support::corpus("captures_give_the_flows").into_iter();
    let ethernet = all.filter(|(link, frame)| *link == LinkType::ETHERNET && is_runnable(frame));
    let frames: Vec<_> =
        ethernet.map(|(_, frame)| frame).take(by_run(20_000, usize::MAX)).collect();
    assert!(frames.len() > 100);
    compare(&frames, "captures");
}

#[test]
fn random_frames_give_the_flows_that_a_table_makes_of_each_packet() {
    if !need_root("random_frames_give_the_flows_that_a_table_makes_of_each_packet") {
        return;
    }
    let mut random = Random::new(23);
    let wanted = Wanted { tunnels_max: 2, is_fragmentable: true, ..Wanted::default() };
    let mut frames = Vec::new();
    while frames.len() < by_run(10_000, 300_000) {
        if random.below(2) == 0 {
            frames.push(ringside_testkit::rules::random_frame(&mut random));
            continue;
        }
        let stack = Stack::random(&mut random, wanted);
        let payload = random.bytes(200);
        match random.below(3) {
            0 => frames.push(stack.uncut(&payload)),
            1 => frames.extend(stack.fragments(&payload, 64, 7)),
            _ => {
                // Twice, so that an entry is hit.
                let frame = stack.uncut(&payload);
                frames.extend([frame.clone(), frame]);
            }
        }
    }
    frames.retain(|frame| is_runnable(frame));
    assert!(frames.len() > 1_000);
    compare(&frames, "random frames");
}
