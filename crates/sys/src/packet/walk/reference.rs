//! The walk as it reads best, with every access checked for itself: what the fast one must equal.

use super::super::layout::*;
use super::*;

/// As [`BlockWalk`]; the position counts from the start of the block.
pub(super) struct ReferenceWalk {
    position: usize,
    remaining: u32,
}

impl ReferenceWalk {
    /// Begins with the first frame of a block. `body` is the block without its first [`BODY`]
    /// bytes.
    pub(super) fn begin(body: &[u8]) -> ReferenceWalk {
        let count = u32_at(body, BLOCK_FRAME_COUNT).unwrap_or(0);
        let first = u32_at(body, BLOCK_FIRST_FRAME).unwrap_or(0);
        // More frames than headers fit cannot be; the bound keeps the count of damage honest.
        let count_max = (body.len() / FRAME_HEADER_BYTES) as u32;
        ReferenceWalk { position: first as usize, remaining: count.min(count_max) }
    }

    /// Takes the next frame, with its VLAN tag put back into the bytes.
    pub(super) fn step(
        &mut self,
        body: &mut [u8],
        rules: &FrameRules,
        slot: &mut FrameSlot,
    ) -> Step {
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
        let Some(frame) = frame else { return Step::Damaged(1) };
        *slot = FrameSlot::new(frame.offset, frame.captured_bytes, frame.meta);
        Step::Frame
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

fn vlan_tag(body: &[u8], header: usize, status: u32) -> Option<Option<VlanTag>> {
    if status & TP_STATUS_VLAN_VALID == 0 {
        return Some(None);
    }
    let tci = u32_at(body, header + FRAME_VLAN_TCI)? as u16;
    let known = status & TP_STATUS_VLAN_TPID_VALID != 0;
    let tpid = if known { u16_at(body, header + FRAME_VLAN_TPID)? } else { TPID_DEFAULT };
    Some(Some(VlanTag { tpid, tci }))
}

fn u16_at(body: &[u8], offset: usize) -> Option<u16> {
    let start = offset.checked_sub(BODY)?;
    let bytes = body.get(start..start.checked_add(2)?)?;
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

fn direction(packet_type: u8) -> Direction {
    match packet_type {
        libc::PACKET_HOST | libc::PACKET_BROADCAST => Direction::Inbound,
        libc::PACKET_MULTICAST | libc::PACKET_OTHERHOST => Direction::Inbound,
        libc::PACKET_OUTGOING => Direction::Outbound,
        _ => Direction::Unknown,
    }
}
