//! One classic instruction as a block of eBPF.

use super::block::*;
use super::prologue::{XDP_DATA_END, frame_bytes, load_bytes_helper};
use super::threading::Targets;
use super::{AVAILABLE, COUNTERS, FETCHED, FORGET, JUMPS, KEPT, Plan, TAKEN, XDP_ACCEPTS, scratch};
use crate::classic::{Alu, BACKWARD_JUMPS_MAX, Operand, Operation, Test, Width};

/// Offsets that a fast program reads in place: the verifier follows no more (MAX_PACKET_OFF).
const IN_PLACE_MAX: i32 = 0x7fff;

/// Largest offset in a frame. From 2^31 on the kernel sees a negative number.
const OFFSET_MAX: u32 = i32::MAX as u32;

/// Where an instruction stands, and what it leads to.
#[derive(Clone, Copy)]
pub(super) struct Site {
    /// Its index in the program.
    pub(super) index: usize,
    /// The index that follows it in the program.
    pub(super) next: usize,
    /// Where it leads.
    pub(super) targets: Targets,
    /// Which program it is of.
    pub(super) program: Part,
}

/// What becomes of the frames that a program accepts and rejects.
#[derive(Clone, Copy)]
pub(super) enum Part {
    /// They are accepted and rejected.
    Only,
    /// Those that it accepts are asked about again, there.
    First(usize),
    /// The answer is given and counted there: if it accepts, and if not.
    Second(usize, usize),
}

pub(super) fn operation(plan: &Plan, operation: &Operation, site: Site) -> Block {
    let Site { index, next, targets, program } = site;
    let mut b = Block::default();
    if let Part::Second(_, rejects_at) = program {
        b.rejects_at = Some(rejects_at);
    }
    match *operation {
        Operation::LoadAbsolute(width, k) => load_absolute(&mut b, plan, A, width, k),
        Operation::LoadIndirect(width, k) => load_indirect(&mut b, plan, width, k),
        Operation::LoadHeaderLength(k) => {
            load_absolute(&mut b, plan, X, Width::Byte, k);
            if !b.ends {
                b.alu32(AND, X, 0xf);
                b.alu32(LSH, X, 2);
            }
        }
        Operation::LoadLength => load_length(&mut b, plan, A),
        Operation::LoadLengthX => load_length(&mut b, plan, X),
        Operation::LoadConstant(k) => b.alu32(MOV, A, k),
        Operation::LoadConstantX(k) => b.alu32(MOV, X, k),
        Operation::LoadScratch(k) => b.load(Size::U32, A, FRAME, scratch(k)),
        Operation::LoadScratchX(k) => b.load(Size::U32, X, FRAME, scratch(k)),
        Operation::Store(k) => b.store(Size::U32, FRAME, scratch(k), A),
        Operation::StoreX(k) => b.store(Size::U32, FRAME, scratch(k), X),
        Operation::Alu(alu, operand) => arithmetic(&mut b, alu, operand),
        Operation::Negate => b.alu32(NEG, A, 0),
        Operation::Jump(_) => jump(&mut b, index, next, targets.0),
        Operation::JumpIf(test, operand, ..) => jump_if(&mut b, test, operand, next, targets),
        Operation::Return(k) => return_constant(&mut b, plan, k, program),
        Operation::ReturnA => return_a(&mut b, plan, program),
        Operation::CopyAToX => b.alu32_reg(MOV, X, A),
        Operation::CopyXToA => b.alu32_reg(MOV, A, X),
    }
    b
}

/// True if a load at constant offset `k` always rejects.
pub(super) fn never_loads(width: Width, k: u32) -> bool {
    k > OFFSET_MAX - width.bytes()
}

fn load_absolute(b: &mut Block, plan: &Plan, dst: u8, width: Width, k: u32) {
    if never_loads(width, k) {
        b.reject();
        b.ends = true;
        return;
    }
    let end = k + width.bytes();
    if end > plan.head_bytes {
        if plan.is_fast() {
            b.alu64(MOV, R1, k as i32);
            return load_in_place(b, plan, dst, width);
        }
        b.alu64(MOV, R2, k as i32);
        return fetch(b, plan, dst, width);
    }
    if plan.is_fast() {
        b.load(size(width), dst, PACKET, k as i16);
        return to_host(b, dst, width);
    }
    b.load(Size::U32, R1, FRAME, AVAILABLE);
    let inside = b.jump_if(JGE, R1, end as i32);
    b.reject();
    b.here(inside);
    let at = plan.head() + k as i16;
    if (k + plan.lead()).is_multiple_of(width.bytes()) {
        b.load(size(width), dst, FRAME, at);
        to_host(b, dst, width);
    } else {
        load_bytes(b, dst, FRAME, at, width);
    }
}

/// A = packet[X + k..]. The sum needs 33 bits, so it is made in 64.
fn load_indirect(b: &mut Block, plan: &Plan, width: Width, k: u32) {
    if never_loads(width, k) {
        b.reject();
        b.ends = true;
        return;
    }
    let bytes = width.bytes() as i32;
    b.store(Size::U32, FRAME, FORGET, X);
    b.load(Size::U32, R1, FRAME, FORGET);
    if k > 0 {
        b.alu64(ADD, R1, k as i32);
    }
    if plan.is_fast() {
        return load_in_place(b, plan, A, width);
    }
    let far = b.jump_if(JGT, R1, plan.head_bytes as i32 - bytes);
    b.alu64_reg(MOV, R2, R1);
    b.alu64(ADD, R2, bytes);
    b.load(Size::U32, R3, FRAME, AVAILABLE);
    let inside = b.jump_if_reg(JLE, R2, R3);
    b.reject();
    b.here(inside);
    b.alu64_reg(MOV, R2, FRAME);
    b.alu64_reg(ADD, R2, R1);
    load_bytes(b, A, R2, plan.head(), width);
    let done = b.jump();

    b.here(far);
    let possible = b.jump_if(JLE, R1, (OFFSET_MAX - width.bytes()) as i32);
    b.reject();
    b.here(possible);
    b.alu64_reg(MOV, R2, R1);
    fetch(b, plan, A, width);
    b.here(done);
}

/// Loads from offset R1, in place where it is in the first piece of the frame, else by a call.
fn load_in_place(b: &mut Block, plan: &Plan, dst: u8, width: Width) {
    let far = b.jump_if(JGT, R1, IN_PLACE_MAX);
    b.alu64_reg(MOV, R2, PACKET);
    b.alu64_reg(ADD, R2, R1);
    b.alu64_reg(MOV, R3, R2);
    b.alu64(ADD, R3, width.bytes() as i32);
    b.load(Size::U32, R4, CONTEXT, XDP_DATA_END);
    let beyond = b.jump_if_reg(JGT, R3, R4);
    b.load(size(width), dst, R2, 0);
    to_host(b, dst, width);
    let done = b.jump();
    b.here(far);
    let possible = b.jump_if(JLE, R1, (OFFSET_MAX - width.bytes()) as i32);
    b.reject();
    b.here(possible);
    b.here(beyond);
    b.alu64_reg(MOV, R2, R1);
    fetch(b, plan, dst, width);
    b.here(done);
}

/// Loads from offset R2 of the wire, beyond the head, by a call.
fn fetch(b: &mut Block, plan: &Plan, dst: u8, width: Width) {
    if plan.tags {
        b.load(Size::U32, R1, FRAME, TAKEN);
        b.alu64_reg(SUB, R2, R1);
    }
    b.alu64_reg(MOV, R1, CONTEXT);
    b.alu64_reg(MOV, R3, FRAME);
    b.alu64(ADD, R3, i32::from(FETCHED));
    b.alu64(MOV, R4, width.bytes() as i32);
    b.call(load_bytes_helper(plan));
    b.reject_unless_zero();
    b.load(size(width), dst, FRAME, FETCHED);
    to_host(b, dst, width);
}

fn size(width: Width) -> Size {
    match width {
        Width::Byte => Size::U8,
        Width::Half => Size::U16,
        Width::Word => Size::U32,
    }
}

fn to_host(b: &mut Block, dst: u8, width: Width) {
    if width != Width::Byte {
        b.big_endian(dst, width.bytes() as i32 * 8);
    }
}

/// Stack reads must be aligned: a field that is not is put together from bytes.
fn load_bytes(b: &mut Block, dst: u8, base: u8, offset: i16, width: Width) {
    b.load(Size::U8, dst, base, offset);
    for byte in 1..width.bytes() as i16 {
        b.alu32(LSH, dst, 8);
        b.load(Size::U8, R1, base, offset + byte);
        b.alu32_reg(OR, dst, R1);
    }
}

pub(super) fn load_length(b: &mut Block, plan: &Plan, dst: u8) {
    frame_bytes(b, plan, dst);
    if plan.tags {
        b.load(Size::U32, R1, FRAME, TAKEN);
        b.alu32_reg(ADD, dst, R1);
    }
}

fn arithmetic(b: &mut Block, alu: Alu, operand: Operand) {
    let op = match alu {
        Alu::Add => ADD,
        Alu::Sub => SUB,
        Alu::Mul => MUL,
        Alu::Div => DIV,
        Alu::Mod => MOD,
        Alu::Or => OR,
        Alu::And => AND,
        Alu::Xor => XOR,
        Alu::Lsh => LSH,
        Alu::Rsh => RSH,
    };
    match (operand, alu) {
        (Operand::Constant(k), _) => b.alu32(op, A, k),
        (Operand::X, Alu::Div | Alu::Mod) => {
            // eBPF gives 0 (or leaves A) on division by 0; classic BPF rejects the frame.
            let nonzero = b.jump32_if(JNE, X, 0);
            b.reject();
            b.here(nonzero);
            b.alu32_reg(op, A, X);
        }
        (Operand::X, Alu::Lsh | Alu::Rsh) => {
            // eBPF takes the amount modulo 32.
            let small = b.jump32_if(JLT, X, 32);
            b.alu32(MOV, A, 0);
            let done = b.jump();
            b.here(small);
            b.alu32_reg(op, A, X);
            b.here(done);
        }
        (Operand::X, _) => b.alu32_reg(op, A, X),
    }
}

fn jump(b: &mut Block, index: usize, next: usize, target: usize) {
    if target <= index {
        b.load(Size::U64, R1, FRAME, JUMPS);
        let allowed = b.jump_if(JLT, R1, BACKWARD_JUMPS_MAX as i32);
        b.reject();
        b.here(allowed);
        b.alu64(ADD, R1, 1);
        b.store(Size::U64, FRAME, JUMPS, R1);
    }
    if target != next {
        let out = b.jump();
        b.leave(out, target);
        b.ends = true;
    }
}

fn jump_if(b: &mut Block, test: Test, operand: Operand, next: usize, targets: Targets) {
    let (on_true, on_false) = targets;
    if on_true == on_false {
        if on_true != next {
            let out = b.jump();
            b.leave(out, on_true);
            b.ends = true;
        }
        return;
    }
    let (op, inverse) = match test {
        Test::Equal => (JEQ, Some(JNE)),
        Test::Greater => (JGT, Some(JLE)),
        Test::GreaterOrEqual => (JGE, Some(JLT)),
        Test::AnyBit => (JSET, None),
    };
    let compare = |b: &mut Block, op| match operand {
        Operand::Constant(k) => b.jump32_if(op, A, k),
        Operand::X => b.jump32_if_reg(op, A, X),
    };
    match inverse {
        Some(inverse) if on_true == next => {
            let out = compare(b, inverse);
            b.leave(out, on_false);
        }
        _ => {
            let out = compare(b, op);
            if on_true == next {
                let over = b.jump();
                b.here(out);
                b.leave(over, on_false);
                return;
            }
            b.leave(out, on_true);
            if on_false != next {
                let out = b.jump();
                b.leave(out, on_false);
                b.ends = true;
            }
        }
    }
}

fn return_constant(b: &mut Block, plan: &Plan, k: u32, program: Part) {
    b.ends = true;
    if k == 0 {
        return b.reject();
    }
    if says_bytes(plan, program) {
        b.alu32(MOV, R0, k.min(plan.snaplen()));
    }
    accept(b, plan, program);
}

fn return_a(b: &mut Block, plan: &Plan, program: Part) {
    b.ends = true;
    let accepted = b.jump32_if(JNE, A, 0);
    b.reject();
    b.here(accepted);
    if says_bytes(plan, program) {
        b.alu32_reg(MOV, R0, A);
        if plan.snaplen() != u32::MAX {
            let short = b.jump32_if(JLE, R0, plan.snaplen());
            b.alu32(MOV, R0, plan.snaplen());
            b.here(short);
        }
    }
    accept(b, plan, program);
}

/// True if what a program returns is how many bytes are kept.
fn says_bytes(plan: &Plan, program: Part) -> bool {
    !plan.is_xdp() && !matches!(program, Part::Second(..))
}

/// Accepts a frame, of which R0 bytes are to be kept.
fn accept(b: &mut Block, plan: &Plan, program: Part) {
    match program {
        Part::Only if plan.is_xdp() => {
            b.alu32(MOV, R0, XDP_ACCEPTS);
            b.exit();
        }
        Part::Only => {
            count_accepted(b, plan);
            leave_room_for_tag(b, plan);
            b.exit();
        }
        Part::First(second) => {
            b.store(Size::U32, FRAME, KEPT, R0);
            let on = b.jump();
            b.leave(on, second);
        }
        Part::Second(accepts_at, _) => {
            let out = b.jump();
            b.leave(out, accepts_at);
        }
    }
}

pub(super) fn count_accepted(b: &mut Block, plan: &Plan) {
    if plan.options.counters.is_some() {
        b.load(Size::U64, R2, FRAME, COUNTERS);
        b.alu64(MOV, R3, 1);
        b.atomic_add(R2, 8, R3);
    }
}

/// R0 is the wanted length on the wire, not 0; makes it the length in the socket buffer.
pub(super) fn leave_room_for_tag(b: &mut Block, plan: &Plan) {
    if !plan.tags {
        return;
    }
    b.load(Size::U32, R1, FRAME, TAKEN);
    let untagged = b.jump_if(JEQ, R1, 0);
    let before_tag = b.jump_if(JLE, R0, 12);
    let behind_tag = b.jump_if(JGE, R0, 16);
    b.alu32(MOV, R1, 0);
    b.alu32(MOV, R0, 12);
    b.here(behind_tag);
    b.alu64_reg(SUB, R0, R1);
    b.here(before_tag);
    b.here(untagged);
}
