//! Frames of a claim: parts in memory to slots of a batch.

use crate::backend::in_driver::Stamping;
use ringside_core::limits::BATCH_FRAMES_MAX;
use ringside_core::{
    Direction, FrameMeta, FrameSlot, InterfaceId, QueueId, Timestamp, TimestampKind, VlanTag,
};
use ringside_ebpf::abi::{METADATA_HARDWARE_STAMP, METADATA_HASH, METADATA_VLAN, XdpMetadata};
use ringside_ebpf::capture::Metadata;
use ringside_sys::xsk::{Claim, LaneArena};

/// Bytes of a VLAN tag, and of the two addresses before it.
const TAG_BYTES: usize = 4;
const ADDRESSES_BYTES: usize = 12;

/// What is the same for every frame of a lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameRules {
    pub interface: InterfaceId,
    pub queue: QueueId,
    /// What the program puts in front of a frame.
    pub metadata: Metadata,
}

/// The slots of a handle's batch.
pub(super) type Slots = Box<[FrameSlot; BATCH_FRAMES_MAX]>;

pub(super) fn new_slots() -> Slots {
    Box::new([FrameSlot::new(0, 0, FrameMeta::default()); BATCH_FRAMES_MAX])
}

/// Makes slots of the frames in `claim`; returns their number. Frames of several parts are joined
/// in `arena`; one for which it has no room is left out and counted in `damaged`: only a broken
/// kernel makes such frames.
pub(super) fn collect(
    claim: &mut Claim,
    rules: &FrameRules,
    stamping: &mut Stamping,
    arena: &mut LaneArena,
    slots: &mut Slots,
    damaged: &mut u64,
) -> usize {
    let (mut count, mut part, mut free) = (0, 0, arena.range().start);
    while let Some(first) = claim.parts().get(part).copied() {
        let (mut meta, tag) = describe(claim.memory(), first.offset, rules, stamping);
        let location = if first.continues {
            join(claim, &mut part, arena, &mut free)
        } else {
            part += 1;
            Some(FrameLocation { offset: first.offset, bytes: first.bytes })
        };
        let Some(mut location) = location else {
            *damaged += 1;
            continue;
        };
        if let Some(tag) = tag {
            let in_arena = first.continues.then_some(&mut *arena);
            location = put_back(claim, part - 1, in_arena, location, tag);
            meta.vlan = Some(tag);
        }
        if rules.metadata != Metadata::None {
            stamping.note(meta.timestamp);
        }
        meta.wire_bytes = location.bytes;
        slots[count] = FrameSlot::new(location.offset, location.bytes, meta);
        count += 1;
    }
    count
}

/// Where a frame lies in the memory.
#[derive(Clone, Copy)]
struct FrameLocation {
    offset: usize,
    bytes: u32,
}

/// What stands before the frame at `offset`: all that is known of it, and the VLAN tag that was
/// taken out.
#[inline]
fn describe(
    memory: &[u8],
    offset: usize,
    rules: &FrameRules,
    stamping: &Stamping,
) -> (FrameMeta, Option<VlanTag>) {
    let mut meta = FrameMeta {
        timestamp_kind: TimestampKind::Kernel,
        interface: rules.interface,
        queue: rules.queue,
        direction: Direction::Inbound,
        ..FrameMeta::default()
    };
    let before = memory.get(..offset).unwrap_or(&[]);
    match rules.metadata {
        Metadata::None => (meta, None),
        Metadata::Stamp => {
            let stamp = before.last_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
            meta.timestamp = stamping.utc(stamp);
            (meta, None)
        }
        Metadata::Full => {
            let known = before.last_chunk().map(XdpMetadata::from_bytes).unwrap_or_default();
            let has = |flag| known.flags & flag != 0;
            if has(METADATA_HARDWARE_STAMP) {
                // The interface's clock, as it is.
                meta.timestamp = Timestamp(known.stamp);
                meta.timestamp_kind = TimestampKind::Hardware;
            } else {
                meta.timestamp = stamping.utc(known.stamp);
            }
            meta.hash = has(METADATA_HASH).then_some(known.hash);
            let tag = VlanTag { tpid: known.vlan_tpid, tci: known.vlan_tci };
            (meta, has(METADATA_VLAN).then_some(tag))
        }
    }
}

/// Puts a VLAN tag back to where it was: the addresses move forward over the metadata. A frame
/// without addresses had no tag, and stays as it is.
#[cold]
fn put_back(
    claim: &mut Claim,
    part: usize,
    arena: Option<&mut LaneArena>,
    location: FrameLocation,
    tag: VlanTag,
) -> FrameLocation {
    let change = |bytes: &mut [u8], at: usize| {
        let Some(start) = at.checked_sub(TAG_BYTES) else { return false };
        let Some(header) = bytes.get_mut(start..at + ADDRESSES_BYTES) else { return false };
        header.copy_within(TAG_BYTES.., 0);
        header[ADDRESSES_BYTES..][..2].copy_from_slice(&tag.tpid.to_be_bytes());
        header[ADDRESSES_BYTES + 2..].copy_from_slice(&tag.tci.to_be_bytes());
        true
    };
    let changed = match arena {
        None => claim.edit(part, change),
        Some(arena) => {
            claim.edit_arena(arena, |bytes, start| change(bytes, location.offset - start))
        }
    };
    match changed {
        true => FrameLocation {
            offset: location.offset - TAG_BYTES,
            bytes: location.bytes + TAG_BYTES as u32,
        },
        false => location,
    }
}

/// Joins the frame that begins with part `part` in the arena from `free` on, and moves both behind
/// it. `None` if there is no room. Before the frame there is room for a tag.
#[cold]
fn join(
    claim: &mut Claim,
    part: &mut usize,
    arena: &mut LaneArena,
    free: &mut usize,
) -> Option<FrameLocation> {
    let (offset, mut fits, mut bytes) = (*free + TAG_BYTES, true, 0u32);
    while let Some(next) = claim.parts().get(*part).copied() {
        fits = fits && claim.copy_to_arena(*part, arena, offset + bytes as usize);
        bytes = bytes.saturating_add(next.bytes);
        *part += 1;
        if !next.continues {
            break;
        }
    }
    if !fits {
        return None;
    }
    *free = offset + bytes as usize;
    Some(FrameLocation { offset, bytes })
}
