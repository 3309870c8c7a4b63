use super::*;
use ringside_core::{FrameMeta, LaneId, LinkType, SourceInterface};
use ringside_testkit::Random;

/// A fragment of a packet of UDP from 10.0.0.1 to 10.0.0.2.
fn fragment(id: u16, offset: usize, bytes: &[u8], has_more: bool) -> Vec<u8> {
    let mut out = vec![0x45, 0];
    out.extend((20 + bytes.len() as u16).to_be_bytes());
    out.extend(id.to_be_bytes());
    out.extend(((offset as u16 / 8) | if has_more { 0x2000 } else { 0 }).to_be_bytes());
    out.extend([64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    out.extend(bytes);
    out
}

fn fragment_v6(id: u32, offset: usize, bytes: &[u8], has_more: bool) -> Vec<u8> {
    let mut out = vec![0x60, 0, 0, 0];
    out.extend((16 + bytes.len() as u16).to_be_bytes());
    // Destination options, then the fragment header.
    out.extend([60, 64]);
    out.extend([0xfe, 0x80].into_iter().chain([0; 14]).chain([0xfe, 0x80]).chain([9; 14]));
    out.extend([44, 0, 1, 4, 0, 0, 0, 0]);
    out.extend([17, 0]);
    out.extend((offset as u16 | u16::from(has_more)).to_be_bytes());
    out.extend(id.to_be_bytes());
    out.extend(bytes);
    out
}

fn take_in(packets: &mut Defragmenter, bytes: &[u8], stamp: u64) -> Option<Vec<u8>> {
    let meta = FrameMeta { timestamp: Timestamp(stamp), ..FrameMeta::default() };
    let interface = SourceInterface::ethernet("eth1");
    let received = Received { meta: &meta, interface: &interface, lane: LaneId(0) };
    let frame = DissectedFrame::new(bytes, bytes.len() as u32, LinkType::RAW);
    assert!(Defragmenter::is_fragment(&frame));
    packets.take_in(&frame, &received).map(|(whole, _)| whole.to_vec())
}

fn balances(packets: &Defragmenter) -> bool {
    let FragmentLedger { put_together, repeated, unreadable, overlapping, .. } = *packets.ledger();
    let FragmentLedger { timed_out, displaced, received, .. } = *packets.ledger();
    let gone = put_together + repeated + unreadable + overlapping + timed_out + displaced;
    received == gone + packets.waiting()
}

#[test]
fn any_order_gives_the_packet_that_was_cut() {
    let mut random = Random::new(3);
    let payload = random.bytes(2_001);
    for round in 0..300 {
        let mut packets = Defragmenter::new();
        let mut parts: Vec<_> = payload.chunks(8 * (1 + random.below(40))).collect();
        let step = parts[0].len();
        let last = parts.len() - 1;
        let is_v6 = round % 2 == 0;
        let make = if is_v6 { |i, o, b, m| fragment_v6(u32::from(i), o, b, m) } else { fragment };
        let mut frames: Vec<_> = parts
            .drain(..)
            .enumerate()
            .map(|(index, part)| make(7, index * step, part, index != last))
            .collect();
        frames.push(frames[random.below(frames.len())].clone());
        for index in (1..frames.len()).rev() {
            frames.swap(index, random.below(index + 1));
        }
        let whole: Vec<_> =
            frames.iter().filter_map(|frame| take_in(&mut packets, frame, 5)).collect();
        assert_eq!(whole.len(), 1);
        let frame = DissectedFrame::new(&whole[0], whole[0].len() as u32, LinkType::RAW);
        assert_eq!(frame.layers().fragment(Level::Inner), Fragment::No);
        let headers = if is_v6 { 48 } else { 20 };
        assert_eq!(whole[0][headers..], payload);
        assert!(balances(&packets), "{:?}", packets.ledger());
    }
}

#[test]
fn what_overlaps_is_given_up_whole() {
    let mut packets = Defragmenter::new();
    assert_eq!(take_in(&mut packets, &fragment(1, 0, &[1; 16], true), 5), None);
    assert_eq!(take_in(&mut packets, &fragment(1, 8, &[2; 16], true), 5), None);
    assert_eq!(take_in(&mut packets, &fragment(1, 24, &[3; 8], false), 5), None);
    // Another packet, and what is of the right length in the wrong place.
    assert_eq!(take_in(&mut packets, &fragment(2, 8, &[1; 9], true), 5), None);
    assert_eq!((packets.ledger().overlapping, packets.ledger().unreadable), (3, 1));
    assert!(balances(&packets));
}

#[test]
fn fragments_wait_for_a_time_and_are_bounded() {
    let mut packets = Defragmenter::new();
    assert_eq!(take_in(&mut packets, &fragment(1, 0, &[1; 16], true), 5), None);
    assert_eq!(take_in(&mut packets, &fragment(1, 16, &[2; 8], false), 6 + WAIT_NS), None);
    assert_eq!(packets.ledger().timed_out, 1);
    for id in 0..3 * PACKETS_MAX as u16 {
        take_in(&mut packets, &fragment(id, 8, &[1; 16], true), 6 + WAIT_NS);
    }
    assert!(packets.waiting() <= PACKETS_MAX as u64);
    assert!(balances(&packets), "{:?}", packets.ledger());
}
