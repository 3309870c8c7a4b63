//! Reading back a packet block that this program packed.

use super::{FLAGS_OUTBOUND, PACKET_FIXED_BYTES};
use crate::pcapng::{ENHANCED_PACKET, aligned, option};
use ringside_core::{Direction, Frame, FrameMeta, InterfaceId, Timestamp, TimestampKind};

/// Where the captured bytes begin in a packet block.
pub const PACKET_DATA_AT: usize = 28;

/// The frame in `block`, one whole pcapng block as [`super::blocks`] gives it; `None` for any
/// other block, and for one whose lengths do not agree.
pub fn packet(block: &[u8]) -> Option<Frame<'_>> {
    let word = |at: usize| Some(u32::from_le_bytes(*block.get(at..)?.first_chunk()?));
    if word(0)? != ENHANCED_PACKET {
        return None;
    }
    let captured = word(20)? as usize;
    let rest = block.get(PACKET_DATA_AT..block.len() - 4)?;
    let bytes = rest.get(..captured)?;
    let meta = FrameMeta {
        timestamp: Timestamp(u64::from(word(12)?) << 32 | u64::from(word(16)?)),
        timestamp_kind: TimestampKind::File,
        wire_bytes: word(24)?.max(captured as u32),
        interface: InterfaceId(word(8)?),
        direction: direction(rest.get(aligned(captured)..).unwrap_or_default()),
        ..FrameMeta::default()
    };
    debug_assert!(block.len() >= PACKET_FIXED_BYTES);
    Some(Frame { bytes, meta })
}

/// The direction in the options; this program writes epb_flags first and alone.
fn direction(options: &[u8]) -> Direction {
    let Some(options) = options.first_chunk::<8>() else { return Direction::Unknown };
    let [code_low, code_high, _, _, flags @ ..] = *options;
    let is_flags = u16::from_le_bytes([code_low, code_high]) == option::EPB_FLAGS;
    if is_flags && u32::from_le_bytes(flags) == FLAGS_OUTBOUND {
        Direction::Outbound
    } else {
        Direction::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::super::{blocks, packet_block_bytes, write_packet_block, write_padding};
    use super::*;

    #[test]
    fn what_was_packed_comes_back() {
        for (length, direction) in [(0, Direction::Unknown), (61, Direction::Outbound)] {
            let data = vec![0xa5; length];
            let meta = FrameMeta {
                timestamp: Timestamp(1_763_700_000_123_456_789),
                timestamp_kind: TimestampKind::File,
                wire_bytes: length as u32 + 3,
                interface: InterfaceId(2),
                direction,
                ..FrameMeta::default()
            };
            let mut ring = vec![0; packet_block_bytes(length, direction) + 16];
            let frame = Frame { bytes: &data, meta };
            let end = write_packet_block(&mut ring, &frame, 0);
            write_padding(&mut ring[end..]);
            let found: Vec<_> = blocks(&ring).filter_map(|(_, block)| packet(block)).collect();
            assert_eq!(found.len(), 1, "padding is no packet");
            assert_eq!((found[0].bytes, found[0].meta), (&data[..], meta));
        }
    }
}
