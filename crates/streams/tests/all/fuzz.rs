//! Hostile frames: nothing panics, and the account holds.

use crate::Follower;
use ringside_core::{FrameMeta, LaneId, LinkType, SourceInterface, Timestamp};
use ringside_inspect::{DissectedFrame, Observer, Received};

/// A segment or a fragment from 10.0.0.1 to 10.0.0.2, after its length.
fn frame(fragment: u16, sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x45, 0];
    out.extend((40 + payload.len() as u16).to_be_bytes());
    out.extend([0, 1]);
    out.extend(fragment.to_be_bytes());
    out.extend([64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x10, 0, 0, 80]);
    out.extend(sequence.to_be_bytes());
    out.extend([0, 0, 0, 0, 0x50, flags, 1, 0, 0, 0, 0, 0]);
    out.extend(payload);
    [(out.len() as u16).to_be_bytes().to_vec(), out].concat()
}

#[test]
fn any_frames_keep_the_account() {
    let seeds = [
        [frame(0, 9, 2, b""), frame(0, 10, 16, b"abc"), frame(0, 16, 17, b"ghi")].concat(),
        [frame(0, 10, 16, b"abc"), frame(0, 18, 16, b"ij"), frame(0, 13, 20, b"defgh")].concat(),
        [frame(0x2000, 10, 16, b"12345678"), frame(0x0003, 0, 0, b"x")].concat(),
    ];
    let interface = SourceInterface::ethernet("eth1");
    ringside_testkit::fuzz("streams", 20_000, &seeds, |mut input| {
        let mut follower = Follower::default();
        let mut stamp = 1_000_000_000;
        while let [high, low, rest @ ..] = input {
            let bytes = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
            let (bytes, after) = rest.split_at(bytes);
            input = after;
            stamp += 700_000_000;
            let wire_bytes = bytes.len() as u32 + u32::from(*low & 1);
            let timestamp = Timestamp(stamp);
            let meta = FrameMeta { timestamp, wire_bytes, ..FrameMeta::default() };
            let received = Received { meta: &meta, interface: &interface, lane: LaneId(0) };
            let frame = DissectedFrame::new(bytes, wire_bytes, LinkType::RAW);
            follower.see(&frame, &received);
            follower.tick(timestamp);
            let ledger = follower.streams.ledger();
            assert!(ledger.balances(), "{ledger:?}");
        }
        follower.finish();
        let ledger = follower.streams.ledger();
        assert!(ledger.balances() && ledger.held_bytes == 0, "{ledger:?}");
        let said = follower.said.0.iter().flat_map(|(_, sides)| sides);
        let bytes: u64 = said.map(|side| side.bytes.len() as u64).sum();
        assert_eq!(bytes, ledger.delivered_bytes);
    });
}
