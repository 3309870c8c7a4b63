//! The block with which a closed ring block ends: what its frames are, at a known place.
//!
//! It is the last of the ring block, so that a reader finds it without reading the frames. It is
//! written when the ring block is closed. The header does not change then: readers of the open ring
//! block have seen it long since, and it may be on the disk.

use super::{block_header, blocks, packet};
use crate::pcapng::RINGSIDE_END;
use ringside_core::{Stamps, Timestamp};

/// Bytes of the block: type, length, number, frames, earliest, latest, length.
pub const BLOCK_END_BYTES: usize = 44;

/// What the end of a ring block says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockEnd {
    /// Number of the ring block, as in its header.
    pub number: u64,
    /// Frames in it.
    pub frames: u64,
    /// Their stamps.
    pub stamps: Stamps,
}

impl BlockEnd {
    /// Of `bytes`, a ring block up to its last frame.
    pub fn of(bytes: &[u8]) -> BlockEnd {
        let number = block_header(bytes).map_or(0, |header| header.number);
        let mut end = BlockEnd { number, ..BlockEnd::default() };
        for frame in blocks(bytes).filter_map(|(_, block)| packet(block)) {
            end.frames += 1;
            end.stamps = end.stamps.with(Stamps::of(frame.meta.timestamp));
        }
        end
    }
}

/// Writes the block into the last [`BLOCK_END_BYTES`] of `dst`.
///
/// # Panics
/// If `dst` is shorter than that.
pub fn write_block_end(dst: &mut [u8], end: &BlockEnd) {
    let length = (BLOCK_END_BYTES as u32).to_le_bytes();
    let mut bytes = [0; BLOCK_END_BYTES];
    bytes[..4].copy_from_slice(&RINGSIDE_END.to_le_bytes());
    bytes[4..8].copy_from_slice(&length);
    let Stamps { earliest, latest } = end.stamps;
    for (at, word) in (8..).step_by(8).zip([end.number, end.frames, earliest.0, latest.0]) {
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    bytes[40..].copy_from_slice(&length);
    let start = dst.len() - BLOCK_END_BYTES;
    dst[start..].copy_from_slice(&bytes);
}

/// What the last bytes of a ring block say; `None` if something else stands there.
pub fn block_end(bytes: &[u8]) -> Option<BlockEnd> {
    let bytes: &[u8; BLOCK_END_BYTES] = bytes.last_chunk()?;
    let word = |at: usize| bytes[at..].first_chunk().map(|word| u32::from_le_bytes(*word));
    let long = |at: usize| bytes[at..].first_chunk().map(|long| u64::from_le_bytes(*long));
    let length = BLOCK_END_BYTES as u32;
    if (word(0)?, word(4)?, word(40)?) != (RINGSIDE_END, length, length) {
        return None;
    }
    let stamps = Stamps { earliest: Timestamp(long(24)?), latest: Timestamp(long(32)?) };
    Some(BlockEnd { number: long(8)?, frames: long(16)?, stamps })
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: BlockEnd = BlockEnd {
        number: 0x0102_0304_0506_0708,
        frames: 3,
        stamps: Stamps { earliest: Timestamp(5), latest: Timestamp(u64::MAX - 1) },
    };

    #[test]
    fn the_end_is_one_block_of_pcapng_and_comes_back() {
        let mut bytes = [0xff; BLOCK_END_BYTES + 8];
        write_block_end(&mut bytes, &END);
        assert_eq!(bytes[..8], [0xff; 8], "nothing before it is touched");
        assert_eq!(blocks(&bytes[8..]).next().map(|(kind, _)| kind), Some(RINGSIDE_END));
        assert_eq!(block_end(&bytes), Some(END));
        for at in (8..16).chain(48..52) {
            let mut wrong = bytes;
            wrong[at] ^= 0x10;
            assert_eq!(block_end(&wrong), None, "byte {at}");
        }
        assert_eq!(block_end(&bytes[9..]), None);
    }
}
