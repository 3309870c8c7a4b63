//! Frames of unusual length.

use crate::common::*;
use ringside_lab::LabConfig;
use ringside_testkit::{Random, need_root};

/// A frame of an experimental ethertype (IEEE 802, 88-B5), otherwise random.
fn frame(bytes: usize, random: &mut Random) -> Vec<u8> {
    let mut frame = random.bytes(bytes);
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 8]);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}

#[test]
fn shortest_and_longest_frames_are_recorded_byte_by_byte() {
    if !need_root("shortest_and_longest_frames") {
        return;
    }
    let network = Network::with(LabConfig { mtu: 65_535, ..LabConfig::default() });
    let mut random = Random::new(4);
    let long = [60, 1_514, 1_515, 4_096, 9_014, 32_768, 65_521, 65_534, 65_535];
    let lengths: Vec<usize> = (14..=59).chain(long).chain([14, 65_535]).collect();
    let sent: Vec<Vec<u8>> = lengths.iter().map(|bytes| frame(*bytes, &mut random)).collect();
    let folder = tempfile::tempdir().unwrap();
    let [directory, pcapng, pcap] =
        ["recording", "merged.pcapng", "merged.pcap"].map(|name| folder.path().join(name));
    let outputs = [&directory, &pcapng, &pcap];
    let runs = outputs.map(|output| network.capture(&["-i", "rx0", "-w", arg(output)]));
    let report = network.replay(&sent);
    assert_eq!(report.handed, sent.len() as u64, "{report:?}");
    for (running, output) in runs.into_iter().zip(outputs) {
        let ledger = running.stop().checked_ledger(report.handed);
        assert_eq!((ledger.taken, ledger.lost()), (report.handed, 0));
        let files = if output.is_dir() { files_in(output) } else { vec![output.clone()] };
        let mut recorded = Vec::new();
        for_each_frame(std::slice::from_ref(output), |frame, _| {
            assert_eq!(frame.bytes.len(), frame.meta.wire_bytes as usize);
            recorded.push(frame.bytes.to_vec());
        });
        assert!(recorded == sent, "{} differs", output.display());
        let fields = ["-T", "fields", "-e", "frame.len", "-e", "frame.cap_len"];
        let text = run_clean("tshark", &[&["-r", arg(&files[0])], &fields[..]].concat());
        let expected: String = lengths.iter().map(|n| format!("{n}\t{n}\n")).collect();
        assert_eq!(text, expected, "{}", output.display());
    }
}
