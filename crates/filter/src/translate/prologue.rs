//! What a translated program does before the first classic instruction.

use super::block::*;
use super::{AVAILABLE, COUNTERS, FETCHED, HEAD_END, JUMPS, Plan, TAKEN, XDP_ASKS, scratch};
use super::{METADATA_BYTES, METADATA_FLAGS, METADATA_TCI, METADATA_TPID, METADATA_VLAN};
use ringside_core::LinkType;

/// Offsets in `struct __sk_buff` (linux/bpf.h).
const SKB_LEN: i16 = 0;
const SKB_VLAN_PRESENT: i16 = 20;
const SKB_VLAN_TCI: i16 = 24;
const SKB_VLAN_PROTO: i16 = 28;

/// Offsets in `struct xdp_md` (linux/bpf.h).
const XDP_DATA: i16 = 0;
pub(super) const XDP_DATA_END: i16 = 4;
const XDP_DATA_META: i16 = 8;

/// Registers that the classic instructions use only later, while the head is filled.
const TAG: u8 = SPARE;
const LENGTH: u8 = X;

/// Where the tag stands in a frame, and its length.
const TAG_OFFSET: i16 = 12;
const TAG_BYTES: i16 = 4;
/// Shortest Ethernet frame that has a tag to lose: both addresses and the type, and the tag.
const TAGGED_BYTES_MIN: i32 = 18;

pub(super) fn prologue(plan: &Plan) -> Block {
    let mut b = Block::default();
    b.alu64_reg(MOV, CONTEXT, R1);
    if let Some(map_fd) = plan.options.counters {
        count_seen(&mut b, map_fd);
    }
    for (word, _) in (0u8..).zip(plan.scratch).filter(|(_, used)| *used) {
        b.store_zero(Size::U32, FRAME, scratch(word));
    }
    if plan.loops {
        b.store_zero(Size::U64, FRAME, JUMPS);
    }
    if plan.is_fast() {
        ask_about_others(&mut b, plan);
    } else {
        if plan.tags {
            look_for_tag(&mut b, plan);
        }
        if plan.head_bytes > 0 {
            fill_head(&mut b, plan);
        }
    }
    b.alu32(MOV, A, 0);
    b.alu32(MOV, X, 0);
    b
}

fn count_seen(b: &mut Block, map_fd: i32) {
    b.store_zero(Size::U32, FRAME, FETCHED);
    b.map(R1, map_fd);
    b.alu64_reg(MOV, R2, FRAME);
    b.alu64(ADD, R2, i32::from(FETCHED));
    b.call(MAP_LOOKUP_ELEM);
    // Value 0 of an array always exists, but the verifier wants the question asked.
    let found = b.jump_if(JNE, R0, 0);
    b.reject();
    b.here(found);
    b.store(Size::U64, FRAME, COUNTERS, R0);
    b.alu64(MOV, R1, 1);
    b.atomic_add(R0, 0, R1);
}

/// Lets only those frames through that a fast program can judge.
fn ask_about_others(b: &mut Block, plan: &Plan) {
    let options = &plan.options;
    let may_be_tagged = options.link_type == LinkType::ETHERNET && options.target.has_tags();
    if !may_be_tagged && plan.head_bytes == 0 {
        return;
    }
    b.load(Size::U32, PACKET, CONTEXT, XDP_DATA);
    let tagged = may_be_tagged.then(|| {
        let unmarked = metadata(b, PACKET);
        b.load(Size::U32, R1, R1, METADATA_FLAGS);
        let tagged = b.jump_if(JSET, R1, METADATA_VLAN);
        b.here(unmarked);
        tagged
    });
    b.alu64_reg(MOV, R2, PACKET);
    b.alu64(ADD, R2, plan.head_bytes as i32);
    b.load(Size::U32, R1, CONTEXT, XDP_DATA_END);
    let whole = b.jump_if_reg(JLE, R2, R1);
    if let Some(tagged) = tagged {
        b.here(tagged);
    }
    b.alu32(MOV, R0, XDP_ASKS);
    b.exit();
    b.here(whole);
}

/// R1 = the metadata; R`packet` is the frame. The jump is taken where there is none.
fn metadata(b: &mut Block, packet: u8) -> Forward {
    b.load(Size::U32, R1, CONTEXT, XDP_DATA_META);
    b.alu64_reg(MOV, R2, R1);
    b.alu64(ADD, R2, METADATA_BYTES);
    b.jump_if_reg(JGT, R2, packet)
}

/// TAG and what was taken out: the length of a tag, or 0.
fn look_for_tag(b: &mut Block, plan: &Plan) {
    if plan.is_xdp() {
        b.alu64(MOV, TAG, 0);
        b.load(Size::U32, R3, CONTEXT, XDP_DATA);
        let unmarked = metadata(b, R3);
        b.load(Size::U32, R2, R1, METADATA_FLAGS);
        let tagged = b.jump_if(JSET, R2, METADATA_VLAN);
        let out = b.jump();
        b.here(tagged);
        b.alu64(MOV, TAG, i32::from(TAG_BYTES));
        b.here(out);
        b.here(unmarked);
    } else {
        b.load(Size::U32, TAG, CONTEXT, SKB_VLAN_PRESENT);
        b.alu64(AND, TAG, 1);
        b.alu64(LSH, TAG, 2);
    }
    b.store(Size::U32, FRAME, TAKEN, TAG);
}

/// R`dst` = length of the frame without what was taken out.
pub(super) fn frame_bytes(b: &mut Block, plan: &Plan, dst: u8) {
    if plan.is_xdp() {
        b.alu64_reg(MOV, R1, CONTEXT);
        b.call(XDP_GET_BUFF_LEN);
        b.alu32_reg(MOV, dst, R0);
    } else {
        b.load(Size::U32, dst, CONTEXT, SKB_LEN);
    }
}

/// The helper that copies bytes of the frame; they are called alike.
pub(super) fn load_bytes_helper(plan: &Plan) -> i32 {
    if plan.is_xdp() { XDP_LOAD_BYTES } else { SKB_LOAD_BYTES }
}

/// Copies the head, with the tag in place.
fn fill_head(b: &mut Block, plan: &Plan) {
    let head_bytes = plan.head_bytes as i32;
    zero_head(b, plan);
    frame_bytes(b, plan, LENGTH);
    let tagged = plan.tags.then(|| b.jump_if(JNE, TAG, 0));
    let short = b.jump_if(JLE, LENGTH, head_bytes);
    b.alu64(MOV, LENGTH, head_bytes);
    b.here(short);
    b.alu64_reg(MOV, R4, LENGTH);
    // The verifier refuses a length of 0. The copy fails only for an empty frame, and then
    // nothing is available.
    let some = b.jump_if(JGE, R4, 1);
    b.alu64(MOV, R4, 1);
    b.here(some);
    copy(b, plan, 0, 0);
    if let Some(tagged) = tagged {
        let done = b.jump();
        b.here(tagged);
        fill_tagged_head(b, plan);
        b.here(done);
    }
    b.store(Size::U32, FRAME, AVAILABLE, LENGTH);
}

fn fill_tagged_head(b: &mut Block, plan: &Plan) {
    b.alu64(ADD, LENGTH, i32::from(TAG_BYTES));
    let sound = b.jump_if(JGE, LENGTH, TAGGED_BYTES_MIN);
    b.reject();
    b.here(sound);
    b.alu64(MOV, R4, i32::from(TAG_OFFSET));
    copy(b, plan, 0, 0);
    b.reject_unless_zero();
    put_tag(b, plan);
    let short = b.jump_if(JLE, LENGTH, plan.head_bytes as i32);
    b.alu64(MOV, LENGTH, plan.head_bytes as i32);
    b.here(short);
    b.alu64_reg(MOV, R4, LENGTH);
    b.alu64(SUB, R4, i32::from(TAG_OFFSET + TAG_BYTES));
    copy(b, plan, TAG_OFFSET, TAG_OFFSET + TAG_BYTES);
    b.reject_unless_zero();
}

/// Writes the tag into the head as it was on the wire.
fn put_tag(b: &mut Block, plan: &Plan) {
    let at = plan.head() + TAG_OFFSET;
    if plan.is_xdp() {
        b.load(Size::U32, R3, CONTEXT, XDP_DATA);
        // It is there, but the verifier has forgotten.
        let gone = metadata(b, R3);
        b.load(Size::U16, R2, R1, METADATA_TPID);
        b.big_endian(R2, 16);
        b.store(Size::U16, FRAME, at, R2);
        b.load(Size::U16, R1, R1, METADATA_TCI);
        b.big_endian(R1, 16);
        b.store(Size::U16, FRAME, at + 2, R1);
        b.here(gone);
        return;
    }
    // The TPID is kept as it was on the wire, the TCI in the host's order.
    b.load(Size::U32, R1, CONTEXT, SKB_VLAN_PROTO);
    b.store(Size::U16, FRAME, at, R1);
    b.load(Size::U32, R1, CONTEXT, SKB_VLAN_TCI);
    b.big_endian(R1, 16);
    b.store(Size::U16, FRAME, at + 2, R1);
}

/// The verifier wants memory that is filled up to a variable length to be initialised.
fn zero_head(b: &mut Block, plan: &Plan) {
    let start = HEAD_END - plan.head_bytes as i16 - 8;
    for word in 0..=plan.head_bytes as i16 / 8 {
        b.store_zero(Size::U64, FRAME, start + 8 * word);
    }
}

/// Copies R4 bytes from `from` of the frame to `to` of the head.
fn copy(b: &mut Block, plan: &Plan, from: i16, to: i16) {
    b.alu64_reg(MOV, R1, CONTEXT);
    b.alu64(MOV, R2, i32::from(from));
    b.alu64_reg(MOV, R3, FRAME);
    b.alu64(ADD, R3, i32::from(plan.head() + to));
    b.call(load_bytes_helper(plan));
}
