//! Puts blocks one after the other and joins their jumps.
//!
//! A jump reaches 32,767 instructions, counted after the kernel has expanded what it expands. A
//! long program therefore has *islands*: every few thousand instructions, for each jump that is
//! still under way, an entry that carries it on.

use super::EBPF_INSTRUCTIONS_MAX;
use super::block::{Block, Weighed};
use super::operations::never_loads;
use super::threading::Targets;
use crate::FilterError;
use crate::classic::{Operation, Width};
use ringside_core::bpf::EbpfInstruction;
use std::collections::BTreeMap;

/// Longest jump, in weight. With constant blinding (net.core.bpf_jit_harden) the kernel makes up to
/// three instructions of one: a third of the range of 16 bits.
const JUMP_WEIGHT_MAX: u32 = 10_900;

/// Weight between two islands: less than half a jump, so that the island itself has room.
const ISLAND_WEIGHT: u32 = 4_000;

/// Which instructions can be reached from the first.
pub(super) fn reachable(operations: &[Operation], targets: &[Targets]) -> Vec<bool> {
    let mut live = vec![false; operations.len()];
    let mut open = vec![0];
    while let Some(index) = open.pop() {
        if std::mem::replace(&mut live[index], true) {
            continue;
        }
        match operations[index] {
            Operation::Return(_) | Operation::ReturnA => {}
            Operation::LoadAbsolute(width, k) | Operation::LoadIndirect(width, k)
                if never_loads(width, k) => {}
            Operation::LoadHeaderLength(k) if never_loads(Width::Byte, k) => {}
            _ => {
                let (on_true, on_false) = targets[index];
                open.extend([on_false, on_true]);
            }
        }
    }
    live
}

/// A jump that waits for its target to be placed.
#[derive(Clone, Copy)]
struct Pending {
    at: usize,
    weight: u32,
}

/// The program so far.
pub(super) struct Layout {
    code: Vec<EbpfInstruction>,
    weight: u32,
    /// Position and weight of each classic instruction that was placed.
    starts: Vec<Option<Pending>>,
    pending: BTreeMap<usize, Vec<Pending>>,
    last_island: u32,
    /// The last instruction leads to the next one.
    falls_through: bool,
}

impl Layout {
    pub fn new(operations: usize) -> Layout {
        Layout {
            code: Vec::new(),
            weight: 0,
            starts: vec![None; operations],
            pending: BTreeMap::new(),
            last_island: 0,
            falls_through: true,
        }
    }

    /// Places the block of classic instruction `index`; indices ascend.
    pub fn place(&mut self, index: usize, block: Block) -> Result<(), FilterError> {
        if self.weight - self.last_island > ISLAND_WEIGHT {
            self.island(index)?;
        }
        let here = Pending { at: self.code.len(), weight: self.weight };
        self.starts[index] = Some(here);
        for jump in self.pending.remove(&index).unwrap_or_default() {
            self.join(jump, here)?;
        }
        self.place_unnumbered(block)
    }

    /// True if a jump that was placed leads there.
    pub fn is_awaited(&self, index: usize) -> bool {
        self.pending.contains_key(&index)
    }

    /// Places a block that no classic instruction jumps to.
    pub fn place_unnumbered(&mut self, block: Block) -> Result<(), FilterError> {
        let base = self.code.len();
        let mut exits = block.exits.into_iter().peekable();
        for (position, weighed) in block.code.into_iter().enumerate() {
            if let Some((_, target)) = exits.next_if(|(at, _)| *at == position) {
                let jump = Pending { at: base + position, weight: self.weight };
                self.push(weighed);
                match self.starts[target] {
                    Some(start) => self.join(jump, start)?,
                    None => self.pending.entry(target).or_default().push(jump),
                }
            } else {
                self.push(weighed);
            }
        }
        self.falls_through = !block.ends;
        if self.code.len() > EBPF_INSTRUCTIONS_MAX {
            return Err(too_long("instructions", self.code.len(), EBPF_INSTRUCTIONS_MAX));
        }
        Ok(())
    }

    /// The program, complete.
    pub fn finish(self) -> Result<Vec<EbpfInstruction>, FilterError> {
        // Every target of a live instruction is live, and was placed.
        debug_assert!(self.pending.is_empty(), "a jump without a target");
        Ok(self.code)
    }

    fn push(&mut self, weighed: Weighed) {
        self.code.push(weighed.instruction);
        self.weight += weighed.weight;
    }

    /// An entry for every target that lies behind `next`, the instruction placed after this.
    fn island(&mut self, next: usize) -> Result<(), FilterError> {
        let mut under_way = self.pending.split_off(&(next + 1));
        self.last_island = self.weight;
        if under_way.is_empty() {
            return Ok(());
        }
        if self.falls_through {
            let over = jump_by(under_way.len());
            self.push(over?);
        }
        for (target, jumps) in &mut under_way {
            let entry = Pending { at: self.code.len(), weight: self.weight };
            for jump in jumps.drain(..) {
                self.join(jump, entry)?;
            }
            self.push(jump_by(0)?);
            jumps.push(entry);
            debug_assert!(*target > next);
        }
        self.pending.append(&mut under_way);
        self.last_island = self.weight;
        Ok(())
    }

    fn join(&mut self, jump: Pending, target: Pending) -> Result<(), FilterError> {
        let distance = jump.weight.abs_diff(target.weight);
        if distance > JUMP_WEIGHT_MAX {
            let (value, limit) = (distance as usize, JUMP_WEIGHT_MAX as usize);
            return Err(too_long("a jump", value, limit));
        }
        let offset = target.at as i64 - jump.at as i64 - 1;
        // Weights are at least the distance in instructions, so this fits.
        self.code[jump.at].offset = offset as i16;
        Ok(())
    }
}

fn jump_by(distance: usize) -> Result<Weighed, FilterError> {
    let offset = i16::try_from(distance)
        .map_err(|_| too_long("jumps across one place", distance, i16::MAX as usize))?;
    let instruction = EbpfInstruction { code: 0x05, dst: 0, src: 0, offset, imm: 0 };
    Ok(Weighed { instruction, weight: 1 })
}

fn too_long(what: &'static str, value: usize, limit: usize) -> FilterError {
    FilterError::TranslationTooLong { what, value, limit }
}
