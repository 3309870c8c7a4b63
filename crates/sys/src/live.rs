//! Live test frames: BPF_PROG_TEST_RUN of an XDP program on frames that then go where it sends
//! them (Documentation/bpf/bpf_prog_run.rst, Linux 5.18).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// BPF_PROG_TEST_RUN of `enum bpf_cmd`.
const BPF_PROG_TEST_RUN: libc::c_long = 10;

/// BPF_F_TEST_XDP_LIVE_FRAMES.
const LIVE_FRAMES: u32 = 1 << 1;

/// The member `test` of `union bpf_attr`, padded to its alignment.
#[repr(C)]
#[derive(Default)]
struct TestRunAttributes {
    program: u32,
    return_value: u32,
    data_in_bytes: u32,
    data_out_bytes: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration_ns: u32,
    context_in_bytes: u32,
    context_out_bytes: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch_frames: u32,
    padding: u32,
}

const _: () = assert!(size_of::<TestRunAttributes>() == 80);

/// Runs `program` on `frame_count` live frames that begin as copies of `frame`, on the CPU and in
/// the network namespace of the calling thread. Frames come from pages that are used again: what
/// the program wrote into one is still there later.
///
/// # Errors
/// The system's reason; EINTR where a signal came after some of the frames.
pub fn run_live_frames(program: BorrowedFd<'_>, frame: &[u8], frame_count: u32) -> io::Result<()> {
    if frame_count == 0 {
        return Ok(()); // the kernel would take 0 for 1
    }
    let mut attributes = TestRunAttributes {
        program: program.as_raw_fd() as u32,
        data_in_bytes: u32::try_from(frame.len()).map_err(io::Error::other)?,
        data_in: frame.as_ptr() as u64,
        repeat: frame_count,
        flags: LIVE_FRAMES,
        ..TestRunAttributes::default()
    };
    let bytes = size_of::<TestRunAttributes>();
    // SAFETY: the attributes are laid out as the kernel expects for this command and live during
    // the call; `data_in` is valid for reads of `data_in_bytes`; there are no output buffers.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_TEST_RUN, &raw mut attributes, bytes) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
