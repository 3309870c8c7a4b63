//! Both directions of a flow in one lane, by the card's own hash.

use crate::common::*;
use crate::pair::{Card, Pair, need_option};
use ringside_core::{FrameMeta, OwnedFrame};
use ringside_store::recording::series_of;
use ringside_transmit::{Shape, Sizes, Stamp};
use std::collections::{BTreeMap, BTreeSet};

/// Flows; that a random key puts both directions of all of them together has the chance 2^-64.
const FLOWS: u32 = 64;

/// Places in a frame of [`Shape`]: addresses of IPv4, ports of UDP.
const ADDRESSES_AT: usize = 26;
pub const PORTS_AT: usize = 34;

#[test]
fn virtio_with_a_symmetric_key() {
    const TEST: &str = "virtio_with_a_symmetric_key";
    if !need_option(TEST, "capture", "--rss") {
        return;
    }
    let Some(pair) = Card::Virtio.pair(TEST) else { return };
    let before = settings(&pair);
    let split = split_flows(&pair, &[]);
    assert!(!split.is_empty(), "this key is symmetric already, so the test shows nothing");
    println!("with the driver's key {} of {FLOWS} flows are split", split.len());
    let split = split_flows(&pair, &["--rss", "symmetric"]);
    assert!(split.is_empty(), "flows in both lanes: {split:?}");
    assert_eq!(settings(&pair), before, "the key and the table are put back");
}

/// The driver has a key and refuses to set one.
#[test]
fn igb_refuses_a_key() {
    const TEST: &str = "igb_refuses_a_key";
    if !need_option(TEST, "capture", "--rss") {
        return;
    }
    let Some(pair) = Card::Igb.pair(TEST) else { return };
    let before = settings(&pair);
    let refused = run_ringside(&["capture", "-i", pair.receiver(), "--rss", "symmetric"]);
    assert_eq!(refused.code(), Some(2), "{refused:?}");
    println!("{}", refused.stderr);
    assert!(refused.stderr.contains("--rss symmetric"), "{}", refused.stderr);
    assert_eq!(settings(&pair), before);
    pair.check_that_the_stack_talks();
}

/// What is set of the hash: the table, the key and the fields.
fn settings(pair: &Pair) -> String {
    let mut text = run_clean("ethtool", &["-x", pair.receiver()]);
    for flow in ["tcp4", "udp4"] {
        text += &run("ethtool", &["-n", pair.receiver(), "rx-flow-hash", flow]).text();
    }
    text
}

/// Records both directions of every flow by the card's queues; the flows that are in both lanes.
fn split_flows(pair: &Pair, args: &[&str]) -> BTreeSet<u32> {
    let directory = tempfile::tempdir().unwrap();
    let recording = directory.path().join("recording");
    let mut all = vec!["--backend", "af-packet", "--fanout", "queue", "--queues", "2"];
    all.extend(["-w", arg(&recording)]);
    all.extend(args);
    let running = pair.capture(&all);
    let frames = both_directions();
    let count = frames.len() as u64;
    let before = pair.received();
    pair.send(&frames);
    assert_eq!(pair.received() - before, count);
    assert_eq!(running.stop().ledger().taken, count);

    let mut lanes: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
    let (series, _) = series_of(&[recording]).unwrap();
    assert_eq!(series.len(), 2);
    for (lane, series) in series.iter().enumerate() {
        let paths: Vec<_> = series.files.iter().map(|file| file.path.clone()).collect();
        for_each_frame(&paths, |frame, _| {
            let flow = Stamp::read(frame.bytes).unwrap().flow.unwrap();
            lanes.entry(flow).or_default().insert(lane);
        });
    }
    assert_eq!(lanes.len(), FLOWS as usize);
    let used: BTreeSet<usize> = lanes.values().flatten().copied().collect();
    assert_eq!(used.len(), 2, "the card used one queue only");
    lanes.into_iter().filter(|(_, lanes)| lanes.len() > 1).map(|(flow, _)| flow).collect()
}

/// A frame of each flow, and one with addresses and ports exchanged, which keeps the checksum. The
/// ports are others than those of [`Shape`], which grow as the addresses do: the usual symmetric
/// key has a period of 16 bits, so that such flows all get one value.
fn both_directions() -> Vec<OwnedFrame> {
    let shape = Shape::new(Sizes::fixed(128).unwrap(), FLOWS).unwrap();
    let frames = (0..FLOWS as u16).flat_map(|flow| {
        let mut forth = shape.frame(0, flow.into());
        let port = 1024 + flow * 769;
        forth[PORTS_AT..PORTS_AT + 2].copy_from_slice(&port.to_be_bytes());
        let mut back = forth.clone();
        back[ADDRESSES_AT..ADDRESSES_AT + 8].rotate_left(4);
        back[PORTS_AT..PORTS_AT + 4].rotate_left(2);
        [forth, back]
    });
    frames.map(|bytes| OwnedFrame { bytes, meta: FrameMeta::default() }).collect()
}
