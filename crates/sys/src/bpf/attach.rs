//! Filters on sockets: SO_ATTACH_BPF and SO_ATTACH_FILTER.

use super::{BpfError, Program};
use ringside_core::bpf::ClassicProgram;
use rustix::thread::{MembarrierCommand, membarrier};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

/// How long to wait for CPUs within an old program where membarrier(2) is refused: softirqs are
/// limited to 2 ms (netdev_budget_usecs) or two ticks, and a virtual CPU may be stopped for more.
const PROGRAM_GRACE: Duration = Duration::from_millis(50);

/// Waits until no CPU is within a program of the packet path that was taken out or replaced
/// before: what it counted stands still then. May take some ten milliseconds.
pub fn wait_until_left() {
    // Such programs run within RCU sections, and MEMBARRIER_CMD_GLOBAL is synchronize_rcu. A
    // kernel with nohz_full refuses it.
    if membarrier(MembarrierCommand::Global).is_err() {
        std::thread::sleep(PROGRAM_GRACE);
    }
}

/// Has `socket` receive only what `program` accepts, cut to the length that it returns. Replaces
/// an earlier filter at once. Frames already queued stay.
///
/// # Errors
/// The kernel's refusal.
pub fn attach_socket_filter(socket: BorrowedFd<'_>, program: &Program) -> Result<(), BpfError> {
    let fd = program.as_fd().as_raw_fd();
    set_option(socket, libc::SO_ATTACH_BPF, &fd, "attaching a BPF program to a socket")
}

/// As [`attach_socket_filter`] for a classic program, which the kernel runs on the frame *without*
/// the VLAN tag that it may have taken out, and which counts nothing.
///
/// # Errors
/// More than 65,535 instructions, or the kernel's refusal (it takes 4,096, and no backward jumps).
pub fn attach_classic(socket: BorrowedFd<'_>, program: &ClassicProgram) -> Result<(), BpfError> {
    let raw: Vec<libc::sock_filter> = program
        .instructions
        .iter()
        .map(|i| libc::sock_filter { code: i.code, jt: i.jump_true, jf: i.jump_false, k: i.k })
        .collect();
    let Ok(len) = u16::try_from(raw.len()) else {
        let (what, limit) = ("instructions of a classic filter", usize::from(u16::MAX));
        return Err(BpfError::TooLarge { what, value: raw.len(), limit });
    };
    let filter = libc::sock_fprog { len, filter: raw.as_ptr().cast_mut() };
    // `filter` points to `raw`, which lives until the call has returned; the kernel only reads it.
    set_option(socket, libc::SO_ATTACH_FILTER, &filter, "attaching a classic filter to a socket")
}

fn set_option<T>(
    socket: BorrowedFd<'_>,
    option: libc::c_int,
    value: &T,
    what: &'static str,
) -> Result<(), BpfError> {
    // SAFETY: pointer and length describe `value`, which the kernel reads during the call only.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const *value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(BpfError::last(what)) }
}
