use super::super::fits;
use super::*;
use proptest::prelude::*;
use ringside_core::{FrameMeta, InterfaceId, Timestamp};

/// The packet block of a frame, field by field as the format says.
fn reference(frame: &Frame<'_>, snaplen: usize) -> Vec<u8> {
    let captured = &frame.bytes[..frame.bytes.len().min(snaplen)];
    let stamp = frame.meta.timestamp.0;
    let (high, low) = ((stamp >> 32) as u32, stamp as u32);
    let lengths = [captured.len() as u32, frame.meta.wire_bytes];
    let mut rest = Vec::new();
    for word in [frame.meta.interface.0, high, low].into_iter().chain(lengths) {
        rest.extend(word.to_le_bytes());
    }
    rest.extend(captured);
    rest.resize(rest.len().next_multiple_of(4), 0);
    if frame.meta.direction == Direction::Outbound {
        for half_word in [2u16, 4, 2, 0, 0, 0] {
            rest.extend(half_word.to_le_bytes());
        }
    }
    let length = (rest.len() as u32 + 12).to_le_bytes();
    [&6u32.to_le_bytes(), &length, &rest[..], &length].concat()
}

/// Length and kind of a frame: short ones, where the copy has its cases, and some long ones.
fn kinds() -> impl Strategy<Value = Vec<(usize, u64, u8)>> {
    let length = prop_oneof![4 => 0usize..140, 1 => 0usize..9100];
    prop::collection::vec((length, any::<u64>(), 0u8..3), 0..80)
}

fn slots(memory: &mut Vec<u8>, kinds: &[(usize, u64, u8)]) -> Vec<FrameSlot> {
    let mut slot = |&(length, stamp, way): &(usize, u64, u8)| {
        let offset = memory.len();
        memory.extend((0..length).map(|at| (offset + at * 7) as u8 | 1));
        let direction = [Direction::Unknown, Direction::Inbound, Direction::Outbound][way as usize];
        let meta = FrameMeta {
            timestamp: Timestamp(stamp),
            wire_bytes: length as u32 + u32::from(way),
            interface: InterfaceId(stamp as u32),
            direction,
            ..FrameMeta::default()
        };
        FrameSlot::new(offset, length as u32, meta)
    };
    kinds.iter().map(&mut slot).collect()
}

proptest! {
    #[test]
    fn packed_frames_are_what_the_format_says(
        kinds in kinds(),
        snaplen in prop::sample::select(vec![0u32, 1, 20, 62, 64, 1500, 262_144]),
        tail_bytes in 0usize..40_000,
    ) {
        let mut memory = Vec::new();
        let slots = slots(&mut memory, &kinds);
        let mut tail = vec![0xff; tail_bytes];
        let packed = pack(&mut tail, &memory, &slots, captured_max(snaplen));

        let limit = captured_max(snaplen) as usize;
        let mut expected = Packed::default();
        let mut bytes = Vec::new();
        for slot in &slots {
            let frame = slot.lend(&memory);
            let captured = frame.bytes.len().min(limit);
            if !fits(tail_bytes - bytes.len(), captured, frame.meta.direction) {
                break;
            }
            bytes.extend(reference(&frame, limit));
            expected.frames += 1;
            expected.captured_bytes += captured as u64;
            expected.stamps = expected.stamps.with(Stamps::of(frame.meta.timestamp));
        }
        expected.bytes = bytes.len();
        prop_assert_eq!(packed, expected);
        prop_assert!(tail[..bytes.len()] == bytes, "other bytes");
        prop_assert!(tail[bytes.len()..].iter().all(|&byte| byte == 0xff), "written beyond");
    }

    #[test]
    fn pieces_of_a_frame_are_packed_as_a_frame_of_these_bytes(
        kinds in kinds(),
        marks in prop::collection::btree_set(0u32..400, 1..9),
        kept in 0usize..1000,
        is_open in any::<bool>(),
    ) {
        let mut memory = Vec::new();
        let marks: Vec<u32> = marks.into_iter().collect();
        let open = if is_open { u32::MAX } else { 1 + marks[marks.len() - 1] };
        let end = |pair: &[u32]| pair.get(1).copied().unwrap_or(open);
        let pieces: Vec<_> = marks.chunks(2).map(|pair| pair[0]..end(pair)).collect();
        for slot in slots(&mut memory, &kinds) {
            let frame = slot.lend(&memory);
            let is_piece = |at: usize| pieces.iter().any(|piece| piece.contains(&(at as u32)));
            let all = (0..frame.bytes.len()).filter(|&at| is_piece(at)).map(|at| frame.bytes[at]);
            let bytes: Vec<u8> = all.take(kept).collect();
            let expected = reference(&Frame { bytes: &bytes, meta: frame.meta }, usize::MAX);
            let slot = slot.cut_to(bytes.len() as u32);
            let mut dst = vec![0xff; expected.len() + 8];
            let packed = pack_pieces(&mut dst, &memory, &slot, &pieces).unwrap();
            prop_assert_eq!(packed.bytes, expected.len());
            prop_assert_eq!(packed.captured_bytes, bytes.len() as u64);
            prop_assert!(dst[..expected.len()] == expected, "other bytes");
            prop_assert_eq!(&dst[expected.len()..], &[0xff; 8]);
            let short = &mut dst[..expected.len() - 1];
            prop_assert_eq!(pack_pieces(short, &memory, &slot, &pieces), None);
        }
    }

    #[test]
    fn a_single_frame_is_what_the_format_says(kinds in kinds(), snaplen in 0u32..200) {
        let mut memory = Vec::new();
        for slot in slots(&mut memory, &kinds) {
            let frame = slot.lend(&memory);
            let expected = reference(&frame, captured_max(snaplen) as usize);
            let mut dst = vec![0xff; expected.len() + 8];
            prop_assert_eq!(write_packet_block(&mut dst, &frame, snaplen), expected.len());
            prop_assert!(dst[..expected.len()] == expected, "other bytes");
            prop_assert_eq!(&dst[expected.len()..], &[0xff; 8]);
        }
    }
}
