//! The code that runs for every frame of a recording: frames to packet blocks, the one copy.
//!
//! It is written for few instructions (bench/README.md has the count): a frame costs one check that
//! its block fits, stores of whole words and one copy. Sums of lengths are in 64 bits of values
//! that begin with 32, so none can overflow.

use super::{
    CLOSING_BYTES_MAX, FLAGS_OUTBOUND, PACKET_FLAGS_BYTES, captured_bytes, packet_block_bytes,
    time_words,
};
use crate::pcapng::{ENHANCED_PACKET, option};
use ringside_core::{Direction, Frame, FrameMeta, FrameSlot, Stamps, Timestamp};
use std::ops::Range;

/// Where the data of an Enhanced Packet Block begins.
const PACKET_DATA: usize = 28;

/// The last words of a packet block: padding or the end of options, and the length again.
const BLOCK_END: usize = 8;

/// Bytes that are copied at a time: a line of the cache, of long frames two.
const STEP: usize = 64;
const LONG_STEP: usize = 2 * STEP;

/// What [`pack`] put into a ring block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Frames, of those that were offered the first.
    pub frames: usize,
    /// Their bytes, without what the snapshot length cut.
    pub captured_bytes: u64,
    /// Bytes of the ring block that are filled now.
    pub bytes: usize,
    /// Their stamps.
    pub stamps: Stamps,
}

/// Packs the frames at `slots` of `memory` (of a batch), of each at most `captured_max` bytes, at
/// the start of `tail`, which is all that is left of a ring block, up to the first that does not
/// [fit](super::fits).
///
/// # Panics
/// If a slot reaches beyond `memory`.
#[inline]
pub fn pack(tail: &mut [u8], memory: &[u8], slots: &[FrameSlot], captured_max: u32) -> Packed {
    let room_bytes = tail.len().saturating_sub(CLOSING_BYTES_MAX);
    pack_room(&mut tail[..room_bytes], memory, slots, captured_max)
}

/// As [`pack`], into `room`, which needs no room for what closes the ring block.
///
/// # Panics
/// If a slot reaches beyond `memory`.
pub fn pack_room(room: &mut [u8], memory: &[u8], slots: &[FrameSlot], captured_max: u32) -> Packed {
    // Frames lie in the memory: a length that it does not reach cuts none of them.
    match captured_max as usize >= memory.len() {
        true => pack_whole(room, memory, slots),
        false => pack_cut(room, memory, slots, captured_max as usize),
    }
}

// These two are not inlined: the loop needs all registers for itself.
#[inline(never)]
fn pack_whole(room: &mut [u8], memory: &[u8], slots: &[FrameSlot]) -> Packed {
    pack_frames(room, memory, slots, usize::MAX)
}

#[inline(never)]
fn pack_cut(room: &mut [u8], memory: &[u8], slots: &[FrameSlot], captured_max: usize) -> Packed {
    pack_frames(room, memory, slots, captured_max)
}

#[inline(always)]
fn pack_frames(
    mut room: &mut [u8],
    memory: &[u8],
    slots: &[FrameSlot],
    captured_max: usize,
) -> Packed {
    let room_bytes = room.len();
    let (mut left, mut is_full, mut captured_bytes) = (slots.iter(), false, 0u64);
    let (mut latest, mut is_ordered) = (Timestamp(0), true);
    for slot in left.by_ref() {
        let frame = slot.lend(memory);
        let bytes = &frame.bytes[..frame.bytes.len().min(captured_max)];
        let length = write_options(room, bytes.len(), frame.meta.direction);
        if length > room.len() {
            is_full = true;
            break;
        }
        let (block, rest) = std::mem::take(&mut room).split_at_mut(length);
        write_rest(block, bytes, &frame.meta);
        room = rest;
        // A sum of what lies in memory does not wrap.
        captured_bytes = captured_bytes.wrapping_add(bytes.len() as u64);
        if frame.meta.timestamp >= latest {
            latest = frame.meta.timestamp;
        } else {
            note_inversion(&mut is_ordered);
        }
    }
    let frames = slots.len() - left.len() - usize::from(is_full);
    let stamps = stamps(&slots[..frames], is_ordered);
    Packed { frames, captured_bytes, bytes: room_bytes - room.len(), stamps }
}

/// A frame is stamped before its predecessor.
// Cold and not inlined, so that the flag takes no register of the loop.
#[cold]
#[inline(never)]
fn note_inversion(is_ordered: &mut bool) {
    *is_ordered = false;
}

/// The stamps of frames, which mostly come in their order.
fn stamps(slots: &[FrameSlot], is_ordered: bool) -> Stamps {
    match slots {
        [first, .., last] if is_ordered => {
            Stamps { earliest: first.timestamp(), latest: last.timestamp() }
        }
        _ => slots.iter().fold(Stamps::NONE, |all, slot| all.with(Stamps::of(slot.timestamp()))),
    }
}

/// Packs the frame at `slot` of `memory` at the start of `room`, of which only the bytes in
/// `pieces` are kept, one behind the other; `None` if they do not fit. The pieces are in order and
/// do not overlap. `slot` holds as many bytes as are kept, so that where the last piece ends is
/// known although it may be open.
///
/// # Panics
/// If a piece that is not beyond those bytes reaches beyond `memory`.
pub fn pack_pieces(
    room: &mut [u8],
    memory: &[u8],
    slot: &FrameSlot,
    pieces: &[Range<u32>],
) -> Option<Packed> {
    let (captured, meta) = (slot.captured_bytes(), slot.meta());
    let length = write_options(room, captured as usize, meta.direction);
    let block = room.get_mut(..length)?;
    write_around(block, captured, meta);
    let frame = &memory[slot.offset()..];
    let mut rest = &mut block[PACKET_DATA..PACKET_DATA + captured as usize];
    for piece in pieces {
        // A frame may end before it.
        if rest.is_empty() {
            break;
        }
        let count = rest.len().min(piece.len());
        let (to, behind) = rest.split_at_mut(count);
        to.copy_from_slice(&frame[piece.start as usize..][..count]);
        rest = behind;
    }
    assert!(rest.is_empty(), "the pieces hold what the slot says");
    let captured_bytes = captured.into();
    Some(Packed { frames: 1, captured_bytes, bytes: length, stamps: Stamps::of(meta.timestamp) })
}

/// Writes `frame`, cut to `snaplen`, as an Enhanced Packet Block at the start of `dst`. Returns its
/// length, which is `packet_block_bytes(captured_bytes(frame, snaplen), direction)`.
///
/// # Panics
/// If `dst` is shorter than that; the caller asked [`fits`](super::fits) before.
pub fn write_packet_block(dst: &mut [u8], frame: &Frame<'_>, snaplen: u32) -> usize {
    let bytes = &frame.bytes[..captured_bytes(frame, snaplen)];
    let length = write_options(dst, bytes.len(), frame.meta.direction);
    write_rest(&mut dst[..length], bytes, &frame.meta);
    length
}

/// A snapshot length, of which 0 stands for none, as the most bytes that are kept of a frame.
pub const fn captured_max(snaplen: u32) -> u32 {
    if snaplen == 0 { u32::MAX } else { snaplen }
}

/// Length of the packet block of `captured` bytes. If it has options and fits at the start of
/// `room`, they are written.
#[inline]
fn write_options(room: &mut [u8], captured: usize, direction: Direction) -> usize {
    let mut length = packet_block_bytes(captured, Direction::Inbound);
    if direction == Direction::Outbound {
        length += PACKET_FLAGS_BYTES;
        write_flags(room, length);
    }
    length
}

/// The option that says that the frame was sent, and all padding that can be before it.
// Cold: most recordings are of received frames.
#[cold]
#[inline(never)]
fn write_flags(room: &mut [u8], length: usize) {
    const FLAGS: [u8; 12] =
        [0, 0, 0, 0, option::EPB_FLAGS as u8, 0, 4, 0, FLAGS_OUTBOUND as u8, 0, 0, 0];
    if let Some(block) = room.get_mut(..length) {
        let end = length - BLOCK_END;
        block[end - FLAGS.len()..end].copy_from_slice(&FLAGS);
    }
}

/// Fills the rest of `block`, from its end: what is padding only in part is written over by what
/// comes before it.
#[inline]
fn write_rest(block: &mut [u8], bytes: &[u8], meta: &FrameMeta) {
    write_around(block, bytes.len() as u32, meta);
    copy(&mut block[PACKET_DATA..PACKET_DATA + bytes.len()], bytes);
}

/// What stands around `captured` bytes of data.
#[inline]
fn write_around(block: &mut [u8], captured: u32, meta: &FrameMeta) {
    let length = block.len() as u32;
    if let Some([end @ .., _, _, _, _]) = block.last_chunk_mut::<BLOCK_END>() {
        *end = [0; 4];
    }
    if let Some(end) = block.last_chunk_mut() {
        *end = length.to_le_bytes();
    }
    if let Some(head) = block.first_chunk_mut() {
        *head = packet_head(length, captured, meta);
    }
}

#[inline]
fn packet_head(length: u32, captured: u32, meta: &FrameMeta) -> [u8; PACKET_DATA] {
    let mut head = [0; PACKET_DATA];
    head[..4].copy_from_slice(&ENHANCED_PACKET.to_le_bytes());
    head[4..8].copy_from_slice(&length.to_le_bytes());
    head[8..12].copy_from_slice(&meta.interface.0.to_le_bytes());
    head[12..20].copy_from_slice(&time_words(meta.timestamp));
    head[20..24].copy_from_slice(&captured.to_le_bytes());
    head[24..].copy_from_slice(&meta.wire_bytes.to_le_bytes());
    head
}

/// Copies all of `from`. Where packets come fastest they are short: two moves that may overlap
/// cost less than a call.
#[inline]
fn copy(to: &mut [u8], from: &[u8]) {
    const HALF: usize = STEP / 2;
    if from.len().wrapping_sub(HALF) <= HALF
        && let (Some(start), Some(end)) = (from.first_chunk::<HALF>(), from.last_chunk::<HALF>())
    {
        to[..HALF].copy_from_slice(start);
        to[from.len() - HALF..].copy_from_slice(end);
    } else {
        copy_steps(to, from);
    }
}

/// As [`copy`], step by step; the last overlaps the one before it. For frames, which are never
/// aligned, the C library's copy takes up to twice the time (150 against 85 ns for 1,514 bytes;
/// glibc 2.36, AMD EPYC).
#[inline(never)]
fn copy_steps(to: &mut [u8], from: &[u8]) {
    match from.len() {
        _ if to.len() != from.len() => to.copy_from_slice(from),
        LONG_STEP.. => copy_in_steps::<LONG_STEP>(to, from),
        STEP.. => copy_in_steps::<STEP>(to, from),
        _ => to.copy_from_slice(from),
    }
}

#[inline(always)]
fn copy_in_steps<const BYTES: usize>(to: &mut [u8], from: &[u8]) {
    let last = from.len() - BYTES;
    let mut at = 0;
    while at < from.len() {
        // The minimum also keeps the compiler from making a call to the C library of the loop.
        let step = at.min(last);
        to[step..step + BYTES].copy_from_slice(&from[step..step + BYTES]);
        at += BYTES;
    }
}

#[cfg(test)]
mod tests;
