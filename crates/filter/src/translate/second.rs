//! Two programs, one behind the other: what the first accepts the second is asked about.
//!
//! The second may be switched off while it is attached, and what it rejects is counted apart.

use super::block::*;
use super::layout::Layout;
use super::operations::{Part, count_accepted, leave_room_for_tag, load_length};
use super::{COUNTERS, Code, KEPT, Plan, Target, TranslateOptions, prologue, scratch};
use crate::FilterError;
use ringside_core::bpf::{ClassicProgram, EbpfInstruction};

/// Bytes of the counters of the second program, in their map's value.
const REJECTED: i16 = 16;
const REJECTED_BYTES: i16 = 24;

/// A program behind another.
#[derive(Clone, Copy, Debug)]
pub struct Second<'p> {
    /// Rejects with 0. Whatever else it returns, as many bytes are kept as the first says.
    pub program: &'p ClassicProgram,
    /// File descriptor of an array whose value 0 is a u64: while it is 0, frames are accepted
    /// without being asked about.
    pub switch: i32,
}

/// Translates `first` to eBPF for a socket ([`Target::Socket`]), and behind it `second`.
///
/// # Errors
/// As [`translate`](super::translate).
pub fn translate_two(
    first: &ClassicProgram,
    second: &Second<'_>,
    options: &TranslateOptions,
) -> Result<Vec<EbpfInstruction>, FilterError> {
    let options = TranslateOptions { target: Target::Socket, ..*options };
    let codes = [Code::new(first)?, Code::new(second.program)?];
    let [first, last] = &codes;
    let plan = Plan::new(&[first, last], options);
    let entry = first.operations.len();
    let start = entry + 1;
    let accepts = start + last.operations.len();
    let rejects = accepts + 1;
    let mut output = Layout::new(rejects + 1);
    output.place_unnumbered(prologue::prologue(&plan))?;
    first.place(&mut output, &plan, 0, Part::First(entry))?;
    // A program that accepts nothing leads nowhere.
    if output.is_awaited(entry) {
        output.place(entry, enter(&plan, second.switch, accepts))?;
        last.place(&mut output, &plan, start, Part::Second(accepts, rejects))?;
        output.place(accepts, accept(&plan))?;
        if output.is_awaited(rejects) {
            output.place(rejects, reject(&plan))?;
        }
    }
    output.finish()
}

/// Between both: counts the frame, and leaves the second out if it is switched off.
fn enter(plan: &Plan, switch: i32, accepts: usize) -> Block {
    let mut b = Block::default();
    count_accepted(&mut b, plan);
    b.map_value(R1, switch);
    b.load(Size::U64, R1, R1, 0);
    let off = b.jump_if(JEQ, R1, 0);
    b.leave(off, accepts);
    for (word, _) in (0u8..).zip(plan.scratch).filter(|(_, used)| *used) {
        b.store_zero(Size::U32, FRAME, scratch(word));
    }
    b.alu32(MOV, A, 0);
    b.alu32(MOV, X, 0);
    b
}

fn accept(plan: &Plan) -> Block {
    let mut b = Block { ends: true, ..Block::default() };
    b.load(Size::U32, R0, FRAME, KEPT);
    leave_room_for_tag(&mut b, plan);
    b.exit();
    b
}

fn reject(plan: &Plan) -> Block {
    let mut b = Block { ends: true, ..Block::default() };
    if plan.options.counters.is_some() {
        load_length(&mut b, plan, A);
        b.load(Size::U64, R2, FRAME, COUNTERS);
        b.alu64(MOV, R3, 1);
        b.atomic_add(R2, REJECTED, R3);
        b.atomic_add(R2, REJECTED_BYTES, A);
    }
    b.reject();
    b
}
