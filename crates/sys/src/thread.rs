//! The calling thread: its CPU and its name.

use crate::SysError;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_name};
use std::ffi::CString;

/// Longest thread name that the kernel keeps, in bytes (TASK_COMM_LEN without the final zero).
const NAME_BYTES_MAX: usize = 15;

/// The CPUs that this thread may run on, in ascending order.
///
/// # Errors
/// The system refused, as under a seccomp filter.
pub fn allowed_cpus() -> Result<Vec<usize>, SysError> {
    let set = sched_getaffinity(None)
        .map_err(|e| SysError::io("asking which CPUs this thread may run on", e))?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// The CPUs that another thread may run on, in ascending order; `None` if there is no such thread.
pub fn allowed_cpus_of(thread: u32) -> Option<Vec<usize>> {
    let pid = Pid::from_raw(i32::try_from(thread).ok()?)?;
    let set = sched_getaffinity(Some(pid)).ok()?;
    Some((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Keeps this thread on `cpu`.
///
/// # Errors
/// The CPU does not exist or is not allowed.
pub fn pin_to_cpu(cpu: usize) -> Result<(), SysError> {
    pin_to_cpus(&[cpu])
}

/// Keeps this thread, and the threads that it or the kernel makes for it, on `cpus`.
///
/// # Errors
/// A number is too high, or none of the CPUs exists and is allowed.
pub fn pin_to_cpus(cpus: &[usize]) -> Result<(), SysError> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            let limit = format!("below {}", CpuSet::MAX_CPU);
            return Err(SysError::Limit { what: "the CPU number", value: cpu as u64, limit });
        }
        set.set(cpu);
    }
    sched_setaffinity(None, &set)
        .map_err(|e| SysError::io(format!("pinning this thread to CPU {cpus:?}"), e))
}

/// Has timers of this thread go off when they are due, instead of up to 50 µs later
/// (PR_SET_TIMERSLACK).
pub fn use_precise_timers() {
    // SAFETY: this prctl takes a number and changes the calling thread's timer slack only.
    // It does not fail.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// Names this thread, as `ps -L` shows it. The name is cut to 15 bytes and at a zero byte.
///
/// # Errors
/// The system refused.
pub fn name_thread(name: &str) -> Result<(), SysError> {
    let bytes = name.bytes().take_while(|&byte| byte != 0).take(NAME_BYTES_MAX);
    let text = CString::new(bytes.collect::<Vec<u8>>()).expect("zero bytes were left out");
    set_name(&text).map_err(|e| SysError::io(format!("naming this thread {name}"), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_is_allowed_one_cpu() {
        let cpu = *allowed_cpus().unwrap().last().unwrap();
        std::thread::spawn(move || {
            pin_to_cpu(cpu).unwrap();
            assert_eq!(allowed_cpus().unwrap(), [cpu]);
        })
        .join()
        .unwrap();
        assert!(pin_to_cpu(1_000_000).is_err());
    }

    #[test]
    fn a_long_name_is_cut() {
        std::thread::spawn(|| {
            name_thread("ringside-worker-12").unwrap();
            let id = rustix::thread::gettid().as_raw_nonzero();
            let name = std::fs::read_to_string(format!("/proc/self/task/{id}/comm")).unwrap();
            assert_eq!(name.trim_end(), "ringside-worker");
        })
        .join()
        .unwrap();
    }
}
