//! The code that runs for every frame of a recording: frames to packet blocks, the one copy.
//!
//! It is written for few instructions (bench/README.md has the count): a frame costs one check that
//! its block fits, stores of whole words and one copy. Sums of lengths are in 64 bits of values
//! that begin with 32, so none can overflow.

use super::{CLOSING_BYTES_MAX, FLAGS_OUTBOUND, packet_block_bytes};
use crate::pcapng::{ENHANCED_PACKET, option};
use ringside_core::{Direction, Frame, FrameMeta, Timestamp};
use std::ops::ControlFlow;

/// Where the data of an Enhanced Packet Block begins.
const PACKET_DATA: usize = 28;

/// Padding, and the option that says that the frame was sent.
const OUTBOUND: [u8; 12] =
    [0, 0, 0, 0, option::EPB_FLAGS as u8, 0, 4, 0, FLAGS_OUTBOUND as u8, 0, 0, 0];

/// What [`pack`] put into a ring block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Frames, of those that were offered the first.
    pub frames: usize,
    /// Their bytes, without what the snapshot length cut.
    pub captured_bytes: u64,
    /// Bytes of the ring block that are filled now.
    pub bytes: usize,
    /// Earliest stamp; meaningless without a frame.
    pub earliest: Timestamp,
    /// Latest stamp; meaningless without a frame.
    pub latest: Timestamp,
}

/// Packs `frames`, of each at most `captured_max` bytes, at the start of `tail`, which is all that
/// is left of a ring block, up to the first that does not [fit](super::fits).
// Not inlined: the loop needs all registers for itself.
#[inline(never)]
pub fn pack<'f>(
    tail: &mut [u8],
    mut frames: impl Iterator<Item = Frame<'f>>,
    captured_max: u32,
) -> Packed {
    let room_bytes = tail.len().saturating_sub(CLOSING_BYTES_MAX);
    let mut room = &mut tail[..room_bytes];
    let mut packed = Packed { earliest: Timestamp::MAX, ..Packed::default() };
    // From within the iterator: a `for` loop asks each frame whether it is one.
    let _ = frames.try_for_each(|frame| {
        let captured = frame.bytes.len().min(captured_max as usize);
        let length = packet_block_bytes(captured, frame.meta.direction);
        if length > room.len() {
            return ControlFlow::Break(());
        }
        let (block, rest) = std::mem::take(&mut room).split_at_mut(length);
        fill_block(block, &frame.bytes[..captured], &frame.meta);
        room = rest;
        packed.frames += 1;
        packed.captured_bytes += captured as u64;
        packed.earliest = packed.earliest.min(frame.meta.timestamp);
        packed.latest = packed.latest.max(frame.meta.timestamp);
        ControlFlow::Continue(())
    });
    packed.bytes = room_bytes - room.len();
    packed
}

/// Writes `frame`, cut to `snaplen`, as an Enhanced Packet Block at the start of `dst`. Returns its
/// length, which is `packet_block_bytes(captured_bytes(frame, snaplen), direction)`.
///
/// # Panics
/// If `dst` is shorter than that; the caller asked [`fits`](super::fits) before.
pub fn write_packet_block(dst: &mut [u8], frame: &Frame<'_>, snaplen: u32) -> usize {
    let bytes = &frame.bytes[..frame.bytes.len().min(captured_max(snaplen) as usize)];
    let length = packet_block_bytes(bytes.len(), frame.meta.direction);
    fill_block(&mut dst[..length], bytes, &frame.meta);
    length
}

/// A snapshot length, of which 0 stands for none, as the most bytes that are kept of a frame.
pub const fn captured_max(snaplen: u32) -> u32 {
    if snaplen == 0 { u32::MAX } else { snaplen }
}

/// Fills `block`, which is exactly as long as the packet block of `bytes`, from its end: what is
/// padding only in part is written over by what comes before it.
#[inline]
fn fill_block(block: &mut [u8], bytes: &[u8], meta: &FrameMeta) {
    let length = block.len() as u32;
    // Padding or the end of options, and the length again.
    if let Some(end) = block.last_chunk_mut() {
        *end = (u64::from(length) << 32).to_le_bytes();
    }
    if meta.direction == Direction::Outbound {
        let end = block.len() - 8;
        block[end - OUTBOUND.len()..end].copy_from_slice(&OUTBOUND);
    }
    if let Some(head) = block.first_chunk_mut() {
        *head = packet_head(length, bytes.len() as u32, meta);
    }
    copy(&mut block[PACKET_DATA..PACKET_DATA + bytes.len()], bytes);
}

#[inline]
fn packet_head(length: u32, captured: u32, meta: &FrameMeta) -> [u8; PACKET_DATA] {
    let stamp = meta.timestamp.0;
    let words = [
        ENHANCED_PACKET,
        length,
        meta.interface.0,
        (stamp >> 32) as u32,
        stamp as u32,
        captured,
        meta.wire_bytes,
    ];
    let mut head = [0; PACKET_DATA];
    for (to, word) in head.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    head
}

/// Copies all of `from`. Where packets come fastest they are short: two moves that may overlap
/// cost less than a call.
#[inline]
fn copy(to: &mut [u8], from: &[u8]) {
    const HALF: usize = 32;
    if (HALF..=2 * HALF).contains(&from.len())
        && let (Some(start), Some(end)) = (from.first_chunk::<HALF>(), from.last_chunk::<HALF>())
    {
        to[..HALF].copy_from_slice(start);
        to[from.len() - HALF..].copy_from_slice(end);
    } else {
        to.copy_from_slice(from);
    }
}
