//! What bpf(2) lets this process load, asked by loading the least of its kind; and what a loaded
//! program is called.

use super::{
    BPF_PROG_LOAD, BpfError, LoadAttributes, NAME_BYTES, RawInstruction, bpf, load_attributes,
    object_info, owned,
};
use std::os::fd::AsFd;

const BPF_PROG_GET_FD_BY_ID: libc::c_long = 13;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_PROG_TYPE_TRACING: u32 = 26;
const BPF_TRACE_FENTRY: u32 = 24;
/// BPF_ALU64 | BPF_MOV | BPF_K: r0 = 0.
const MOVE: u8 = 0xb7;
/// BPF_JMP | BPF_EXIT.
const EXIT: u8 = 0x95;

/// `union bpf_attr` for BPF_PROG_LOAD up to `attach_btf_id`.
#[repr(C)]
struct TracingAttributes {
    load: LoadAttributes,
    btf_fd: u32,
    function_record_bytes: u32,
    function_records: u64,
    function_count: u32,
    line_record_bytes: u32,
    line_records: u64,
    line_count: u32,
    attach_btf_id: u32,
}

const _: () = assert!(size_of::<TracingAttributes>() == 112);

/// `union bpf_attr` for BPF_PROG_GET_FD_BY_ID.
#[repr(C)]
struct ByIdAttributes {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

/// `struct bpf_prog_info` up to the name.
#[repr(C)]
#[derive(Default)]
struct ProgramInfo {
    /// Type, id, tag, lengths, and where the caller wants instructions: nowhere.
    before: [u64; 8],
    name: [u8; NAME_BYTES],
}

const _: () = assert!(std::mem::offset_of!(ProgramInfo, name) == 64);
const _: () = assert!(size_of::<ProgramInfo>() == 80);

/// The name of the program with this id, as `bpftool prog` shows it; at most 15 bytes.
///
/// # Errors
/// There is no such program, or CAP_BPF is missing.
pub fn program_name(id: u32) -> Result<String, BpfError> {
    let mut by_id = ByIdAttributes { id, next_id: 0, open_flags: 0 };
    // SAFETY: the layout is that of BPF_PROG_GET_FD_BY_ID, without addresses; the descriptor is
    // new.
    let program =
        unsafe { owned(bpf(BPF_PROG_GET_FD_BY_ID, &mut by_id), "opening a program by its id")? };
    // SAFETY: `ProgramInfo` is made of integers, and its default is all 0.
    let info: ProgramInfo =
        unsafe { object_info(program.as_fd(), "asking for the name of a program")? };
    let name = info.name.split(|&byte| byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// Loads a program that passes every frame, and lets it go.
///
/// # Errors
/// Why programs for interfaces cannot be loaded.
pub fn try_xdp() -> Result<(), BpfError> {
    try_load(BPF_PROG_TYPE_XDP, 0, 0)
}

/// True if programs may be attached to the kernel's functions by trampolines (fentry, and so
/// replacement of parts of other programs). Some hardened kernels refuse them to everybody.
pub fn may_use_trampolines() -> bool {
    // Type 1 of the kernel is no function, which is refused later and for another reason.
    match try_load(BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, 1) {
        Ok(()) => true,
        Err(error) => !matches!(error, BpfError::NotPermitted { .. }),
    }
}

fn try_load(kind: u32, expected_attach_type: u32, attach_btf_id: u32) -> Result<(), BpfError> {
    let instruction = |code| RawInstruction { code, registers: 0, offset: 0, imm: 0 };
    let instructions = [instruction(MOVE), instruction(EXIT)];
    let mut attributes = TracingAttributes {
        load: LoadAttributes {
            expected_attach_type,
            ..load_attributes(kind, "rs_probe", &instructions, &mut [])
        },
        btf_fd: 0,
        function_record_bytes: 0,
        function_records: 0,
        function_count: 0,
        line_record_bytes: 0,
        line_records: 0,
        line_count: 0,
        attach_btf_id,
    };
    // SAFETY: the layout is that of BPF_PROG_LOAD up to `attach_btf_id`; the instructions and the
    // license are valid until the call returns, and there is no log. The descriptor is new.
    unsafe { owned(bpf(BPF_PROG_LOAD, &mut attributes), "loading a program to try").map(drop) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_may_load_programs_for_interfaces() {
        if !ringside_testkit::need_root("sys::bpf probe") {
            return;
        }
        try_xdp().unwrap();
        // Either answer is right; asking must leave nothing behind and not fail.
        may_use_trampolines();
        assert!(program_name(u32::MAX).is_err());
    }
}
