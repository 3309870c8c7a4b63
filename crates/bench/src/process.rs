//! CPU time of a process with its threads and descendants, from /proc.

use anyhow::Context;
use std::ops::{AddAssign, Sub};

/// Clock ticks of /proc/PID/stat in a second; constant on Linux (USER_HZ).
const TICKS_PER_SEC: f64 = 100.0;
/// Processes of one tool; a tool that makes more is broken.
const PROCESSES_MAX: usize = 1000;

/// CPU time, in ticks of 10 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuTime {
    user: u64,
    system: u64,
}

impl CpuTime {
    /// In the program's own code and its libraries.
    pub(super) fn user_seconds(self) -> f64 {
        self.user as f64 / TICKS_PER_SEC
    }

    /// In the kernel, for the program.
    pub(super) fn system_seconds(self) -> f64 {
        self.system as f64 / TICKS_PER_SEC
    }

    /// Both, in ticks.
    pub(super) fn ticks(self) -> u64 {
        self.user + self.system
    }
}

impl AddAssign for CpuTime {
    fn add_assign(&mut self, other: CpuTime) {
        self.user += other.user;
        self.system += other.system;
    }
}

impl Sub for CpuTime {
    type Output = CpuTime;

    fn sub(self, earlier: CpuTime) -> CpuTime {
        CpuTime {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }
}

/// Seconds since the system's start in which a CPU was not idle (proc(5), /proc/stat): also those
/// in interrupts and in threads of the kernel. Time that the host took away is no part of it.
///
/// # Errors
/// There is no such CPU.
pub(super) fn cpu_busy(cpu: usize) -> anyhow::Result<f64> {
    let text = std::fs::read_to_string("/proc/stat")?;
    busy_of(&text, cpu).with_context(|| format!("/proc/stat has no CPU {cpu}"))
}

fn busy_of(text: &str, cpu: usize) -> Option<f64> {
    let name = format!("cpu{cpu}");
    let line = text.lines().find(|line| line.split(' ').next() == Some(&name))?;
    let fields: Vec<u64> = line.split(' ').skip(1).filter_map(|word| word.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, …
    let busy = fields.get(..3)?.iter().chain(fields.get(5..7)?);
    Some(busy.sum::<u64>() as f64 / TICKS_PER_SEC)
}

/// CPU time of `pid`: its threads, its living descendants and theirs, and the children that were
/// waited for.
///
/// # Errors
/// The process is gone. Descendants that end meanwhile are left out.
pub(super) fn cpu_time(pid: u32) -> anyhow::Result<CpuTime> {
    let mut total = of_process(pid).with_context(|| format!("process {pid} is gone"))?;
    let mut waiting = children(pid);
    for _ in 0..PROCESSES_MAX {
        let Some(child) = waiting.pop() else { break };
        total += of_process(child).unwrap_or_default();
        waiting.extend(children(child));
    }
    Ok(total)
}

fn of_process(pid: u32) -> Option<CpuTime> {
    parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Fields 14 to 17 of /proc/PID/stat (proc(5)): user and system time of all threads, and of the
/// children that were waited for.
fn parse(stat: &str) -> Option<CpuTime> {
    // The name in parentheses may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut ticks = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    let mut next = || ticks.next()?.ok();
    let (user, system) = (next()?, next()?);
    let (children_user, children_system) = (next()?, next()?);
    Some(CpuTime { user: user + children_user, system: system + children_system })
}

/// The children that each thread of `pid` started.
fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let of_thread = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()
    };
    threads.flatten().flat_map(of_thread).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_busy_unless_it_is_idle_or_waits_for_a_disk() {
        let text =
            "cpu  9 9 9 9 9 9 9 9 9 9\ncpu1 100 20 30 4000 5 6 7 8 0 0\ncpu11 1 1 1 1 1 1 1 1 1 1";
        assert_eq!(busy_of(text, 1), Some(1.63));
        assert_eq!(busy_of(text, 11), Some(0.05));
        assert_eq!(busy_of(text, 2), None);
    }
    use std::process::{Command, Stdio};

    #[test]
    fn the_fields_are_found_behind_any_name() {
        let stat = "71 (a) b) R 1 71 71 0 -1 4194304 9 8 7 6 100 20 3 4 20 0 5 0 77 88";
        assert_eq!(parse(stat), Some(CpuTime { user: 103, system: 24 }));
        for wrong in ["", "71 (a", "71 (a) R 1 71", "71 (a) R 1 71 71 0 -1 4194304 9 8 7 6 x 2 3 4"]
        {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_work_of_a_grandchild_counts() {
        // It works until it reads a line, so that the wait for its ticks decides nothing.
        let line = "sh -c 'while :; do :; done' & worker=$!; read end; kill $worker; wait";
        let mut child = Command::new("sh")
            .args(["-c", line])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let start = std::time::Instant::now();
        while cpu_time(child.id()).unwrap().ticks() < 5 {
            assert!(start.elapsed().as_secs() < 60, "no work was seen");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(cpu_time(child.id()).is_err());
    }
}
