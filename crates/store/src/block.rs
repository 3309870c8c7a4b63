//! Packing of a block of the capture ring: whole pcapng blocks, then statistics, then padding.
//!
//! A ring block is a power of two long and goes to disk as it lies, so it must be legal pcapng by
//! itself: a header block that tells its number, Enhanced Packet Blocks, and when it is closed one
//! Interface Statistics Block, padding, and a block at its end that tells the times of its frames.
//! No frame straddles two ring blocks. [`fits`] keeps room for the largest statistics block, the
//! smallest padding and the end, so [`close_block`] never fails, whatever was written before.
//!
//! Everything here is a pure function over slices; nothing is allocated.

mod end;
mod header;
mod pack;
mod packet;

pub use end::{BLOCK_END_BYTES, BlockEnd, block_end, write_block_end};
pub use header::{BLOCK_HEADER_BYTES, BlockHeader, block_header, write_block_header};
pub use pack::{Packed, captured_max, pack, pack_pieces, pack_room, write_packet_block};
pub use packet::{PACKET_DATA_AT, packet};

use crate::pcapng::{
    BLOCK_BYTES_MIN, ENHANCED_PACKET, INTERFACE_STATISTICS, RINGSIDE_PADDING, aligned, cut_text,
    option,
};
use ringside_core::ledger::lost;
use ringside_core::{Cause, Direction, Frame, InterfaceId, LaneCounters, Timestamp};

/// An Enhanced Packet Block without data and options.
const PACKET_FIXED_BYTES: usize = 32;
/// The flags option and the end of options.
const PACKET_FLAGS_BYTES: usize = 12;
/// Value of epb_flags for a frame that was sent: bits 0-1 are the direction.
const FLAGS_OUTBOUND: u32 = 2;

/// Largest statistics block. The numbers need at most 140 bytes, the ledger as JSON with every
/// cause and every number at 20 digits below 1,200.
pub const STATISTICS_BLOCK_BYTES_MAX: usize = 2048;
/// Room that [`fits`] keeps free at the end of every ring block.
pub const CLOSING_BYTES_MAX: usize = STATISTICS_BLOCK_BYTES_MAX + BLOCK_BYTES_MIN + BLOCK_END_BYTES;
/// Longest interface name that goes into the ledger of a statistics block; the kernel's limit is
/// 15 bytes, libpcap's names are longer. Escaped as JSON it can grow six times.
const LEDGER_NAME_BYTES_MAX: usize = 64;

/// Bytes of the packet block that holds `captured` bytes of a frame.
#[inline]
pub const fn packet_block_bytes(captured: usize, direction: Direction) -> usize {
    let options = if matches!(direction, Direction::Outbound) { PACKET_FLAGS_BYTES } else { 0 };
    // Not `aligned`, whose check for overflow runs for every frame.
    PACKET_FIXED_BYTES + captured.div_ceil(4) * 4 + options
}

/// True if a frame of `captured` bytes can be added to a ring block with `free_bytes` left, with
/// room for the closing blocks after it.
#[inline]
pub const fn fits(free_bytes: usize, captured: usize, direction: Direction) -> bool {
    packet_block_bytes(captured, direction) + CLOSING_BYTES_MAX <= free_bytes
}

/// Bytes of `frame` that are kept under a snapshot length of `snaplen`; 0 stands for no limit.
pub fn captured_bytes(frame: &Frame<'_>, snaplen: u32) -> usize {
    frame.bytes.len().min(captured_max(snaplen) as usize)
}

/// What a statistics block says: the counters of one lane since the start of the run.
#[derive(Clone, Copy, Debug)]
pub struct Statistics<'a> {
    /// Interface of the lane.
    pub interface: InterfaceId,
    /// Time of the first frame, or of the start; zero stands for unknown.
    pub first_time: Timestamp,
    /// When the counters were read, in the clock of the stamps.
    pub when: Timestamp,
    /// The ledger of the lane so far.
    pub counters: &'a LaneCounters,
}

/// Writes an Interface Statistics Block at the start of `dst` and returns its length, at most
/// [`STATISTICS_BLOCK_BYTES_MAX`]. The ledger so far stands in it as a JSON comment; values that
/// are unknown are left out.
///
/// # Panics
/// If `dst` is shorter than [`STATISTICS_BLOCK_BYTES_MAX`].
pub fn write_statistics_block(dst: &mut [u8], statistics: &Statistics<'_>) -> usize {
    let mut out = Cursor { dst: &mut dst[..STATISTICS_BLOCK_BYTES_MAX], at: 0 };
    let counters = statistics.counters;
    let when = time_words(statistics.when);
    out.put(&INTERFACE_STATISTICS.to_le_bytes());
    out.put(&[0; 4]);
    out.put(&statistics.interface.0.to_le_bytes());
    out.put(&when);
    if statistics.first_time != Timestamp::default() {
        out.option(option::ISB_START_TIME, &time_words(statistics.first_time));
    }
    out.option(option::ISB_END_TIME, &when);
    let accepted = counters.received.zip(counters.filtered).and_then(|(r, f)| r.checked_sub(f));
    let os_dropped = counters.dropped.get(&Cause::KernelRingFull).copied().unwrap_or(0);
    out.count(option::ISB_RECEIVED, counters.received);
    out.count(option::ISB_DROPPED, Some(lost(&counters.dropped)));
    out.count(option::ISB_FILTER_ACCEPTED, accepted);
    out.count(option::ISB_OS_DROPPED, Some(os_dropped));
    out.count(option::ISB_DELIVERED, Some(counters.taken));
    out.ledger(counters);
    out.put(&[0; 4]); // end of options
    let length = out.at + 4;
    out.put(&(length as u32).to_le_bytes());
    dst[4..8].copy_from_slice(&(length as u32).to_le_bytes());
    length
}

/// A stamp as pcapng stores it: upper half, lower half.
fn time_words(time: Timestamp) -> [u8; 8] {
    time.0.rotate_left(32).to_le_bytes()
}

/// A slice that is filled from its start.
struct Cursor<'d> {
    dst: &'d mut [u8],
    at: usize,
}

impl Cursor<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.dst[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn option(&mut self, code: u16, value: &[u8; 8]) {
        self.put(&code.to_le_bytes());
        self.put(&8u16.to_le_bytes());
        self.put(value);
    }

    fn count(&mut self, code: u16, value: Option<u64>) {
        if let Some(value) = value {
            self.option(code, &value.to_le_bytes());
        }
    }

    /// The counters as a JSON comment. Left out if they do not fit, which the present fields
    /// cannot bring about (a test fills them all).
    fn ledger(&mut self, counters: &LaneCounters) {
        let name = cut_text(&counters.interface, LEDGER_NAME_BYTES_MAX);
        let shortened;
        let counters = if name.len() == counters.interface.len() {
            counters
        } else {
            shortened = LaneCounters { interface: name.to_owned(), ..counters.clone() };
            &shortened
        };
        // The header of the option before; padding, end of options and the length after.
        let (start, end) = (self.at + 4, self.dst.len() - 12);
        let mut room = &mut self.dst[start..end];
        let room_bytes = room.len();
        if serde_json::to_writer(&mut room, counters).is_err() {
            return;
        }
        let length = room_bytes - room.len();
        self.put(&option::COMMENT.to_le_bytes());
        self.put(&(length as u16).to_le_bytes());
        self.at += length;
        self.put(&[0; 3][..aligned(length) - length]);
    }
}

/// Fills all of `dst` with one padding block of zeros; an empty `dst` needs none. Zeros, because
/// the ring is reused: frames of before must not reach the disk again in a gap.
///
/// # Panics
/// If the length is neither 0 nor a multiple of 4 of at least 12.
pub fn write_padding(dst: &mut [u8]) {
    let length = dst.len();
    if length == 0 {
        return;
    }
    assert!(
        length >= BLOCK_BYTES_MIN && length.is_multiple_of(4),
        "no pcapng block has {length} bytes"
    );
    let word = u32::try_from(length).expect("a ring block is far below 4 GiB").to_le_bytes();
    dst[..4].copy_from_slice(&RINGSIDE_PADDING.to_le_bytes());
    dst[4..8].copy_from_slice(&word);
    dst[8..length - 4].fill(0);
    dst[length - 4..].copy_from_slice(&word);
}

/// Closes a ring block: `tail` is everything after its last packet block, at least
/// [`CLOSING_BYTES_MAX`] long, and is filled exactly. Returns the length of the statistics block,
/// where the padding begins.
///
/// # Panics
/// If `tail` is shorter, or not a multiple of 4.
pub fn close_block(tail: &mut [u8], statistics: &Statistics<'_>, end: &BlockEnd) -> usize {
    assert!(tail.len() >= CLOSING_BYTES_MAX, "a ring block without room to be closed");
    let length = write_statistics_block(tail, statistics);
    let end_at = tail.len() - BLOCK_END_BYTES;
    write_padding(&mut tail[length..end_at]);
    write_block_end(tail, end);
    length
}

/// As [`close_block`], of a whole ring block of which `used` bytes are filled, for who does not
/// know what lies in it.
///
/// # Panics
/// As [`close_block`].
pub fn close_filled(block: &mut [u8], used: usize, statistics: &Statistics<'_>) -> usize {
    let end = BlockEnd::of(&block[..used]);
    close_block(&mut block[used..], statistics, &end)
}

/// The pcapng blocks of `bytes`: what lies there in order, up to the first that is not whole.
///
/// For bytes that this module wrote. Lengths are checked nevertheless, so that a torn end is
/// found and not believed.
pub fn blocks(bytes: &[u8]) -> Blocks<'_> {
    Blocks { bytes, at: 0 }
}

/// Iterator over whole pcapng blocks; see [`blocks`].
#[derive(Clone, Debug)]
pub struct Blocks<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Blocks<'b> {
    /// Bytes of the whole blocks given so far: where the next begins.
    pub fn offset(&self) -> usize {
        self.at
    }
}

impl<'b> Iterator for Blocks<'b> {
    /// Block type, and the whole block with its head and tail.
    type Item = (u32, &'b [u8]);

    fn next(&mut self) -> Option<(u32, &'b [u8])> {
        let rest = self.bytes.get(self.at..)?;
        let length = word(rest, 4)? as usize;
        let block = rest.get(..length)?;
        let whole = length >= BLOCK_BYTES_MIN
            && length.is_multiple_of(4)
            && word(block, length - 4) == Some(length as u32);
        if !whole {
            return None;
        }
        self.at += length;
        Some((word(block, 0)?, block))
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Frames in `bytes`, which begins at a pcapng block.
pub fn frame_count(bytes: &[u8]) -> u64 {
    blocks(bytes).filter(|&(block_type, _)| block_type == ENHANCED_PACKET).count() as u64
}

/// Length of the beginning of `bytes` that consists of whole pcapng blocks.
pub fn whole_bytes(bytes: &[u8]) -> usize {
    let mut walk = blocks(bytes);
    walk.by_ref().for_each(drop);
    walk.offset()
}

#[cfg(test)]
mod tests;
