//! Time: two lanes whose CPUs or threads stand still, merged into one file. Whatever is not in the
//! order of time is flagged and counted, and nothing is left out.

use crate::common::*;
use ringside_core::Ledger;
use ringside_testkit::{need_root, need_tool, skip};
use ringside_transmit::{Report, SenderKind, SequenceCheck, Shape, Sizes};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Frames of one load.
const LOAD: u64 = 8_000;

/// Frames a second: on a busy machine a CPU's backlog, of 1,000 frames of all its links, is emptied
/// only some ten times a second.
const RATE: u64 = 8_000;

/// A burst, in seconds, and the pause after it: far below the 95 % of a second that the kernel
/// leaves to real-time tasks.
const BURST_AND_PAUSE: [&str; 2] = ["0.1", "0.15"];

/// Two pinned lanes, merged, with rings that hold every load: nothing may be lost.
struct Merged {
    network: Network,
    directory: tempfile::TempDir,
    running: Running,
}

impl Merged {
    fn start() -> Merged {
        let (network, directory) = (Network::up(), tempfile::tempdir().unwrap());
        let [socket, output] = ["control.sock", "merged.pcapng"].map(|n| directory.path().join(n));
        let running = network.capture(&[
            "-i",
            "rx0",
            "--queues",
            "2",
            "--cpus",
            "0,1",
            "--kernel-ring-size",
            "64MiB",
            "--ring-size",
            "256MiB",
            "--control",
            arg(&socket),
            "-w",
            arg(&output),
        ]);
        Merged { network, directory, running }
    }

    /// Sends load number `phase`.
    fn send(&self, phase: u8) -> Report {
        let sent = self.network.send(SenderKind::Live, &shape(phase), LOAD, Some(RATE));
        assert_eq!(sent.handed, LOAD);
        sent
    }

    fn status(&self) -> serde_json::Value {
        let socket = self.directory.path().join("control.sock");
        let outcome = run_ringside(&["control", arg(&socket), "status", "--json"]);
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        outcome.json_lines()[0]["status"].clone()
    }

    fn ledger(&self) -> Ledger {
        serde_json::from_value(self.status()["ledger"].clone()).unwrap()
    }

    /// The ledger once it shows every frame of `loads` loads.
    fn settled(&self, loads: usize) -> Ledger {
        let (sum, mut ledger) = (LOAD * loads as u64, self.ledger());
        wait_until("all frames", || {
            ledger = self.ledger();
            (ledger.taken, ledger.consumers[0].delivered) == (sum, sum)
        });
        ledger
    }

    /// Ends the run; every frame of the loads is in the file, and what is late is flagged. Gives
    /// the number of late frames.
    fn finish(self, loads: &[Report]) -> u64 {
        let outcome = self.running.stop();
        let ledger = outcome.checked_ledger(LOAD * loads.len() as u64);
        assert_eq!(ledger.lost(), 0, "{ledger:#?}");
        assert!(ledger.lanes.iter().all(|lane| lane.taken > LOAD / 10), "{ledger:#?}");
        let late = ledger.consumers[0].late;
        assert_eq!(outcome.stderr.contains("\n  late"), late > 0, "{}", outcome.stderr);
        let flagged = check_file(&self.directory.path().join("merged.pcapng"), loads);
        assert_eq!(flagged, late, "flagged in the file, and counted");
        late
    }
}

fn shape(phase: u8) -> Shape {
    let mut shape = Shape::new(Sizes::fixed(64).unwrap(), 1000).unwrap();
    shape.set_destination([0x02, 0x52, 0x53, 0, 0, phase]);
    shape
}

/// Every frame of the loads is there once, in the order of time unless it is flagged. Gives the
/// number of flagged frames.
fn check_file(merged: &Path, loads: &[Report]) -> u64 {
    let flags = flags(merged);
    let mut checks: Vec<_> = loads.iter().map(|_| SequenceCheck::new(LOAD)).collect();
    let (mut number, mut newest, mut flagged) = (0u64, 0, 0);
    let notices = for_each_frame(&[merged.to_owned()], |frame, _| {
        number += 1;
        checks[usize::from(frame.bytes[5])].note(0, frame.bytes);
        let stamp = frame.meta.timestamp.0;
        match flags.get(&number) {
            Some(late_ns) => assert_eq!((newest - stamp, stamp < newest), (*late_ns, true)),
            None => assert!(stamp >= newest, "frame {number} goes back in time"),
        }
        flagged += u64::from(flags.contains_key(&number));
        newest = newest.max(stamp);
    });
    assert!(notices.is_empty(), "{notices:?}");
    assert_eq!(flagged, flags.len() as u64);
    for (check, load) in checks.iter().zip(loads) {
        let report = check.report(&load.streams);
        let wrong = (report.missing, report.duplicates, report.beyond, report.flow_reordered);
        assert_eq!(wrong, (0, 0, 0, 0), "{report:?}");
    }
    flagged
}

/// By how many nanoseconds which frames are late, as Wireshark shows it.
fn flags(merged: &Path) -> BTreeMap<u64, u64> {
    let fields = ["-T", "fields", "-e", "frame.number", "-e", "frame.comment"];
    let shown =
        run_clean("tshark", &[&["-r", arg(merged), "-Y", "frame.comment"], &fields[..]].concat());
    let parse = |line: &str| {
        let (number, comment) = line.split_once('\t').unwrap();
        let late = comment.strip_prefix("ringside: late by ").unwrap();
        (number.parse().unwrap(), late.strip_suffix(" ns").unwrap().parse().unwrap())
    };
    shown.lines().map(parse).collect()
}

#[test]
fn cpus_that_stand_still_cost_no_frame_and_no_order() {
    let test = "cpus_that_stand_still_cost_no_frame_and_no_order";
    if !need_root(test) || !need_tool(test, "tshark") || !may_stall(test) {
        return;
    }
    let merged = Merged::start();
    let mut loads = vec![merged.send(0)];
    for cpu in ["0", "1"] {
        let stalling = stall(cpu, 4);
        loads.push(merged.send(loads.len() as u8));
        assert_eq!(stalling.finish().code(), Some(0));
    }
    let both = ["0", "1"].map(|cpu| stall(cpu, 4));
    loads.push(merged.send(loads.len() as u8));
    for stalling in both {
        assert_eq!(stalling.finish().code(), Some(0));
    }
    let late = merged.finish(&loads);
    eprintln!("{late} of {} frames were late", LOAD * loads.len() as u64);
}

/// True if this process may run something ahead of all others on two CPUs.
fn may_stall(test: &str) -> bool {
    let possible = ["0", "1"].iter().all(|cpu| stall(cpu, 0).finish().code() == Some(0));
    if !possible {
        skip(test, "needs two CPUs and real-time scheduling");
    }
    possible
}

/// Keeps everything else off a CPU, `bursts` times.
fn stall(cpu: &str, bursts: u32) -> Running {
    const BUSY: &str = "import sys, time
for _ in range(int(sys.argv[1])):
    end = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < end: pass
    time.sleep(float(sys.argv[3]))";
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "30", "taskset", "-c", cpu, "chrt", "-f", "50"]);
    command.args(["python3", "-c", BUSY, &bursts.to_string()]).args(BURST_AND_PAUSE);
    Running::start(command)
}

#[test]
fn a_lane_that_stands_still_for_longer_than_the_merge_waits_delivers_late() {
    let test = "a_lane_that_stands_still_for_longer_than_the_merge_waits_delivers_late";
    if !need_root(test) || !need_tool(test, "tshark") {
        return;
    }
    let Some(freezer) = Freezer::new(test) else { return };
    let merged = Merged::start();
    let mut loads = vec![merged.send(0)];
    for lane in [0, 1] {
        let before = merged.settled(loads.len());
        freezer.freeze(thread(merged.status()["worker_pid"].as_u64().unwrap(), lane));
        loads.push(merged.send(loads.len() as u8));
        // The other lane's frames are in the file while older ones wait for this lane.
        let (mut ledger, other) = (before.clone(), 1 - lane);
        wait_until("frames of the other lane", || {
            ledger = merged.ledger();
            let taken = |ledger: &Ledger| ledger.lanes[other].taken;
            let news = ledger.consumers[0].delivered - before.consumers[0].delivered;
            taken(&ledger) > taken(&before) + LOAD / 10 && news > LOAD / 10
        });
        assert_eq!(ledger.lanes[lane].taken, before.lanes[lane].taken, "it stands still");
        freezer.thaw();
        let after = merged.settled(loads.len());
        let late = [before, after].map(|ledger| ledger.consumers[0].late);
        assert!(late[1] > late[0], "{late:?}");
    }
    loads.push(merged.send(loads.len() as u8));
    let late = merged.finish(&loads);
    eprintln!("{late} of {} frames were late", LOAD * loads.len() as u64);
}

/// The worker of a lane.
fn thread(pid: u64, lane: usize) -> String {
    let is_worker = |path: &PathBuf| {
        std::fs::read_to_string(path.join("comm")).unwrap().trim_end() == format!("lane {lane}")
    };
    let threads = files_in(Path::new(&format!("/proc/{pid}/task")));
    let worker = threads.iter().find(|path| is_worker(path)).unwrap();
    worker.file_name().unwrap().to_str().unwrap().to_owned()
}

/// A group of the cgroup freezer (version 1), which stops single threads; what is in it runs on
/// when it is dropped.
struct Freezer {
    group: PathBuf,
}

impl Freezer {
    fn new(test: &str) -> Option<Freezer> {
        let group = format!("/sys/fs/cgroup/freezer/ringside-{}", std::process::id());
        match std::fs::create_dir(&group) {
            Ok(()) => Some(Freezer { group: group.into() }),
            Err(error) => {
                skip(test, &format!("needs the freezer of cgroup version 1: {error}"));
                None
            }
        }
    }

    fn set(&self, state: &str) {
        let file = self.group.join("freezer.state");
        std::fs::write(&file, state).unwrap();
        wait_until(state, || std::fs::read_to_string(&file).unwrap().trim_end() == state);
    }

    fn freeze(&self, thread: String) {
        std::fs::write(self.group.join("tasks"), thread).unwrap();
        self.set("FROZEN");
    }

    /// Everything in the group runs on, and leaves it.
    fn thaw(&self) {
        self.set("THAWED");
        let tasks = std::fs::read_to_string(self.group.join("tasks")).unwrap();
        for thread in tasks.lines() {
            // It may have ended.
            let _ = std::fs::write("/sys/fs/cgroup/freezer/tasks", thread);
        }
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = std::fs::write(self.group.join("freezer.state"), "THAWED");
        self.thaw();
        let _ = std::fs::remove_dir(&self.group);
    }
}
