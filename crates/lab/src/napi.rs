//! Where the NAPIs of an end run, and when.

use crate::tools::run_with_input;
use crate::{Error, Napi};
use ringside_sys::thread::give_short_turns;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::collections::BTreeSet;

/// Turns of a thread that polls at intervals: short, so that it goes on as soon as it is time.
const TURN_US: u32 = 100;
/// Niceness of such a thread: its weight is 3 to 1 of a program on the same CPU.
const NICE: i32 = -5;
/// Polls that find nothing until the next frame is waited for again.
const EMPTY_POLLS: &str = "2";

/// Has the NAPIs of an interface run where the network is to have them.
///
/// Threads of other interfaces of the same name (in other namespaces) were there before: the new
/// ones are ours. The caller holds the lock, so that no other network comes up meanwhile.
pub(crate) fn place(
    namespace: &str,
    interface: &str,
    napi: Napi,
    queues: u16,
) -> Result<(), Error> {
    let threads = || make_threaded(namespace, interface, queues);
    match napi {
        Napi::Softirq => Ok(()),
        Napi::Threaded => threads().map(drop),
        Napi::Pinned(cpu) => pin(&threads()?, cpu),
        Napi::Moderated { cpu, interval_us } => {
            let threads = threads()?;
            pin(&threads, cpu)?;
            for thread in threads {
                give_short_turns(thread.as_raw_nonzero().get() as u32, TURN_US, NICE)?;
            }
            let timeout_ns = u64::from(interval_us) * 1000;
            write(namespace, interface, "gro_flush_timeout", &timeout_ns.to_string())?;
            write(namespace, interface, "napi_defer_hard_irqs", EMPTY_POLLS)
        }
    }
}

fn pin(threads: &[Pid], cpu: usize) -> Result<(), Error> {
    let refused =
        |limit: String| Error::Limit { what: "the CPU of the NAPI", value: cpu as u64, limit };
    if cpu >= CpuSet::MAX_CPU {
        return Err(refused(format!("below {}", CpuSet::MAX_CPU)));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    for &thread in threads {
        sched_setaffinity(Some(thread), &set).map_err(|_| {
            refused("one that exists and is online (`nproc` tells how many)".into())
        })?;
    }
    Ok(())
}

/// Moves the NAPIs into threads, one for each queue.
fn make_threaded(namespace: &str, interface: &str, queues: u16) -> Result<Vec<Pid>, Error> {
    let before = threads(interface);
    write(namespace, interface, "threaded", "1")?;
    let ours: Vec<i32> = threads(interface).difference(&before).copied().collect();
    if ours.len() != usize::from(queues) {
        let (found, wanted) = (ours.len(), usize::from(queues));
        return Err(Error::NapiThreads { found, wanted, interface: interface.into() });
    }
    Ok(ours.into_iter().filter_map(Pid::from_raw).collect())
}

/// Writes a setting of the interface.
fn write(namespace: &str, interface: &str, setting: &str, value: &str) -> Result<(), Error> {
    // `ip netns exec` mounts the /sys of the namespace; ours shows another one's interfaces.
    let file = format!("/sys/class/net/{interface}/{setting}");
    run_with_input(&format!("ip netns exec {namespace} tee {file}"), value).map(drop)
}

/// Kernel threads that run a NAPI of an interface called as ours: `napi/rx0-ID`.
fn threads(interface: &str) -> BTreeSet<i32> {
    let prefix = format!("napi/{interface}-");
    let Ok(entries) = std::fs::read_dir("/proc") else { return BTreeSet::new() };
    let is_ours = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?;
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let name = std::fs::read_to_string(entry.path().join("comm")).ok()?;
        name.starts_with(&prefix).then_some(pid)
    };
    entries.filter_map(is_ours).collect()
}
