//! The first page of a ring: what another process must know to attach, and how it is checked.
//!
//! All offsets follow from the sizes; they stand there as well, so that a program that lays the
//! memory out differently is refused and not misunderstood. Words are of this machine: the memory
//! does not leave it.

use super::layout::{RingError, RingLayout};

/// "ringside", as bytes in memory.
const MAGIC: u64 = u64::from_ne_bytes(*b"ringside");
/// Changes whenever the memory's layout or protocol does.
const VERSION: u64 = 1;

/// Words of the header, each with its name for messages.
const FIELDS: [&str; 12] = [
    "magic",
    "version",
    "lanes",
    "blocks per lane",
    "block bytes",
    "lossless readers",
    "offset of lanes",
    "offset of boards",
    "offset of slots",
    "offset of blocks",
    "total bytes",
    "checksum",
];

/// Bytes of the header that are used.
pub(crate) const HEADER_BYTES: usize = FIELDS.len() * 8;

/// The sizes of a ring whose memory begins with `header` and has `memory_bytes` bytes.
///
/// # Errors
/// Not a ring, another version, a word that contradicts another, or too little memory.
pub(crate) fn decode(
    header: &[u8; HEADER_BYTES],
    memory_bytes: u64,
) -> Result<RingLayout, RingError> {
    let mut found = [0; FIELDS.len()];
    for (word, place) in found.iter_mut().zip(header.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*place);
    }
    if found[0] != MAGIC {
        return Err(RingError::NotARing);
    }
    if found[1] != VERSION {
        return Err(RingError::Version { found: found[1], known: VERSION });
    }
    let size = |index: usize| usize::try_from(found[index]).unwrap_or(usize::MAX);
    let layout = RingLayout {
        lanes: size(2),
        blocks_per_lane: size(3),
        block_bytes: size(4),
        lossless_readers: size(5),
    };
    layout.check()?;
    for ((field, found), expected) in FIELDS.iter().zip(found).zip(words(&layout)) {
        if found != expected {
            return Err(RingError::Damaged { field, found, expected });
        }
    }
    let expected = layout.total_bytes() as u64;
    if memory_bytes < expected {
        return Err(RingError::TooSmall { found: memory_bytes, expected });
    }
    Ok(layout)
}

/// The words of the header of a ring of these sizes.
pub(crate) fn words(layout: &RingLayout) -> [u64; FIELDS.len()] {
    let mut words = [
        MAGIC,
        VERSION,
        layout.lanes as u64,
        layout.blocks_per_lane as u64,
        layout.block_bytes as u64,
        layout.lossless_readers as u64,
        layout.lanes_offset() as u64,
        layout.boards_offset() as u64,
        layout.slots_offset() as u64,
        layout.data_offset() as u64,
        layout.total_bytes() as u64,
        0,
    ];
    // Several sizes may give the same offsets: FNV-1a over words tells them apart.
    let mix = |sum: u64, word: &u64| (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3);
    words[FIELDS.len() - 1] = words.iter().fold(0xcbf2_9ce4_8422_2325, mix);
    words
}
