//! The reference evaluator: libpcap's `bpf_filter.c`, in plain Rust.

use crate::FilterError;
use crate::classic::{
    Alu, BACKWARD_JUMPS_MAX, Operand, Operation, SCRATCH_WORDS, Test, Width, decode, jump_target,
    validate,
};
use ringside_core::bpf::ClassicProgram;

/// Runs `program` on a frame: `bytes` as captured, `wire_bytes` its length on the wire (what `len`
/// gives). Returns the number of bytes to keep, 0 to reject.
///
/// A load beyond `bytes`, a division by 0, a shift by 32 or more (result 0), scratch memory (zero
/// at the start) and a long `protochain` behave as in libpcap. A program that breaks the rules
/// rejects where libpcap's evaluator would; it cannot panic or run for ever.
pub fn evaluate(program: &ClassicProgram, bytes: &[u8], wire_bytes: u32) -> u32 {
    let fetch = |at: usize| program.instructions.get(at).and_then(|i| decode(i).ok());
    run(fetch, bytes, wire_bytes).unwrap_or(0)
}

/// A program that was checked and decoded once, for many frames.
#[derive(Clone, Debug)]
pub struct Prepared {
    operations: Vec<Operation>,
}

impl Prepared {
    /// Checks and decodes `program`.
    ///
    /// # Errors
    /// As [`validate`].
    pub fn new(program: &ClassicProgram) -> Result<Prepared, FilterError> {
        Ok(Prepared { operations: validate(program)? })
    }

    /// As [`evaluate`].
    pub fn evaluate(&self, bytes: &[u8], wire_bytes: u32) -> u32 {
        run(|at| self.operations.get(at).copied(), bytes, wire_bytes).unwrap_or(0)
    }

    /// True if the frame is accepted.
    pub fn accepts(&self, bytes: &[u8], wire_bytes: u32) -> bool {
        self.evaluate(bytes, wire_bytes) != 0
    }
}

/// `None` rejects: a load beyond the frame, a division by 0, the end of an invalid program.
fn run(fetch: impl Fn(usize) -> Option<Operation>, bytes: &[u8], wire_bytes: u32) -> Option<u32> {
    let (mut a, mut x) = (0u32, 0u32);
    let mut scratch = [0u32; SCRATCH_WORDS];
    let mut backward_jumps = 0;
    let mut at = 0usize;
    loop {
        let operation = fetch(at)?;
        let mut next = at + 1;
        match operation {
            Operation::LoadAbsolute(width, k) => a = load(bytes, u64::from(k), width)?,
            Operation::LoadIndirect(width, k) => {
                a = load(bytes, u64::from(x) + u64::from(k), width)?;
            }
            Operation::LoadHeaderLength(k) => {
                x = (load(bytes, u64::from(k), Width::Byte)? & 0xf) << 2;
            }
            Operation::LoadLength => a = wire_bytes,
            Operation::LoadLengthX => x = wire_bytes,
            Operation::LoadConstant(k) => a = k,
            Operation::LoadConstantX(k) => x = k,
            Operation::LoadScratch(k) => a = *scratch.get(usize::from(k))?,
            Operation::LoadScratchX(k) => x = *scratch.get(usize::from(k))?,
            Operation::Store(k) => *scratch.get_mut(usize::from(k))? = a,
            Operation::StoreX(k) => *scratch.get_mut(usize::from(k))? = x,
            Operation::Alu(alu, operand) => a = compute(alu, a, value(operand, x))?,
            Operation::Negate => a = a.wrapping_neg(),
            Operation::Jump(by) => {
                if by < 0 {
                    if by == -1 || backward_jumps == BACKWARD_JUMPS_MAX {
                        return None;
                    }
                    backward_jumps += 1;
                }
                next = jump_target(at, by)?;
            }
            Operation::JumpIf(test, operand, jump_true, jump_false) => {
                let skip = if holds(test, a, value(operand, x)) { jump_true } else { jump_false };
                next += usize::from(skip);
            }
            Operation::Return(k) => return Some(k),
            Operation::ReturnA => return Some(a),
            Operation::CopyAToX => x = a,
            Operation::CopyXToA => a = x,
        }
        at = next;
    }
}

fn value(operand: Operand, x: u32) -> u32 {
    match operand {
        Operand::Constant(k) => k,
        Operand::X => x,
    }
}

fn load(bytes: &[u8], offset: u64, width: Width) -> Option<u32> {
    let start = usize::try_from(offset).ok()?;
    let field = bytes.get(start..)?.get(..width.bytes() as usize)?;
    Some(field.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
}

fn compute(alu: Alu, a: u32, operand: u32) -> Option<u32> {
    Some(match alu {
        Alu::Add => a.wrapping_add(operand),
        Alu::Sub => a.wrapping_sub(operand),
        Alu::Mul => a.wrapping_mul(operand),
        Alu::Div => a.checked_div(operand)?,
        Alu::Mod => a.checked_rem(operand)?,
        Alu::Or => a | operand,
        Alu::And => a & operand,
        Alu::Xor => a ^ operand,
        Alu::Lsh => a.checked_shl(operand).unwrap_or(0),
        Alu::Rsh => a.checked_shr(operand).unwrap_or(0),
    })
}

fn holds(test: Test, a: u32, operand: u32) -> bool {
    match test {
        Test::Equal => a == operand,
        Test::Greater => a > operand,
        Test::GreaterOrEqual => a >= operand,
        Test::AnyBit => a & operand != 0,
    }
}
