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
    Direction, FrameMeta, InterfaceId, QueueId, Timestamp, TimestampKind, VlanTag,
};

/// Bytes of a VLAN tag; the ring is set up with as many spare before each frame (PACKET_RESERVE).
pub(super) const VLAN_TAG_BYTES: usize = 4;
/// Two MAC addresses: what lies before the tag.
const MAC_ADDRESSES_BYTES: usize = 12;
/// ETH_P_8021Q: the tag's protocol where the kernel does not say which.
const TPID_DEFAULT: u16 = 0x8100;

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
    /// Offset of the next frame's header from the start of the block.
    position: usize,
    remaining: u32,
}

/// One frame of the block; `offset` counts from the start of the body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct WalkedFrame {
    pub offset: usize,
    pub captured_bytes: u32,
    pub meta: FrameMeta,
}

/// What the next step of a walk found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    Frame(WalkedFrame),
    /// So many frames with impossible headers.
    Damaged(u32),
    End,
}

impl BlockWalk {
    /// Begins with the first frame of a block. `body` is the block without its first [`BODY`]
    /// bytes.
    pub(super) fn begin(body: &[u8]) -> BlockWalk {
        let count = u32_at(body, BLOCK_FRAME_COUNT).unwrap_or(0);
        let first = u32_at(body, BLOCK_FIRST_FRAME).unwrap_or(0);
        // More frames than headers fit cannot be; the bound keeps the count of damage honest.
        let count_max = (body.len() / FRAME_HEADER_BYTES) as u32;
        BlockWalk { position: first as usize, remaining: count.min(count_max) }
    }

    /// True when every frame of the block was handed out.
    pub(super) fn is_done(&self) -> bool {
        self.remaining == 0
    }

    /// Takes the next frame, with its VLAN tag put back into the bytes.
    pub(super) fn step(&mut self, body: &mut [u8], rules: &FrameRules) -> Step {
        if self.remaining == 0 {
            return Step::End;
        }
        let header = self.position;
        let in_block = header >= BLOCK_HEADER_BYTES
            && header.saturating_add(FRAME_HEADER_BYTES) <= body.len() + BODY;
        let next = u32_at(body, header.saturating_add(FRAME_NEXT)).filter(|_| in_block);
        let Some(next) = next else { return self.break_off() };
        self.remaining -= 1;
        self.position = header.saturating_add(next as usize);
        let frame = read_frame(body, header, rules);
        // The last frame's offset means nothing; any other must lead behind this header.
        if self.remaining > 0 && (next as usize) < FRAME_HEADER_BYTES {
            self.position = usize::MAX;
        }
        frame.map_or(Step::Damaged(1), Step::Frame)
    }

    fn break_off(&mut self) -> Step {
        Step::Damaged(std::mem::take(&mut self.remaining))
    }
}

fn read_frame(body: &mut [u8], header: usize, rules: &FrameRules) -> Option<WalkedFrame> {
    let snaplen = u32_at(body, header + FRAME_SNAPLEN)?;
    let len = u32_at(body, header + FRAME_LEN)?;
    let status = u32_at(body, header + FRAME_STATUS)?;
    let mac = usize::from(u16_at(body, header + FRAME_MAC)?);
    if mac < FRAME_HEADER_BYTES {
        return None;
    }
    let start = header.checked_add(mac)?.checked_sub(BODY)?;
    body.get(start..start.checked_add(snaplen as usize)?)?;

    let seconds = u32_at(body, header + FRAME_SECONDS)?;
    let nanos = u32_at(body, header + FRAME_NANOS)?;
    let hardware = status & TP_STATUS_TS_RAW_HARDWARE != 0;
    let kind = if hardware { TimestampKind::Hardware } else { TimestampKind::Kernel };
    let vlan = vlan_tag(body, header, status)?;
    let hash = if rules.receive_hash { u32_at(body, header + FRAME_HASH) } else { None };
    let mut frame = WalkedFrame {
        offset: start,
        captured_bytes: snaplen,
        meta: FrameMeta {
            timestamp: Timestamp::from_parts(u64::from(seconds), nanos),
            timestamp_kind: kind,
            wire_bytes: len.max(snaplen),
            interface: rules.interface,
            queue: rules.queue,
            vlan,
            hash,
            direction: direction(*body.get(header + FRAME_PACKET_TYPE - BODY)?),
        },
    };
    if let (Some(tag), true) = (vlan, rules.ethernet) {
        // Without the spare room the frame would have to be lent without its tag.
        if mac < FRAME_HEADER_BYTES + VLAN_TAG_BYTES {
            return None;
        }
        put_tag_back(body, &mut frame, tag);
    }
    frame.captured_bytes = frame.captured_bytes.min(rules.snaplen_bytes);
    Some(frame)
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

fn vlan_tag(body: &[u8], header: usize, status: u32) -> Option<Option<VlanTag>> {
    if status & TP_STATUS_VLAN_VALID == 0 {
        return Some(None);
    }
    let tci = u32_at(body, header + FRAME_VLAN_TCI)? as u16;
    let known = status & TP_STATUS_VLAN_TPID_VALID != 0;
    let tpid = if known { u16_at(body, header + FRAME_VLAN_TPID)? } else { TPID_DEFAULT };
    Some(Some(VlanTag { tpid, tci }))
}

fn direction(packet_type: u8) -> Direction {
    match packet_type {
        libc::PACKET_HOST | libc::PACKET_BROADCAST => Direction::Inbound,
        libc::PACKET_MULTICAST | libc::PACKET_OTHERHOST => Direction::Inbound,
        libc::PACKET_OUTGOING => Direction::Outbound,
        _ => Direction::Unknown,
    }
}

/// The word at `offset` of the block.
fn u32_at(body: &[u8], offset: usize) -> Option<u32> {
    let start = offset.checked_sub(BODY)?;
    let bytes = body.get(start..start.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

fn u16_at(body: &[u8], offset: usize) -> Option<u16> {
    let start = offset.checked_sub(BODY)?;
    let bytes = body.get(start..start.checked_add(2)?)?;
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests;
