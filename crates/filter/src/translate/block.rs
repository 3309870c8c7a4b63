//! A block of eBPF with jumps inside itself, and jumps out of it to classic instructions.
//!
//! Codes as in linux/bpf.h. Registers: R6 the context, R7 A, R8 X (both always zero-extended), R9
//! the frame in a fast program; R0 to R5 do not outlive a block.

use ringside_core::bpf::EbpfInstruction;

pub(super) const R0: u8 = 0;
pub(super) const R1: u8 = 1;
pub(super) const R2: u8 = 2;
pub(super) const R3: u8 = 3;
pub(super) const R4: u8 = 4;
/// The socket buffer (`struct __sk_buff`), or the frame in XDP (`struct xdp_md`).
pub(super) const CONTEXT: u8 = 6;
pub(super) const A: u8 = 7;
pub(super) const X: u8 = 8;
/// Outlives calls, as A and X; the prologue uses it.
pub(super) const SPARE: u8 = 9;
/// The frame's first byte, in a fast program.
pub(super) const PACKET: u8 = SPARE;
pub(super) const FRAME: u8 = 10;

pub(super) const ADD: u8 = 0x00;
pub(super) const SUB: u8 = 0x10;
pub(super) const MUL: u8 = 0x20;
pub(super) const DIV: u8 = 0x30;
pub(super) const OR: u8 = 0x40;
pub(super) const AND: u8 = 0x50;
pub(super) const LSH: u8 = 0x60;
pub(super) const RSH: u8 = 0x70;
pub(super) const NEG: u8 = 0x80;
pub(super) const MOD: u8 = 0x90;
pub(super) const XOR: u8 = 0xa0;
pub(super) const MOV: u8 = 0xb0;

pub(super) const JEQ: u8 = 0x10;
pub(super) const JGT: u8 = 0x20;
pub(super) const JGE: u8 = 0x30;
pub(super) const JSET: u8 = 0x40;
pub(super) const JNE: u8 = 0x50;
pub(super) const JLT: u8 = 0xa0;
pub(super) const JLE: u8 = 0xb0;

/// Register-operand bit.
const SOURCE_X: u8 = 0x08;

/// Size bits of memory instructions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    U8 = 0x10,
    U16 = 0x08,
    U32 = 0x00,
    U64 = 0x18,
}

/// Helpers, by their numbers in `enum bpf_func_id`.
pub(super) const MAP_LOOKUP_ELEM: i32 = 1;
pub(super) const SKB_LOAD_BYTES: i32 = 26;
pub(super) const XDP_GET_BUFF_LEN: i32 = 188;
pub(super) const XDP_LOAD_BYTES: i32 = 189;

/// An instruction, and how many the kernel may make of it when it loads the program.
#[derive(Clone, Copy)]
pub(super) struct Weighed {
    pub instruction: EbpfInstruction,
    pub weight: u32,
}

/// A jump inside a block that waits for its target.
#[must_use]
pub(super) struct Forward(usize);

/// Instructions that are placed together.
#[derive(Default)]
pub(super) struct Block {
    pub code: Vec<Weighed>,
    /// Jumps to classic instructions: position in `code`, target.
    pub exits: Vec<(usize, usize)>,
    /// The last instruction does not lead to what follows.
    pub ends: bool,
    /// Where frames are rejected that a second program rejects.
    pub rejects_at: Option<usize>,
}

impl Block {
    fn push(&mut self, code: u8, dst: u8, src: u8, offset: i16, imm: i32) {
        self.push_weighed(code, dst, src, offset, imm, 1);
    }

    fn push_weighed(&mut self, code: u8, dst: u8, src: u8, offset: i16, imm: i32, weight: u32) {
        let instruction = EbpfInstruction { code, dst, src, offset, imm };
        self.code.push(Weighed { instruction, weight });
    }

    /// 64-bit arithmetic with a constant, sign-extended.
    pub fn alu64(&mut self, op: u8, dst: u8, imm: i32) {
        self.push(0x07 | op, dst, 0, 0, imm);
    }

    /// 64-bit arithmetic with a register.
    pub fn alu64_reg(&mut self, op: u8, dst: u8, src: u8) {
        self.push(0x07 | SOURCE_X | op, dst, src, 0, 0);
    }

    /// 32-bit arithmetic with a constant; the upper half becomes 0.
    pub fn alu32(&mut self, op: u8, dst: u8, value: u32) {
        self.push(0x04 | op, dst, 0, 0, value as i32);
    }

    /// 32-bit arithmetic with a register; the upper half becomes 0.
    pub fn alu32_reg(&mut self, op: u8, dst: u8, src: u8) {
        // The kernel guards divisions with up to four more instructions.
        let weight = if matches!(op, DIV | MOD) { 6 } else { 1 };
        self.push_weighed(0x04 | SOURCE_X | op, dst, src, 0, 0, weight);
    }

    /// Big-endian value of `bits` in a register to the host's.
    pub fn big_endian(&mut self, dst: u8, bits: i32) {
        self.push(0xdc, dst, 0, 0, bits);
    }

    pub fn load(&mut self, size: Size, dst: u8, base: u8, offset: i16) {
        // A field of the context becomes up to three instructions.
        let weight = if base == CONTEXT { 4 } else { 1 };
        self.push_weighed(0x61 | size as u8, dst, base, offset, 0, weight);
    }

    pub fn store(&mut self, size: Size, base: u8, offset: i16, src: u8) {
        self.push(0x63 | size as u8, base, src, offset, 0);
    }

    pub fn store_zero(&mut self, size: Size, base: u8, offset: i16) {
        self.push(0x62 | size as u8, base, 0, offset, 0);
    }

    /// Adds R`src` to a u64 in memory, atomically: a softirq may run the same program on the same
    /// CPU in the middle of an addition.
    pub fn atomic_add(&mut self, base: u8, offset: i16, src: u8) {
        self.push(0xdb, base, src, offset, 0);
    }

    /// Loads the address of the map that `fd` refers to (two instructions, BPF_PSEUDO_MAP_FD).
    pub fn map(&mut self, dst: u8, fd: i32) {
        self.push(0x18, dst, 1, 0, fd);
        self.push(0x00, 0, 0, 0, 0);
    }

    /// Loads the address of value 0 of an array (two instructions, BPF_PSEUDO_MAP_VALUE).
    pub fn map_value(&mut self, dst: u8, fd: i32) {
        self.push(0x18, dst, 2, 0, fd);
        self.push(0x00, 0, 0, 0, 0);
    }

    pub fn call(&mut self, function: i32) {
        // The lookup in a per-CPU array is written out in place.
        self.push_weighed(0x85, 0, 0, 0, function, 12);
    }

    /// Rejects the frame.
    pub fn reject(&mut self) {
        if let Some(place) = self.rejects_at {
            let out = self.jump();
            return self.leave(out, place);
        }
        self.alu32(MOV, R0, 0);
        self.exit();
    }

    pub fn exit(&mut self) {
        self.push(0x95, 0, 0, 0, 0);
    }

    /// Goes on only if R0 is 0, as after a call that succeeded.
    pub fn reject_unless_zero(&mut self) {
        let on = self.jump_if(JEQ, R0, 0);
        self.reject();
        self.here(on);
    }

    /// 64-bit unsigned comparison with a constant below 2^31.
    pub fn jump_if(&mut self, op: u8, dst: u8, imm: i32) -> Forward {
        self.push(0x05 | op, dst, 0, 0, imm);
        Forward(self.code.len() - 1)
    }

    /// 64-bit unsigned comparison of registers.
    pub fn jump_if_reg(&mut self, op: u8, dst: u8, src: u8) -> Forward {
        self.push(0x05 | SOURCE_X | op, dst, src, 0, 0);
        Forward(self.code.len() - 1)
    }

    /// 32-bit unsigned comparison with any constant.
    pub fn jump32_if(&mut self, op: u8, dst: u8, value: u32) -> Forward {
        self.push(0x06 | op, dst, 0, 0, value as i32);
        Forward(self.code.len() - 1)
    }

    /// 32-bit unsigned comparison of registers.
    pub fn jump32_if_reg(&mut self, op: u8, dst: u8, src: u8) -> Forward {
        self.push(0x06 | SOURCE_X | op, dst, src, 0, 0);
        Forward(self.code.len() - 1)
    }

    pub fn jump(&mut self) -> Forward {
        self.push(0x05, 0, 0, 0, 0);
        Forward(self.code.len() - 1)
    }

    /// The next instruction is the target of `jump`.
    pub fn here(&mut self, jump: Forward) {
        let distance = self.code.len() - jump.0 - 1;
        // A block has some dozens of instructions.
        self.code[jump.0].instruction.offset = distance as i16;
    }

    /// Makes `jump` lead to a classic instruction.
    pub fn leave(&mut self, jump: Forward, target: usize) {
        self.exits.push((jump.0, target));
    }
}
