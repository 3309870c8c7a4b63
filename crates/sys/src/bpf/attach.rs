//! Filters on sockets: SO_ATTACH_BPF and SO_ATTACH_FILTER.

use super::{BpfError, Program};
use crate::thread::{online_cpus, pin_to_cpu};
use ringside_core::bpf::ClassicProgram;
use rustix::thread::{MembarrierCommand, membarrier};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Longest wait for a turn on every CPU where membarrier(2) is refused: a CPU whose real-time tasks
/// leave it to no other thread, or one that is stopped, ends it.
const TURNS_MAX: Duration = Duration::from_secs(1);

/// Says "1" on a PREEMPT_RT kernel, where softirqs can be preempted.
const REALTIME: &str = "/sys/kernel/realtime";

static APPROXIMATE: OnceLock<String> = OnceLock::new();

/// Waits until no CPU is within a program of the packet path that was taken out or replaced
/// before: what it counted stands still then. May take some ten milliseconds. Where that cannot be
/// had, [`approximate_because`] says why from then on.
pub fn wait_until_left() {
    // Such programs run within RCU sections, and MEMBARRIER_CMD_GLOBAL is synchronize_rcu. A
    // kernel with nohz_full refuses it.
    if membarrier(MembarrierCommand::Global).is_err()
        && let Err(why) = take_a_turn_on_every_cpu(TURNS_MAX)
    {
        APPROXIMATE.get_or_init(|| why);
    }
}

/// Why a program that was taken out may still have been counting when its counts were read, if that
/// has happened in this process.
pub fn approximate_because() -> Option<&'static str> {
    APPROXIMATE.get().map(String::as_str)
}

/// Programs of the packet path run where nothing else is scheduled (with bottom halves off), so a
/// CPU on which a thread has had its turn since has left all that ran there before.
fn take_a_turn_on_every_cpu(patience: Duration) -> Result<(), String> {
    if std::fs::read_to_string(REALTIME).is_ok_and(|text| text.trim() == "1") {
        return Err("a PREEMPT_RT kernel preempts softirqs, and membarrier(2) is refused".into());
    }
    let (done, all_done) = channel();
    // A thread of its own: the caller keeps its CPUs, and need not wait for one that never comes.
    let turns = std::thread::Builder::new().spawn(move || {
        let turns = online_cpus().and_then(|cpus| cpus.into_iter().try_for_each(pin_to_cpu));
        // The caller may have stopped waiting.
        let _ = done.send(turns.map_err(|error| error.to_string()));
    });
    turns.map_err(|error| error.to_string())?;
    done_within(patience, &all_done)
}

fn done_within(patience: Duration, done: &Receiver<Result<(), String>>) -> Result<(), String> {
    let late = |_| format!("not every CPU had a turn within {} ms", patience.as_millis());
    done.recv_timeout(patience).map_err(late)?
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::allowed_cpus;

    #[test]
    fn a_thread_has_its_turn_on_every_cpu_and_the_caller_stays_where_it_is() {
        let before = allowed_cpus().unwrap();
        // As long as it takes: a busy machine is not to decide this.
        take_a_turn_on_every_cpu(Duration::from_secs(3600)).unwrap();
        assert_eq!(allowed_cpus().unwrap(), before);
    }

    #[test]
    fn turns_that_take_too_long_are_not_waited_for() {
        // A thread that has not had all its turns.
        let (_turns, done) = channel();
        let error = done_within(Duration::ZERO, &done).unwrap_err();
        assert!(error.contains("within 0 ms"), "{error}");
    }
}
