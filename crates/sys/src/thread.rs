//! The calling thread: its CPU and its name.

use crate::SysError;
use crate::numa::cpu_list;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_name};
use std::ffi::CString;

/// Longest thread name that the kernel keeps, in bytes (TASK_COMM_LEN without the final zero).
const NAME_BYTES_MAX: usize = 15;

/// The calling thread, where a thread is asked for.
pub const THIS_THREAD: u32 = 0;

/// The CPUs that this thread may run on, in ascending order.
///
/// # Errors
/// The system refused, as under a seccomp filter.
pub fn allowed_cpus() -> Result<Vec<usize>, SysError> {
    let set = sched_getaffinity(None)
        .map_err(|e| SysError::io("asking which CPUs this thread may run on", e))?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// The CPUs of the machine that run, in ascending order.
///
/// # Errors
/// sysfs is not there.
pub fn online_cpus() -> Result<Vec<usize>, SysError> {
    const ONLINE: &str = "/sys/devices/system/cpu/online";
    let text = std::fs::read_to_string(ONLINE);
    Ok(cpu_list(&text.map_err(|error| SysError::io(format!("reading {ONLINE}"), error))?))
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

/// Asks the scheduler for short turns of at least `turn_us` microseconds, 100 at least, soon after
/// this thread is ready, instead of long ones later (`sched_runtime` of sched_setattr(2); Linux
/// 6.12). Its share of the CPU stays what it is.
///
/// # Errors
/// The system refused. Older kernels accept it and change nothing.
pub fn prefer_short_turns(turn_us: u32) -> Result<(), SysError> {
    set_turns(THIS_THREAD, turn_us, None)
}

/// The same for another thread, which may be one of the kernel, and its share of the CPU: `nice`
/// from -20, the largest, to 19.
///
/// # Errors
/// As of [`prefer_short_turns`], or there is no such thread.
pub fn give_short_turns(thread: u32, turn_us: u32, nice: i32) -> Result<(), SysError> {
    set_turns(thread, turn_us, Some(nice))
}

/// Has this thread run only where nothing else wants to (SCHED_IDLE): whatever wakes up on its CPU
/// goes first at once.
///
/// # Errors
/// The system refused, as under a seccomp filter.
pub fn yield_to_all() -> Result<(), SysError> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call reads `parameters`, which lives until it returns, and changes the calling
    // thread's scheduling only.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) };
    let refused = || std::io::Error::last_os_error();
    if result == 0 { Ok(()) } else { Err(SysError::io("asking for the idle policy", refused())) }
}

fn set_turns(thread: u32, turn_us: u32, nice: Option<i32>) -> Result<(), SysError> {
    let context = || format!("asking for turns of {turn_us} microseconds");
    // SAFETY: all zero bytes are a valid sched_attr, and the kernel writes at most its size.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    attributes.size = size_of::<libc::sched_attr>() as u32;
    let no_flags = 0;
    // SAFETY: the pointer and the size describe `attributes`, which lives during both calls.
    let result = unsafe {
        let pointer = &raw mut attributes;
        libc::syscall(libc::SYS_sched_getattr, thread, pointer, attributes.size, no_flags)
    };
    if result != 0 {
        return Err(SysError::io(context(), std::io::Error::last_os_error()));
    }
    if attributes.sched_policy != libc::SCHED_OTHER as u32 {
        // Who gave the thread another policy knows better.
        return Ok(());
    }
    attributes.sched_nice = nice.unwrap_or(attributes.sched_nice);
    attributes.sched_runtime = u64::from(turn_us) * 1000;
    // SAFETY: as above; the kernel only reads.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const attributes, no_flags) };
    if result == 0 { Ok(()) } else { Err(SysError::io(context(), std::io::Error::last_os_error())) }
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
