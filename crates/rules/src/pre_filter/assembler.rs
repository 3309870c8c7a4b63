//! Classic BPF with labels. Jumps are forward only, as the kernel demands.

use ringside_core::bpf::{ClassicProgram, Instruction};

/// Codes of linux/filter.h.
mod code {
    pub const LOAD_WORD: u16 = 0x20;
    pub const LOAD_HALF: u16 = 0x28;
    pub const LOAD_BYTE: u16 = 0x30;
    pub const LOAD_LENGTH: u16 = 0x80;
    pub const LOAD_CONSTANT: u16 = 0x00;
    pub const LOAD_SCRATCH: u16 = 0x60;
    pub const STORE: u16 = 0x02;
    pub const ADD: u16 = 0x04;
    pub const AND: u16 = 0x54;
    pub const A_TO_X: u16 = 0x07;
    pub const X_TO_A: u16 = 0x87;
    pub const JUMP: u16 = 0x05;
    pub const RETURN: u16 = 0x06;
}

/// Arithmetic with a constant.
#[derive(Clone, Copy)]
#[repr(u16)]
pub(super) enum Alu {
    Add = code::ADD,
    And = code::AND,
    Left = 0x64,
    Right = 0x74,
}

/// Comparison of A.
#[derive(Clone, Copy)]
#[repr(u16)]
pub(super) enum Test {
    Equal = 0x15,
    Greater = 0x25,
    AtLeast = 0x35,
}

/// With what A is compared.
#[derive(Clone, Copy)]
pub(super) enum With {
    Value(u32),
    X,
}

/// Bit of a test's code: its operand is X.
const OPERAND_X: u16 = 0x08;

/// A place in the program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Label(usize);

/// A program in the making.
#[derive(Default)]
pub(super) struct Assembler {
    instructions: Vec<Instruction>,
    /// Where labels stand, once they do.
    labels: Vec<Option<usize>>,
    /// Jumps, and the labels that they lead to.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// A label for a place to come.
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The next instruction stands at the label.
    pub(super) fn here(&mut self, label: Label) {
        self.labels[label.0] = Some(self.instructions.len());
    }

    /// A = 4 bytes at `offset`.
    pub(super) fn word(&mut self, offset: u32) {
        self.push(code::LOAD_WORD, offset);
    }

    /// A = 2 bytes.
    pub(super) fn half(&mut self, offset: u32) {
        self.push(code::LOAD_HALF, offset);
    }

    /// A = 1 byte.
    pub(super) fn byte(&mut self, offset: u32) {
        self.push(code::LOAD_BYTE, offset);
    }

    /// A = the frame's length.
    pub(super) fn length(&mut self) {
        self.push(code::LOAD_LENGTH, 0);
    }

    /// A = a number.
    pub(super) fn constant(&mut self, value: u32) {
        self.push(code::LOAD_CONSTANT, value);
    }

    /// A = a word of the scratch memory.
    pub(super) fn recall(&mut self, word: usize) {
        self.push(code::LOAD_SCRATCH, word as u32);
    }

    /// A word of the scratch memory = A.
    pub(super) fn store(&mut self, word: usize) {
        self.push(code::STORE, word as u32);
    }

    /// A = A with a number.
    pub(super) fn alu(&mut self, alu: Alu, value: u32) {
        self.push(alu as u16, value);
    }

    /// X = A.
    pub(super) fn set_x(&mut self) {
        self.push(code::A_TO_X, 0);
    }

    /// A = X.
    pub(super) fn load_x(&mut self) {
        self.push(code::X_TO_A, 0);
    }

    /// Goes to a label.
    pub(super) fn jump(&mut self, to: Label) {
        self.jumps.push((self.instructions.len(), to));
        self.push(code::JUMP, 0);
    }

    /// Goes to a label if a test of A holds.
    pub(super) fn when(&mut self, test: Test, with: With, to: Label) {
        self.test(test, with, (0, 1));
        self.jump(to);
    }

    /// Goes to a label if a test of A does not hold.
    pub(super) fn unless(&mut self, test: Test, with: With, to: Label) {
        self.test(test, with, (1, 0));
        self.jump(to);
    }

    /// Ends the program with this.
    pub(super) fn end(&mut self, value: u32) {
        self.push(code::RETURN, value);
    }

    /// The program. A jump to a label that does not stand behind it leads to the end, the last
    /// instruction.
    pub(super) fn finish(mut self) -> ClassicProgram {
        let last = self.instructions.len().saturating_sub(1);
        for (at, label) in self.jumps {
            let to = self.labels[label.0].filter(|to| *to > at);
            debug_assert!(to.is_some(), "a jump without a place ahead");
            self.instructions[at].k = (to.unwrap_or(last) - at - 1) as u32;
        }
        ClassicProgram { instructions: self.instructions }
    }

    /// Skips `jump_true` instructions if it holds, else `jump_false`. A separate jump reaches
    /// farther.
    fn test(&mut self, test: Test, with: With, (jump_true, jump_false): (u8, u8)) {
        let (code, k) = match with {
            With::Value(value) => (test as u16, value),
            With::X => (test as u16 | OPERAND_X, 0),
        };
        self.instructions.push(Instruction { code, jump_true, jump_false, k });
    }

    fn push(&mut self, code: u16, k: u32) {
        self.instructions.push(Instruction { code, jump_true: 0, jump_false: 0, k });
    }
}
