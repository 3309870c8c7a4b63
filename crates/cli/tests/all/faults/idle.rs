//! What a link costs on which next to nothing happens.

use super::support::*;
use crate::common::*;
use ringside_testkit::{by_run, need_root};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Frames of a short and of a long run; between them the link is idle for about `PAUSE`.
const FRAMES: [u64; 2] = [2, 8];
const PAUSE: Duration = Duration::from_millis(2_300);
/// Frames of a day, at one a minute.
const DAY_FRAMES: u64 = 24 * 60;
/// What a day may cost.
const DAY_BYTES_MAX: u64 = 10_000_000;
/// The goals are 1.1 s and 1 % of a core. Timing decides no test: this is far beyond both, and
/// what a wake costs is the machine's (a millisecond where a hypervisor halts idle CPUs).
const LATENCY_MAX: Duration = Duration::from_secs(3);
/// A thread that never sleeps takes more than this, also where others want its CPU.
const CORE_SHARE_MAX: f64 = 0.25;
/// Wakes of all threads together in a second: about 45 of timers, and those of the frames.
const WAKES_PER_SECOND_MAX: f64 = 150.0;
/// Clock ticks of /proc/PID/stat in a second; constant on Linux (USER_HZ).
const TICKS_PER_SECOND: u64 = 100;

/// Bytes that the files of a directory take on the disk, hidden ones included.
fn disk_bytes(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().metadata().unwrap().blocks() * 512).sum()
}

/// Time that a process has used CPUs, all its threads together.
fn cpu_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // Behind the name, which may hold anything: utime and stime are fields 14 and 15.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND)
}

/// Times that threads of a process went to sleep, which is how often they were woken.
fn wakes(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of_task = |task: std::io::Result<std::fs::DirEntry>| {
        // A thread may have ended since its name was read.
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        Some(line.trim().parse::<u64>().unwrap())
    };
    tasks.filter_map(of_task).sum()
}

#[test]
fn an_idle_link_costs_next_to_nothing_and_its_frames_are_soon_in_the_files() {
    if !need_root("an_idle_link_costs_next_to_nothing") {
        return;
    }
    let [short, long] = FRAMES;
    let frames = by_run(short, long);
    let network = Network::up();
    // Temporary directories may be in memory; the build's is on a disk.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let directory = folder.path().join("recording");
    let running = network.capture(&["-i", "rx0", "-w", arg(&directory)]);
    let cpu = || cpu_time(running.pid()) + cpu_time(running.worker_pid());
    let woken = || wakes(running.pid()) + wakes(running.worker_pid());
    let (start, cpu_before, bytes_before) = (Instant::now(), cpu(), disk_bytes(&directory));
    let woken_before = woken();
    let mut latencies = Vec::new();
    for number in 1..=frames {
        std::thread::sleep(PAUSE);
        send(&network, 1_514, 1);
        let sent = Instant::now();
        wait_until("the frame in the file", || {
            assert!(!running.is_over(), "{}", running.stderr_so_far());
            count(std::slice::from_ref(&directory)) >= number
        });
        latencies.push(sent.elapsed());
    }
    let seconds = start.elapsed().as_secs_f64();
    let core_share = (cpu() - cpu_before).as_secs_f64() / seconds;
    let wakes_per_second = woken().saturating_sub(woken_before) as f64 / seconds;
    let while_running = disk_bytes(&directory) - bytes_before;
    running.stop().checked_ledger(frames);
    let at_the_end = disk_bytes(&directory) - bytes_before.min(disk_bytes(&directory));
    assert_eq!(packets_by_wireshark(&files_in(&directory)[0]), frames);
    let latency = *latencies.iter().max().unwrap();
    let day_bytes = while_running.max(at_the_end) * DAY_FRAMES / frames;
    eprintln!(
        "idle: a frame is in the file after {latency:.2?} at most, {:.2} % of a core, \
         {wakes_per_second:.0} wakes a second, {day_bytes} bytes a day",
        100.0 * core_share
    );
    assert!(latency < LATENCY_MAX, "{latencies:?}");
    assert!(wakes_per_second < WAKES_PER_SECOND_MAX, "{wakes_per_second} wakes a second");
    assert!(core_share < CORE_SHARE_MAX, "{core_share} of a core");
    assert!(day_bytes < DAY_BYTES_MAX, "{day_bytes} bytes a day");
}
