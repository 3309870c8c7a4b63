//! Classic BPF: what each instruction means, and which programs are allowed.
//!
//! Codes as in linux/filter.h and libpcap's pcap/bpf.h. The rules are those of libpcap's
//! `pcapint_validate_filter`: they are the kernel's (`bpf_check_classic` in net/core/filter.c)
//! but that an unconditional jump may go backwards, which `protochain` needs.

use crate::FilterError;
use ringside_core::bpf::{ClassicProgram, Instruction};

/// Most instructions of a program. 10,000 unoptimised `host` terms make about 220,000; a child's
/// answer of this length is 2 MiB.
pub const PROGRAM_INSTRUCTIONS_MAX: usize = 1 << 18;

/// Most instructions of a program that the kernel attaches as classic BPF (BPF_MAXINSNS).
pub const KERNEL_CLASSIC_INSTRUCTIONS_MAX: usize = 4096;

/// Words of scratch memory, `M[0]` to `M[15]` (BPF_MEMWORDS).
pub const SCRATCH_WORDS: usize = 16;

/// Backward jumps that one evaluation may take; the frame is rejected at the next. `protochain`
/// takes one per extension header. libpcap has the same bound since 1.10.6 (MAX_BACKWARD_JUMPS);
/// before, a crafted chain of authentication headers made it loop for ever.
pub const BACKWARD_JUMPS_MAX: u32 = 64;

/// Width of a packet load. Values are big endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// One byte.
    Byte,
    /// Two bytes.
    Half,
    /// Four bytes.
    Word,
}

impl Width {
    /// Number of bytes.
    pub fn bytes(self) -> u32 {
        match self {
            Width::Byte => 1,
            Width::Half => 2,
            Width::Word => 4,
        }
    }
}

/// Arithmetic on the accumulator, modulo 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alu {
    /// A + operand.
    Add,
    /// A - operand.
    Sub,
    /// A * operand.
    Mul,
    /// A / operand; by 0 rejects the frame.
    Div,
    /// A modulo operand; by 0 rejects the frame.
    Mod,
    /// A | operand.
    Or,
    /// A & operand.
    And,
    /// A ^ operand.
    Xor,
    /// A << operand; 0 from 32 on.
    Lsh,
    /// A >> operand; 0 from 32 on.
    Rsh,
}

/// Comparison of the accumulator with an operand, unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// A == operand.
    Equal,
    /// A > operand.
    Greater,
    /// A >= operand.
    GreaterOrEqual,
    /// A & operand != 0.
    AnyBit,
}

/// The second operand of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// The instruction's constant.
    Constant(u32),
    /// The index register.
    X,
}

/// An instruction, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `A = packet[k..]`, rejecting the frame beyond its captured bytes.
    LoadAbsolute(Width, u32),
    /// `A = packet[X + k..]`, without wrap-around.
    LoadIndirect(Width, u32),
    /// `X = 4 * (packet[k] & 15)`: the length of an IPv4 header.
    LoadHeaderLength(u32),
    /// A = length on the wire.
    LoadLength,
    /// X = length on the wire.
    LoadLengthX,
    /// A = k.
    LoadConstant(u32),
    /// X = k.
    LoadConstantX(u32),
    /// `A = M[k]`.
    LoadScratch(u8),
    /// `X = M[k]`.
    LoadScratchX(u8),
    /// `M[k] = A`.
    Store(u8),
    /// `M[k] = X`.
    StoreX(u8),
    /// A = A op operand.
    Alu(Alu, Operand),
    /// A = -A.
    Negate,
    /// Jump relative to the next instruction.
    Jump(i32),
    /// If the test holds skip the first number of instructions, else the second.
    JumpIf(Test, Operand, u8, u8),
    /// Return k.
    Return(u32),
    /// Return A.
    ReturnA,
    /// X = A.
    CopyAToX,
    /// A = X.
    CopyXToA,
}

/// Decodes one instruction; the error names the rule that it breaks.
///
/// # Errors
/// An unknown code, a scratch word that does not exist, a division by the constant 0, a shift by a
/// constant above 31.
pub fn decode(instruction: &Instruction) -> Result<Operation, &'static str> {
    let Instruction { code, jump_true, jump_false, k } = *instruction;
    let operation = match code {
        0x20 => Operation::LoadAbsolute(Width::Word, k),
        0x28 => Operation::LoadAbsolute(Width::Half, k),
        0x30 => Operation::LoadAbsolute(Width::Byte, k),
        0x40 => Operation::LoadIndirect(Width::Word, k),
        0x48 => Operation::LoadIndirect(Width::Half, k),
        0x50 => Operation::LoadIndirect(Width::Byte, k),
        0xb1 => Operation::LoadHeaderLength(k),
        0x80 => Operation::LoadLength,
        0x81 => Operation::LoadLengthX,
        0x00 => Operation::LoadConstant(k),
        0x01 => Operation::LoadConstantX(k),
        0x60 => Operation::LoadScratch(scratch_index(k)?),
        0x61 => Operation::LoadScratchX(scratch_index(k)?),
        0x02 => Operation::Store(scratch_index(k)?),
        0x03 => Operation::StoreX(scratch_index(k)?),
        0x05 => Operation::Jump(k as i32),
        0x06 => Operation::Return(k),
        0x16 => Operation::ReturnA,
        0x07 => Operation::CopyAToX,
        0x87 => Operation::CopyXToA,
        0x84 => Operation::Negate,
        _ => {
            // Bit 3 selects X as the operand, for arithmetic and for tests alike.
            let operand = if code & 8 == 0 { Operand::Constant(k) } else { Operand::X };
            match code & !8 {
                0x15 => Operation::JumpIf(Test::Equal, operand, jump_true, jump_false),
                0x25 => Operation::JumpIf(Test::Greater, operand, jump_true, jump_false),
                0x35 => Operation::JumpIf(Test::GreaterOrEqual, operand, jump_true, jump_false),
                0x45 => Operation::JumpIf(Test::AnyBit, operand, jump_true, jump_false),
                other => Operation::Alu(decode_alu(other, operand)?, operand),
            }
        }
    };
    Ok(operation)
}

fn decode_alu(code: u16, operand: Operand) -> Result<Alu, &'static str> {
    let alu = match code {
        0x04 => Alu::Add,
        0x14 => Alu::Sub,
        0x24 => Alu::Mul,
        0x34 => Alu::Div,
        0x94 => Alu::Mod,
        0x44 => Alu::Or,
        0x54 => Alu::And,
        0xa4 => Alu::Xor,
        0x64 => Alu::Lsh,
        0x74 => Alu::Rsh,
        _ => return Err("has an unknown code"),
    };
    match (alu, operand) {
        (Alu::Div | Alu::Mod, Operand::Constant(0)) => Err("divides by 0"),
        (Alu::Lsh | Alu::Rsh, Operand::Constant(32..)) => Err("shifts by more than 31 bits"),
        _ => Ok(alu),
    }
}

fn scratch_index(k: u32) -> Result<u8, &'static str> {
    if (k as usize) < SCRATCH_WORDS { Ok(k as u8) } else { Err("uses scratch memory beyond M[15]") }
}

/// Checks a program and decodes it: every code known, every jump inside, the last a return. The
/// result has as many operations as the program has instructions.
///
/// # Errors
/// [`FilterError::Invalid`] with the first bad instruction, or [`FilterError::ProgramTooLong`].
pub fn validate(program: &ClassicProgram) -> Result<Vec<Operation>, FilterError> {
    let count = program.instructions.len();
    if count > PROGRAM_INSTRUCTIONS_MAX {
        return Err(FilterError::ProgramTooLong {
            instructions: count,
            limit: PROGRAM_INSTRUCTIONS_MAX,
        });
    }
    let mut operations = Vec::with_capacity(count);
    for (index, instruction) in program.instructions.iter().enumerate() {
        let invalid = |reason| FilterError::Invalid { index, reason };
        let operation = decode(instruction).map_err(invalid)?;
        let next = index + 1;
        let inside = match operation {
            Operation::JumpIf(_, _, jump_true, jump_false) => {
                next + usize::from(jump_true.max(jump_false)) < count
            }
            Operation::Jump(-1) => return Err(invalid("jumps to itself")),
            Operation::Jump(by) => jump_target(index, by).is_some_and(|target| target < count),
            _ => true,
        };
        if !inside {
            return Err(invalid("jumps out of the program"));
        }
        operations.push(operation);
    }
    match operations.last() {
        Some(Operation::Return(_) | Operation::ReturnA) => Ok(operations),
        Some(_) => Err(FilterError::Invalid { index: count - 1, reason: "is last and no return" }),
        None => Err(FilterError::Invalid { index: 0, reason: "does not exist" }),
    }
}

/// Where the unconditional jump at `index` leads, if not before the program.
pub fn jump_target(index: usize, by: i32) -> Option<usize> {
    (index + 1).checked_add_signed(by as isize)
}

/// Says whether the kernel, given `operations` as a classic socket filter, is sure to do what this
/// crate does with a frame whose bytes are complete (no tag taken out).
///
/// # Errors
/// The reason why not: too long; a backward jump; an offset that the kernel takes for one of its
/// extensions (SKF_AD_OFF and others, from 2^31 on); a shift by X, which the kernel takes modulo
/// 32; an indirect load with a computed X, where the kernel wraps around and libpcap rejects.
pub fn check_kernel_classic(operations: &[Operation]) -> Result<(), FilterError> {
    if operations.len() > KERNEL_CLASSIC_INSTRUCTIONS_MAX {
        return Err(FilterError::ProgramTooLong {
            instructions: operations.len(),
            limit: KERNEL_CLASSIC_INSTRUCTIONS_MAX,
        });
    }
    let computed_x = operations.iter().any(|operation| match *operation {
        Operation::CopyAToX | Operation::LoadScratchX(_) | Operation::LoadLengthX => true,
        Operation::LoadConstantX(k) => k > i32::MAX as u32,
        _ => false,
    });
    for (index, operation) in operations.iter().enumerate() {
        if let Some(reason) = kernel_difference(operation, computed_x) {
            return Err(FilterError::Invalid { index, reason });
        }
    }
    Ok(())
}

fn kernel_difference(operation: &Operation, computed_x: bool) -> Option<&'static str> {
    match *operation {
        Operation::Jump(by) if by < 0 => Some("jumps backwards, which the kernel does not run"),
        Operation::LoadAbsolute(_, k)
        | Operation::LoadIndirect(_, k)
        | Operation::LoadHeaderLength(k)
            if k > i32::MAX as u32 =>
        {
            Some("loads at an offset with another meaning in the kernel")
        }
        Operation::LoadIndirect(..) if computed_x => {
            Some("loads at a computed offset, where the kernel may wrap around")
        }
        Operation::Alu(Alu::Lsh | Alu::Rsh, Operand::X) => {
            Some("shifts by X, which the kernel takes modulo 32")
        }
        _ => None,
    }
}
