//! Both directions of a flow in one lane, by the card's own hash.

use crate::common::*;
use crate::pair::{Card, Pair, need_option};
use ringside_core::{FrameMeta, OwnedFrame};
use ringside_store::recording::series_of;
use ringside_transmit::{Load, Shape, Sizes, Stamp};
use std::collections::{BTreeMap, BTreeSet};

/// Flows; that a random key puts both directions of all of them together has the chance 2^-64.
const FLOWS: u32 = 64;

/// Places in a frame of [`Shape`]: addresses of IPv4, ports of UDP.
const ADDRESSES_AT: usize = 26;
const PORTS_AT: usize = 34;

#[test]
fn igb_with_a_symmetric_key() {
    const TEST: &str = "igb_with_a_symmetric_key";
    if !need_option(TEST, "capture", "--rss") {
        return;
    }
    let Some(pair) = Card::Igb.pair(TEST) else { return };
    let settings = || run_clean("ethtool", &["-x", pair.receiver()]);
    let before = settings();
    let split = split_flows(&pair, &[]);
    assert!(!split.is_empty(), "this key is symmetric already, so the test shows nothing");
    println!("with the driver's key {} of {FLOWS} flows are split", split.len());
    let split = split_flows(&pair, &["--rss", "symmetric"]);
    assert!(split.is_empty(), "flows in both lanes: {split:?}");
    assert_eq!(settings(), before, "the key and the table are put back");
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
    pair.send(Load::Replay(frames.into()), count);
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

/// A frame of each flow, and one with addresses and ports exchanged, which keeps the checksum.
fn both_directions() -> Vec<OwnedFrame> {
    let shape = Shape::new(Sizes::fixed(128).unwrap(), FLOWS).unwrap();
    let forth = (0..u64::from(FLOWS)).map(|sequence| shape.frame(0, sequence));
    let frames = forth.flat_map(|forth| {
        let mut back = forth.clone();
        back[ADDRESSES_AT..ADDRESSES_AT + 8].rotate_left(4);
        back[PORTS_AT..PORTS_AT + 4].rotate_left(2);
        [forth, back]
    });
    frames.map(|bytes| OwnedFrame { bytes, meta: FrameMeta::default() }).collect()
}
