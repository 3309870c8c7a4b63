//! The header block with which a ring block begins: its place in the lane, wherever it lies.

use crate::pcapng::RINGSIDE_BLOCK;
use ringside_core::{FrameNumber, Timestamp};

/// Bytes of the header block: type, length, number, first frame, time, 4 reserved, length.
pub const BLOCK_HEADER_BYTES: usize = 40;

/// What the header of a ring block says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockHeader {
    /// Number of the ring block within its lane over the whole run, from 0 without a gap.
    pub number: u64,
    /// Number of the block's first frame within its lane over the whole run.
    pub first_frame: FrameNumber,
    /// When the block was opened; zero stands for unknown.
    pub opened: Timestamp,
}

/// Writes the header block at the start of `dst` and returns its length, which is
/// [`BLOCK_HEADER_BYTES`].
///
/// # Panics
/// If `dst` is shorter than that.
#[inline]
pub fn write_block_header(dst: &mut [u8], header: &BlockHeader) -> usize {
    let length = BLOCK_HEADER_BYTES as u32;
    let mut bytes = [0; BLOCK_HEADER_BYTES];
    bytes[..4].copy_from_slice(&RINGSIDE_BLOCK.to_le_bytes());
    bytes[4..8].copy_from_slice(&length.to_le_bytes());
    bytes[8..16].copy_from_slice(&header.number.to_le_bytes());
    bytes[16..24].copy_from_slice(&header.first_frame.0.to_le_bytes());
    bytes[24..32].copy_from_slice(&header.opened.0.to_le_bytes());
    bytes[36..].copy_from_slice(&length.to_le_bytes());
    dst[..BLOCK_HEADER_BYTES].copy_from_slice(&bytes);
    BLOCK_HEADER_BYTES
}

/// The header at the start of `bytes`, a ring block or its beginning; `None` if something else
/// stands there.
pub fn block_header(bytes: &[u8]) -> Option<BlockHeader> {
    let bytes: &[u8; BLOCK_HEADER_BYTES] = bytes.first_chunk()?;
    let word = |at: usize| bytes[at..].first_chunk().map(|word| u32::from_le_bytes(*word));
    let long = |at: usize| bytes[at..].first_chunk().map(|long| u64::from_le_bytes(*long));
    let length = BLOCK_HEADER_BYTES as u32;
    if (word(0)?, word(4)?, word(36)?) != (RINGSIDE_BLOCK, length, length) {
        return None;
    }
    Some(BlockHeader {
        number: long(8)?,
        first_frame: FrameNumber(long(16)?),
        opened: Timestamp(long(24)?),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{blocks, whole_bytes};
    use super::*;

    const HEADER: BlockHeader = BlockHeader {
        number: 0x0102_0304_0506_0708,
        first_frame: FrameNumber(u64::MAX),
        opened: Timestamp(1_795_239_000_123_456_789),
    };

    #[test]
    fn the_header_is_one_block_of_pcapng_and_comes_back() {
        let mut bytes = [0xff; BLOCK_HEADER_BYTES + 8];
        assert_eq!(write_block_header(&mut bytes, &HEADER), BLOCK_HEADER_BYTES);
        assert_eq!(bytes[BLOCK_HEADER_BYTES..], [0xff; 8], "nothing beyond it is touched");
        assert_eq!(whole_bytes(&bytes[..BLOCK_HEADER_BYTES]), BLOCK_HEADER_BYTES);
        assert_eq!(blocks(&bytes).next().map(|(block_type, _)| block_type), Some(RINGSIDE_BLOCK));
        assert_eq!(block_header(&bytes), Some(HEADER));
        assert_eq!(bytes[8..16], [8, 7, 6, 5, 4, 3, 2, 1], "little endian");
    }

    #[test]
    fn what_is_torn_or_something_else_is_no_header() {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        write_block_header(&mut bytes, &HEADER);
        for length in 0..BLOCK_HEADER_BYTES {
            assert_eq!(block_header(&bytes[..length]), None);
        }
        for at in (0..8).chain(36..40) {
            let mut wrong = bytes;
            wrong[at] ^= 0x10;
            assert_eq!(block_header(&wrong), None, "byte {at}");
        }
    }
}
