//! What the header page of a recording's file says, and how it lies there.

use crate::StoreError;
use crate::block::write_padding;
use crate::pcapng::{BLOCK_BYTES_MIN, RINGSIDE_HEADER, append_block, cut_text};
use crate::writer::{append_interface, append_section_header};
use ringside_core::limits::{RING_BLOCK_BYTES, RING_BLOCK_BYTES_MAX, RING_BLOCK_BYTES_MIN};
use ringside_core::{LaneId, SourceInterface, Timestamp};
use serde::{Deserialize, Serialize};

/// Version of the format that is written. The one before, whose ring blocks have no end that tells
/// their times, is read and repaired.
pub const FORMAT_VERSION: u32 = 3;
/// First version of the format that is read.
const FORMAT_VERSION_MIN: u32 = 2;
/// First version whose ring blocks end with a [`BlockEnd`](crate::block::BlockEnd).
pub(crate) const FORMAT_VERSION_WITH_ENDS: u32 = 3;
/// The header is a multiple of this: a page, and the unit of direct I/O.
pub const HEADER_PAGE_BYTES: usize = 4096;
/// Largest header: tens of thousands of interfaces. A reader holds at most this much while it
/// looks for the header block.
pub const HEADER_BYTES_MAX: usize = 4 << 20;
/// Longest run id, in bytes.
pub const RUN_ID_BYTES_MAX: usize = 128;

/// First bytes of the header block's body.
const MAGIC: [u8; 8] = *b"RINGSIDE";
/// Body of the header block: magic, four words of 32 bits, seven of 64 bits, the boot id.
const BODY_BYTES: usize = 96;
/// Where in the body the number of the file's first ring block stands.
const FIRST_BLOCK_AT: usize = 32;
/// Where in the body the count of complete ring blocks stands.
const BLOCKS_COMPLETE_AT: usize = 40;
/// Where in the body the largest size of the file stands.
const BYTES_MAX_AT: usize = 56;
/// Stands for "no ring block yet" where the number of the first is stored.
pub(crate) const NO_BLOCK: u64 = u64::MAX;

/// What the header page of a file says, apart from the interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// Version of the format: [`FORMAT_VERSION`], or an older one that is read.
    pub format: u32,
    /// Name of the run, the same in all its files; at most [`RUN_ID_BYTES_MAX`] bytes.
    pub run: String,
    /// Lane of the run.
    pub lane: LaneId,
    /// Number of the file within its lane, from 0.
    pub sequence: u64,
    /// Bytes of a ring block.
    pub block_bytes: usize,
    /// Number of the file's first ring block within its lane over the run; `None` as long as the
    /// file has none.
    pub first_block: Option<u64>,
    /// Complete ring blocks that follow the header without a gap.
    pub blocks_complete: u64,
    /// Order of creation among all files of the directory, whatever the clock says.
    pub serial: u64,
    /// Largest size that the file will reach: what is reserved for it. 0 stands for no limit. Once
    /// nothing more is written, the file's size.
    pub bytes_max: u64,
    /// When the file was created, by the wall clock.
    pub created: Timestamp,
    /// When the file was created, in nanoseconds of CLOCK_BOOTTIME since the boot `boot_id`.
    pub created_boot_ns: u64,
    /// The kernel's random id of that boot (/proc/sys/kernel/random/boot_id); zeros if unknown.
    pub boot_id: [u8; 16],
}

impl Default for FileHeader {
    /// A file without a run, in blocks of the ordinary size.
    fn default() -> FileHeader {
        FileHeader {
            format: FORMAT_VERSION,
            run: String::new(),
            lane: LaneId(0),
            sequence: 0,
            block_bytes: RING_BLOCK_BYTES,
            first_block: None,
            blocks_complete: 0,
            serial: 0,
            bytes_max: 0,
            created: Timestamp::default(),
            created_boot_ns: 0,
            boot_id: [0; 16],
        }
    }
}

/// The encoded header page(s), and where in the file the fields stand that change.
pub(crate) struct HeaderPage {
    pub(crate) bytes: Vec<u8>,
    /// Of [`FileHeader::first_block`], 8 bytes.
    pub(crate) first_block_at: u64,
    /// Of [`FileHeader::blocks_complete`], 8 bytes.
    pub(crate) blocks_complete_at: u64,
    /// Of [`FileHeader::bytes_max`], 8 bytes.
    pub(crate) bytes_max_at: u64,
}

/// The comment of the section header: the same facts for people and scripts, and the run.
#[derive(Serialize, Deserialize)]
struct Comment {
    ringside: CommentBody,
}

#[derive(Serialize, Deserialize)]
struct CommentBody {
    format: u32,
    run: String,
    lane: LaneId,
    sequence: u64,
}

impl FileHeader {
    /// Bytes of the header page(s).
    ///
    /// # Errors
    /// The interfaces do not fit.
    pub fn page_bytes(&self, interfaces: &[SourceInterface]) -> Result<usize, StoreError> {
        Ok(self.encode(interfaces)?.bytes.len())
    }

    /// Encodes the header page(s).
    pub(crate) fn encode(&self, interfaces: &[SourceInterface]) -> Result<HeaderPage, StoreError> {
        let run = cut_text(&self.run, RUN_ID_BYTES_MAX).to_owned();
        let (lane, sequence) = (self.lane, self.sequence);
        let body = CommentBody { format: self.format, run, lane, sequence };
        let comment = serde_json::to_string(&Comment { ringside: body })
            .expect("a struct of numbers and one string is always JSON");
        let mut out = Vec::with_capacity(HEADER_PAGE_BYTES);
        append_section_header(&mut out, &comment);
        for interface in interfaces {
            append_interface(&mut out, interface);
            if out.len() > HEADER_BYTES_MAX {
                return Err(StoreError::HeaderTooLarge {
                    bytes: out.len(),
                    limit: HEADER_BYTES_MAX,
                });
            }
        }
        let body_at = out.len() + 8;
        let used = body_at + BODY_BYTES + 4;
        let mut header_bytes = used.next_multiple_of(HEADER_PAGE_BYTES);
        if header_bytes != used && header_bytes - used < BLOCK_BYTES_MIN {
            header_bytes += HEADER_PAGE_BYTES;
        }
        if header_bytes > HEADER_BYTES_MAX {
            return Err(StoreError::HeaderTooLarge {
                bytes: header_bytes,
                limit: HEADER_BYTES_MAX,
            });
        }
        append_block(&mut out, RINGSIDE_HEADER, |out| self.append_body(out, header_bytes));
        out.resize(header_bytes, 0);
        write_padding(&mut out[used..]);
        Ok(HeaderPage {
            bytes: out,
            first_block_at: (body_at + FIRST_BLOCK_AT) as u64,
            blocks_complete_at: (body_at + BLOCKS_COMPLETE_AT) as u64,
            bytes_max_at: (body_at + BYTES_MAX_AT) as u64,
        })
    }

    fn append_body(&self, out: &mut Vec<u8>, header_bytes: usize) {
        out.extend_from_slice(&MAGIC);
        let words =
            [self.format, header_bytes as u32, self.block_bytes as u32, u32::from(self.lane.0)];
        for word in words {
            out.extend_from_slice(&word.to_le_bytes());
        }
        let first_block = self.first_block.unwrap_or(NO_BLOCK);
        let (created, created_boot) = (self.created.0, self.created_boot_ns);
        let (complete, serial) = (self.blocks_complete, self.serial);
        let longs = [self.sequence, first_block, complete, serial, self.bytes_max, created];
        for word in longs.into_iter().chain([created_boot]) {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.boot_id);
    }

    /// The fields that change while and after a file is written, in a header block that ends at
    /// `block_end`: where in the file they stand, and their values.
    pub(crate) fn changing_fields(&self, block_end: usize) -> [(u64, u64); 3] {
        let body_at = block_end - 4 - BODY_BYTES;
        let fields = [
            (FIRST_BLOCK_AT, self.first_block.unwrap_or(NO_BLOCK)),
            (BLOCKS_COMPLETE_AT, self.blocks_complete),
            (BYTES_MAX_AT, self.bytes_max),
        ];
        fields.map(|(at, value)| ((body_at + at) as u64, value))
    }

    /// Decodes the body of a header block and the comment of its section. Returns the header and
    /// its length in bytes; `None` for anything that this version did not write.
    pub(crate) fn decode(body: &[u8], comment: &str) -> Option<(FileHeader, usize)> {
        let body: &[u8; BODY_BYTES] = body.try_into().ok()?;
        let word = |at: usize| body[at..].first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        let long = |at: usize| body[at..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let comment: Comment = serde_json::from_str(comment).ok()?;
        let (header_bytes, block_bytes) = (word(12)? as usize, word(16)? as usize);
        let valid = body.starts_with(&MAGIC)
            && (FORMAT_VERSION_MIN..=FORMAT_VERSION).contains(&word(8)?)
            && header_bytes.is_multiple_of(HEADER_PAGE_BYTES)
            && (HEADER_PAGE_BYTES..=HEADER_BYTES_MAX).contains(&header_bytes)
            && block_bytes.is_power_of_two()
            && (RING_BLOCK_BYTES_MIN..=RING_BLOCK_BYTES_MAX).contains(&block_bytes);
        if !valid {
            return None;
        }
        let header = FileHeader {
            format: word(8)?,
            run: comment.ringside.run,
            lane: LaneId(u16::try_from(word(20)?).ok()?),
            sequence: long(24)?,
            block_bytes,
            first_block: Some(long(FIRST_BLOCK_AT)?).filter(|&number| number != NO_BLOCK),
            blocks_complete: long(BLOCKS_COMPLETE_AT)?,
            serial: long(48)?,
            bytes_max: long(BYTES_MAX_AT)?,
            created: Timestamp(long(64)?),
            created_boot_ns: long(72)?,
            boot_id: *body[80..].first_chunk()?,
        };
        Some((header, header_bytes))
    }
}
/// True if a file of this size says that nothing more will be written to it.
pub(crate) fn is_finished(bytes_max: u64, size_bytes: u64) -> bool {
    bytes_max != 0 && bytes_max <= size_bytes
}
