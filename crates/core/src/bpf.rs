//! Classic BPF programs as plain data: `filter` makes them, `sys` attaches them.

/// One instruction of classic BPF, as `struct sock_filter` in linux/filter.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Operation code.
    pub code: u16,
    /// Instructions to skip when a test holds.
    pub jump_true: u8,
    /// Instructions to skip when a test fails.
    pub jump_false: u8,
    /// Constant.
    pub k: u32,
}

/// A classic BPF program. It returns the number of bytes to keep; 0 rejects the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassicProgram {
    /// Instructions, at least one.
    pub instructions: Vec<Instruction>,
}

/// One instruction of eBPF, as `struct bpf_insn` in linux/bpf.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EbpfInstruction {
    /// Operation code.
    pub code: u8,
    /// Destination register (0-10).
    pub dst: u8,
    /// Source register (0-10), or a pseudo source.
    pub src: u8,
    /// Signed offset.
    pub offset: i16,
    /// Constant.
    pub imm: i32,
}
