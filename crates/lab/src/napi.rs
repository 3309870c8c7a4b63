//! Threaded NAPI of the receiving end.

use crate::Error;
use crate::tools::run_with_input;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::collections::BTreeSet;

/// Moves the NAPIs of a receiving end into threads, one for each of `queues`, on `cpu` if given.
///
/// The threads are told from those of other interfaces of the same name (in other namespaces) by
/// not having been there before; the caller holds the lock, so that no other network comes up
/// meanwhile.
pub(crate) fn make_threaded(
    namespace: &str,
    interface: &str,
    queues: u16,
    cpu: Option<usize>,
) -> Result<(), Error> {
    if let Some(cpu) = cpu.filter(|&cpu| cpu >= CpuSet::MAX_CPU) {
        let limit = format!("below {}", CpuSet::MAX_CPU);
        return Err(Error::Limit { what: "the CPU of the NAPI", value: cpu as u64, limit });
    }
    let before = threads(interface);
    // `ip netns exec` mounts the /sys of the namespace; ours shows another one's interfaces.
    let file = format!("/sys/class/net/{interface}/threaded");
    run_with_input(&format!("ip netns exec {namespace} tee {file}"), "1")?;
    let ours: Vec<i32> = threads(interface).difference(&before).copied().collect();
    if ours.len() != usize::from(queues) {
        let (found, wanted) = (ours.len(), usize::from(queues));
        return Err(Error::NapiThreads { found, wanted, interface: interface.into() });
    }
    let Some(cpu) = cpu else { return Ok(()) };
    let mut set = CpuSet::new();
    set.set(cpu);
    for pid in ours.into_iter().filter_map(Pid::from_raw) {
        sched_setaffinity(Some(pid), &set).map_err(|_| Error::Limit {
            what: "the CPU of the NAPI",
            value: cpu as u64,
            limit: "one that exists and is online (`nproc` tells how many)".into(),
        })?;
    }
    Ok(())
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
