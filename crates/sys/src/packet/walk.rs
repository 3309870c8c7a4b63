//! Walking the frames of one block: plain computation on a slice.
//!
//! Every offset and length is checked in release builds too before bytes are touched. A frame
//! whose header is impossible is counted as damaged and left out; where the chain itself is
//! broken, so are all frames after it.

use super::layout::{
    BLOCK_FIRST_FRAME, BLOCK_FRAME_COUNT, BLOCK_HEADER_BYTES, BODY, FRAME_HASH, FRAME_HEADER_BYTES,
    FRAME_LEN, FRAME_MAC, FRAME_NANOS, FRAME_NEXT, FRAME_PACKET_TYPE, FRAME_SECONDS, FRAME_SNAPLEN,
    FRAME_STATUS, FRAME_VLAN_TCI, FRAME_VLAN_TPID,
};
use libc::{TP_STATUS_TS_RAW_HARDWARE, TP_STATUS_VLAN_TPID_VALID, TP_STATUS_VLAN_VALID};
use ringside_core::{
    Direction, FrameMeta, FrameSlot, InterfaceId, QueueId, Timestamp, TimestampKind, VlanTag,
};

/// Bytes of a VLAN tag; the ring is set up with as many spare before each frame (PACKET_RESERVE).
pub(super) const VLAN_TAG_BYTES: usize = 4;
/// Two MAC addresses: what lies before the tag.
const MAC_ADDRESSES_BYTES: usize = 12;
/// ETH_P_8021Q: the tag's protocol where the kernel does not say which.
const TPID_DEFAULT: u16 = 0x8100;

/// Where no header can be: beyond every block.
const NOWHERE: usize = usize::MAX;

type FrameHeader = [u8; FRAME_HEADER_BYTES];

/// What is the same for every frame of a ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameRules {
    pub interface: InterfaceId,
    pub queue: QueueId,
    /// Frames are cut to this many bytes, tags included.
    pub snaplen_bytes: u32,
    /// Frames begin with two MAC addresses, behind which a tag belongs.
    pub ethernet: bool,
    /// The ring was asked to fill in the receive hash.
    pub receive_hash: bool,
}

/// Position within a block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BlockWalk {
    /// Offset of the next frame's header from the start of the body.
    position: usize,
    remaining: u32,
}

/// One frame of the block; `offset` counts from the start of the body.
#[derive(Clone, Copy, Debug, PartialEq)]
struct WalkedFrame {
    offset: usize,
    captured_bytes: u32,
    meta: FrameMeta,
}

/// What the next step of a walk found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    /// A frame, which is in the slot now.
    Frame,
    /// This number of frames with impossible headers.
    Damaged(u32),
    End,
}

impl BlockWalk {
    /// Begins with the first frame of a block. `body` is the block without its first [`BODY`]
    /// bytes.
    pub(super) fn begin(body: &[u8]) -> BlockWalk {
        let count = u32_at(body, BLOCK_FRAME_COUNT).unwrap_or(0);
        let first = u32_at(body, BLOCK_FIRST_FRAME).unwrap_or(0) as usize;
        // More frames than headers fit cannot be; the bound keeps the count of damage honest.
        let count_max = (body.len() / FRAME_HEADER_BYTES) as u32;
        let position = if first < BLOCK_HEADER_BYTES { NOWHERE } else { first - BODY };
        BlockWalk { position, remaining: count.min(count_max) }
    }

    /// Frames that were not handed out.
    pub(super) fn remaining(&self) -> u32 {
        self.remaining
    }

    /// True when every frame of the block was handed out.
    pub(super) fn is_done(&self) -> bool {
        self.remaining == 0
    }

    /// Puts the next frames into `slots` as long as they are of the common kind, and returns how
    /// many. What ends it is for [`step`](Self::step): the end of the block, a tag, an impossible
    /// header, a stamp earlier than the one before (before the first: `last`).
    ///
    /// This runs for almost every frame of a recording. A header is checked once, as a whole; its
    /// fields are then read without checks.
    #[inline(never)]
    pub(super) fn run(
        &mut self,
        body: &[u8],
        rules: &FrameRules,
        slots: &mut [FrameSlot],
        mut last: Timestamp,
    ) -> usize {
        let count_max = if rules.receive_hash { 0 } else { slots.len() };
        let count_max = count_max.min(self.remaining as usize);
        let (mut at, mut count) = (self.position, 0);
        for slot in &mut slots[..count_max] {
            let Some(rest) = body.get(at..) else { break };
            let Some(header) = rest.first_chunk() else { break };
            let next = word(header, FRAME_NEXT) as usize;
            let tagged = word(header, FRAME_STATUS) & TP_STATUS_VLAN_VALID != 0;
            let stamp = stamp(header);
            if next < FRAME_HEADER_BYTES || tagged || stamp < last || !is_possible(header, rest) {
                break;
            }
            last = stamp;
            *slot = read_frame(at, header, rules).slot(rules);
            // Should the sum wrap, it is checked like any other position.
            at = at.wrapping_add(next);
            count += 1;
        }
        self.position = at;
        self.remaining -= count as u32;
        count
    }

    /// Puts the next frame, whatever it is, into `slot`, with its VLAN tag in its bytes again.
    pub(super) fn step(
        &mut self,
        body: &mut [u8],
        rules: &FrameRules,
        slot: &mut FrameSlot,
    ) -> Step {
        if self.remaining == 0 {
            return Step::End;
        }
        let at = self.position;
        let rest = body.get(at..).unwrap_or_default();
        let Some(header) = rest.first_chunk() else {
            return Step::Damaged(std::mem::take(&mut self.remaining));
        };
        self.remaining -= 1;
        // The offset must lead behind this header; the last frame's is never followed. Should the
        // sum wrap, it is checked like any other position.
        let next = word(header, FRAME_NEXT) as usize;
        self.position = if next < FRAME_HEADER_BYTES { NOWHERE } else { at.wrapping_add(next) };
        if !is_possible(header, rest) {
            return Step::Damaged(1);
        }
        let mut frame = read_frame(at, header, rules);
        frame.meta.hash = rules.receive_hash.then(|| word(header, FRAME_HASH));
        frame.meta.vlan = vlan_tag(header);
        if let (Some(tag), true) = (frame.meta.vlan, rules.ethernet) {
            // Without the spare room the frame would have to be lent without its tag.
            if frame.offset < at + FRAME_HEADER_BYTES + VLAN_TAG_BYTES {
                return Step::Damaged(1);
            }
            put_tag_back(body, &mut frame, tag);
        }
        *slot = frame.slot(rules);
        Step::Frame
    }
}

impl WalkedFrame {
    /// As it is lent: cut to the snapshot length.
    #[inline(always)]
    fn slot(self, rules: &FrameRules) -> FrameSlot {
        FrameSlot::new(self.offset, self.captured_bytes.min(rules.snaplen_bytes), self.meta)
    }
}

/// True if the bytes of the header's frame lie behind it in `rest`, which begins with the header.
#[inline(always)]
fn is_possible(header: &FrameHeader, rest: &[u8]) -> bool {
    let (mac, snaplen) = (half_word(header, FRAME_MAC), word(header, FRAME_SNAPLEN));
    let end = u64::from(mac) + u64::from(snaplen);
    usize::from(mac) >= FRAME_HEADER_BYTES && end <= rest.len() as u64
}

#[inline(always)]
fn stamp(header: &FrameHeader) -> Timestamp {
    Timestamp::from_parts(u64::from(word(header, FRAME_SECONDS)), word(header, FRAME_NANOS))
}

/// The frame of the header at `at`, which is possible; without its tag and hash, and not yet cut.
#[inline(always)]
fn read_frame(at: usize, header: &FrameHeader, rules: &FrameRules) -> WalkedFrame {
    let snaplen = word(header, FRAME_SNAPLEN);
    let hardware = word(header, FRAME_STATUS) & TP_STATUS_TS_RAW_HARDWARE != 0;
    WalkedFrame {
        // Within the body: it does not wrap.
        offset: at.wrapping_add(usize::from(half_word(header, FRAME_MAC))),
        captured_bytes: snaplen,
        meta: FrameMeta {
            timestamp: stamp(header),
            timestamp_kind: if hardware { TimestampKind::Hardware } else { TimestampKind::Kernel },
            wire_bytes: word(header, FRAME_LEN).max(snaplen),
            interface: rules.interface,
            queue: rules.queue,
            vlan: None,
            hash: None,
            direction: DIRECTIONS[usize::from(header[FRAME_PACKET_TYPE])],
        },
    }
}

/// Moves the MAC addresses forward and writes the tag behind them, as libpcap does. A frame that
/// was cut within the addresses has no place for the tag yet: only its length on the wire grows.
fn put_tag_back(body: &mut [u8], frame: &mut WalkedFrame, tag: VlanTag) {
    frame.meta.wire_bytes = frame.meta.wire_bytes.saturating_add(VLAN_TAG_BYTES as u32);
    if (frame.captured_bytes as usize) < MAC_ADDRESSES_BYTES {
        return;
    }
    let old = frame.offset;
    let new = old - VLAN_TAG_BYTES;
    body.copy_within(old..old + MAC_ADDRESSES_BYTES, new);
    let at = new + MAC_ADDRESSES_BYTES;
    body[at..at + 2].copy_from_slice(&tag.tpid.to_be_bytes());
    body[at + 2..at + 4].copy_from_slice(&tag.tci.to_be_bytes());
    frame.offset = new;
    frame.captured_bytes += VLAN_TAG_BYTES as u32;
}

fn vlan_tag(header: &FrameHeader) -> Option<VlanTag> {
    let status = word(header, FRAME_STATUS);
    if status & TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let known = status & TP_STATUS_VLAN_TPID_VALID != 0;
    let tpid = if known { half_word(header, FRAME_VLAN_TPID) } else { TPID_DEFAULT };
    Some(VlanTag { tpid, tci: word(header, FRAME_VLAN_TCI) as u16 })
}

/// By packet type; a table, because it is looked up for every frame.
const DIRECTIONS: [Direction; 256] = {
    let mut table = [Direction::Unknown; 256];
    table[libc::PACKET_HOST as usize] = Direction::Inbound;
    table[libc::PACKET_BROADCAST as usize] = Direction::Inbound;
    table[libc::PACKET_MULTICAST as usize] = Direction::Inbound;
    table[libc::PACKET_OTHERHOST as usize] = Direction::Inbound;
    table[libc::PACKET_OUTGOING as usize] = Direction::Outbound;
    table
};

/// The word at `offset` of the block.
fn u32_at(body: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*body.get(offset.checked_sub(BODY)?..)?.first_chunk()?))
}

#[inline]
fn word(header: &FrameHeader, at: usize) -> u32 {
    u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

#[inline]
fn half_word(header: &FrameHeader, at: usize) -> u16 {
    u16::from_ne_bytes([header[at], header[at + 1]])
}

#[cfg(not(feature = "loom"))]
#[cfg(test)]
mod reference;
#[cfg(not(feature = "loom"))]
#[cfg(test)]
mod tests;
