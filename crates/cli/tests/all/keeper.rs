//! Deaths: kill -9 of the worker, of its keeper, of both.
//!
//! In every case the files hold what the ledger says, to the frame, open in other programs, and
//! settings of the system are as before. No test depends on how fast it runs.

use crate::common::wireshark::packets_by_wireshark;
use crate::common::*;
use ringside_core::{Cause, Ledger};
use ringside_sys::mmap::Mapping;
use ringside_testkit::{by_run, huge_pages_lock, need_root};
use ringside_transmit::Stamp;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Frames that keep coming until they are stopped.
fn sender(network: &Network) -> Running {
    let mut sender = Command::new(ringside());
    sender.args(["lab", "send", "--name", network.name(), "--size", "400"]);
    sender.args(["--rate", "50000", "--for", "60s"]);
    Running::start(sender)
}

/// A sender of which frames have come.
fn sender_at_work(network: &Network) -> Running {
    let before = network.received();
    let sender = sender(network);
    wait_until("frames", || network.received() > before + 20_000);
    sender
}

/// Waits until frames have come, then kills the worker in the midst of it.
fn kill_under_load(network: &Network, running: Running) -> Outcome {
    let sender = sender_at_work(network);
    running.signal_worker(Signal::KILL);
    let outcome = running.finish();
    assert_eq!(sender.stop().code(), Some(0));
    outcome
}

/// The ledger that the keeper closed.
fn closed_by_keeper(outcome: &Outcome) -> Ledger {
    assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("killed by signal 9 (SIGKILL)"), "{}", outcome.stderr);
    let lines = outcome.json_lines();
    let last = lines.last().unwrap();
    assert_eq!(last["closed_by"], "keeper");
    let ledger = outcome.ledger();
    assert_eq!(ledger.balance(), Ok(()), "{ledger:#?}");
    assert_eq!((ledger.in_flight, ledger.consumers.len()), (Some(0), 1), "{ledger:#?}");
    ledger
}

/// Frames in files, each stream's without a gap from 0.
fn numbered_frames(paths: &[PathBuf]) -> u64 {
    let mut next = BTreeMap::new();
    let mut frames = 0;
    let notices = for_each_frame(paths, |frame, _| {
        let stamp = Stamp::read(frame.bytes).unwrap();
        let expected = next.entry(stamp.stream).or_insert(0);
        assert_eq!(stamp.sequence, *expected, "stream {}", stamp.stream);
        *expected += 1;
        frames += 1;
    });
    assert!(notices.is_empty(), "{notices:?}");
    frames
}

/// No recording in the directory is left unfinished.
fn nothing_to_repair(directory: &Path) {
    let outcome = run_ringside(&["repair", "--dry-run", arg(directory)]);
    assert_eq!(outcome.code(), Some(0), "{} {}", outcome.text(), outcome.stderr);
    let hidden = files_in(directory).into_iter().filter(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with('.') && name != ".ringside.lock"
    });
    assert_eq!(hidden.count(), 0);
}

fn recorded_files(directory: &Path) -> Vec<PathBuf> {
    let files = files_in(directory).into_iter();
    files.filter(|path| path.extension().is_some_and(|end| end == "pcapng")).collect()
}

/// A worker that is stopped, as one that is stuck in the kernel.
#[test]
fn a_worker_that_stands_still_is_reported_and_ended_with_its_ledger() {
    if !need_root("a_worker_that_stands_still") {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let running = network.capture(&["-i", "rx0", "-w", arg(folder.path())]);
    let sender = sender_at_work(&network);
    running.signal_worker(Signal::STOP);
    assert_eq!(sender.stop().code(), Some(0));
    running.wait_for_stderr("the worker has stood still for ");
    running.signal(Signal::INT);
    // Two within a quarter of a second are one order.
    std::thread::sleep(Duration::from_millis(400));
    running.signal(Signal::INT);
    let outcome = running.finish();
    let ledger = closed_by_keeper(&outcome);
    let frames = numbered_frames(&[folder.path().to_owned()]);
    assert_eq!(frames, ledger.consumers[0].delivered, "{ledger:#?}");
    nothing_to_repair(folder.path());
}

#[test]
fn what_a_killed_worker_had_taken_is_in_the_files_to_the_frame() {
    if !need_root("what_a_killed_worker_had_taken") {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
    let cases: [&[&str]; 5] = [
        &[],
        &["-C", "2"],
        &["--queues", "2"],
        &["-w", arg(&two), "-C", "3"],
        &["--limit-bytes", "300MiB", "udp"],
    ];
    for args in by_run(&cases[2..], &cases[..]) {
        let running = network.capture(&[&["-i", "rx0", "-w", arg(&one)], *args].concat());
        let outcome = kill_under_load(&network, running);
        let ledger = closed_by_keeper(&outcome);
        let directories: Vec<PathBuf> =
            [&one, &two].into_iter().filter(|path| path.exists()).cloned().collect();
        let delivered = ledger.consumers[0].delivered;
        assert!(delivered > 1_000, "{args:?}: {ledger:#?}");
        assert_eq!(delivered, ledger.taken, "{args:?}: {ledger:#?}");
        assert_eq!(numbered_frames(&directories), delivered, "{args:?}");
        let files = directories.iter().flat_map(|path| recorded_files(path));
        assert_eq!(
            files.map(|file| packets_by_wireshark(&file)).sum::<u64>(),
            delivered,
            "{args:?}"
        );
        for directory in &directories {
            nothing_to_repair(directory);
            std::fs::remove_dir_all(directory).unwrap();
        }
    }
}

#[test]
fn frames_that_a_filter_turned_away_are_counted_also_by_the_keeper() {
    if !need_root("frames_that_a_filter_turned_away") {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let running = network.capture(&["-i", "rx0", "-w", arg(folder.path()), "tcp"]);
    let ledger = closed_by_keeper(&kill_under_load(&network, running));
    assert_eq!(ledger.received, ledger.filtered);
    assert!(ledger.filtered.unwrap() > 20_000, "{ledger:#?}");
    assert_eq!(ledger.taken, 0);
    nothing_to_repair(folder.path());
}

#[test]
fn a_merged_file_is_cut_to_what_is_whole() {
    if !need_root("a_merged_file_is_cut") {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    for (name, args) in [("a.pcapng", &[][..]), ("a.pcap", &[]), ("b.pcap", &["-C", "2"])] {
        let path = folder.path().join(name);
        let running = network.capture(&[&["-i", "rx0", "-w", arg(&path)], args].concat());
        let ledger = closed_by_keeper(&kill_under_load(&network, running));
        let delivered = ledger.consumers[0].delivered;
        let files = files_in(folder.path());
        let frames: u64 = files.iter().map(|file| packets_by_wireshark(file)).sum();
        assert_eq!(frames, delivered, "{name}: {ledger:#?}");
        files.iter().for_each(|file| std::fs::remove_file(file).unwrap());
    }
}

#[test]
fn a_run_that_only_counts_is_closed_too() {
    if !need_root("a_run_that_only_counts") {
        return;
    }
    let network = Network::up();
    let running = network.capture(&["-i", "rx0"]);
    let ledger = closed_by_keeper(&kill_under_load(&network, running));
    assert!(ledger.received.unwrap() > 20_000, "{ledger:#?}");
    assert_eq!(ledger.consumers[0].delivered, ledger.taken);
    // Other frames than ours may come: what the interface counted is an upper bound.
    assert!(ledger.received.unwrap() <= network.received());
}

#[test]
fn an_idle_run_is_closed_without_a_loss() {
    if !need_root("an_idle_run") {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let running = network.capture(&["-i", "rx0", "-w", arg(folder.path())]);
    let shape =
        ringside_transmit::Shape::new(ringside_transmit::Sizes::fixed(300).unwrap(), 4).unwrap();
    let sent = network.send(ringside_transmit::SenderKind::Live, &shape, 700, Some(20_000));
    // In the ring and, once a second, in the file: frames of an open block.
    wait_until("a page in the file", || {
        let files = recorded_files(folder.path());
        files.iter().any(|file| std::fs::metadata(file).unwrap().len() > 200_000)
    });
    running.signal_worker(Signal::KILL);
    let ledger = closed_by_keeper(&running.finish());
    assert_eq!(ledger.received, Some(sent.handed), "{ledger:#?}");
    assert_eq!(ledger.dropped.get(&Cause::WorkerDied), None, "{ledger:#?}");
    assert_eq!(ledger.consumers[0].delivered, 700);
    assert_eq!(numbered_frames(&[folder.path().to_owned()]), 700);
    nothing_to_repair(folder.path());
}

#[test]
fn when_both_die_the_next_start_repairs() {
    if !need_root("when_both_die") {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let running = network.capture(&["-i", "rx0", "-w", arg(folder.path())]);
    let sender = sender_at_work(&network);
    // The keeper first, and at once the worker, which would end the run in order.
    let worker = running.worker_pid();
    running.signal(Signal::KILL);
    kill(worker);
    let outcome = running.finish();
    assert_eq!(outcome.code(), None);
    assert_eq!(sender.stop().code(), Some(0));
    assert_eq!(run_ringside(&["repair", "--knobs"]).code(), Some(0));
    let left = numbered_frames_of_torn(&recorded_files(folder.path()));

    let next = network.capture(&["-i", "rx0", "-w", arg(folder.path()), "-c", "1"]);
    let said = next.stderr_so_far();
    assert!(said.contains("was not ended: it was repaired"), "{said}");
    next.stop();
    let run = run_ringside(&["repair", arg(folder.path())]);
    assert_eq!(run.code(), Some(0), "{} {}", run.text(), run.stderr);
    nothing_to_repair(folder.path());
    let files = recorded_files(folder.path());
    assert_eq!(packets_by_wireshark(&files[0]), left);
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
}

/// Frames that our reader finds in files that may be torn.
fn numbered_frames_of_torn(paths: &[PathBuf]) -> u64 {
    let mut frames = 0;
    for_each_frame(paths, |_, _| frames += 1);
    frames
}

/// Huge pages of the system.
fn huge_pages() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/vm/nr_hugepages").unwrap();
    text.trim().parse().unwrap()
}

/// Starts of a capture until it has all its huge pages.
const TRIES_MAX: u32 = 10;

/// Memory in all huge pages that are free: where the machine has some set aside, a capture finds
/// none all the same.
fn free_huge_pages_taken() -> Option<Mapping> {
    const FOLDER: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";
    let text = std::fs::read_to_string(format!("{FOLDER}/free_hugepages")).unwrap();
    let pages: usize = text.trim().parse().unwrap();
    (pages > 0).then(|| Mapping::huge(pages << 21).unwrap())
}

#[test]
fn huge_pages_are_given_back_whoever_dies() {
    if !need_root("huge_pages_are_given_back") {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let _lock = huge_pages_lock();
    let before = huge_pages();
    let args = ["-i", "rx0", "--huge-pages", "--ring-size", "16MiB", "-w", arg(folder.path())];
    let (mut taken, mut tries) = (Vec::new(), 0);
    // Another program that had some of the pages set aside may end meanwhile: then this one finds
    // enough, and another is started. Nor has the machine pages together at every moment. Captures
    // of other tests would take pages between their reservation and the ring: none runs next to it.
    let mut start = || loop {
        taken.extend(free_huge_pages_taken());
        let running = network.capture(&args);
        let has_all = !running.stderr_so_far().contains("huge pages");
        if huge_pages() > before && (has_all || tries == TRIES_MAX) {
            assert!(has_all, "{}", running.stderr_so_far());
            return running;
        }
        tries += 1;
        std::fs::write("/proc/sys/vm/compact_memory", "1").unwrap();
        assert_eq!(running.stop().code(), Some(0));
    };

    let running = start();
    assert_eq!(running.stop().code(), Some(0));
    assert_eq!(huge_pages(), before, "an ordinary end");

    let running = start();
    running.signal_worker(Signal::KILL);
    assert_eq!(running.finish().code(), Some(2));
    assert_eq!(huge_pages(), before, "the worker died");

    for both in [false, true] {
        let running = start();
        let worker = running.worker_pid();
        running.signal(Signal::KILL);
        if both {
            kill(worker);
        }
        let path = PathBuf::from(format!("/proc/{worker}"));
        wait_until("the end of the worker", || !path.exists());
        running.finish();
        // No process is left to put them back but the next start, of this test or of another.
        let next = network.capture(&["-i", "rx0"]);
        assert_eq!(next.stop().code(), Some(0));
        let what = format!("the huge pages to be given back, both died: {both}");
        wait_until(&what, || huge_pages() == before);
    }
}

#[test]
fn without_a_keeper_a_run_is_one_process_and_the_next_start_repairs() {
    if !need_root("without_a_keeper") {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let args = ["-i", "rx0", "-w", arg(folder.path()), "--no-keeper"];
    let running = network.capture(&args);
    assert_eq!(running.worker_pid(), 0);
    let sender = sender_at_work(&network);
    running.signal(Signal::KILL);
    assert_eq!(running.finish().code(), None);
    assert_eq!(sender.stop().code(), Some(0));
    let next = network.capture(&args);
    let said = next.stderr_so_far();
    assert!(said.contains("was not ended: it was repaired"), "{said}");
    assert_eq!(next.stop().code(), Some(0));
    nothing_to_repair(folder.path());
}

#[test]
fn what_no_hit_was_near_is_told_from_what_was_lost() {
    if !need_root("what_no_hit_was_near") {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let trigger = ["--on", "tcp", "--before", "0.01s", "--after", "0.01s"];
    let running =
        network.capture(&[&["-i", "rx0", "-w", arg(folder.path())], &trigger[..]].concat());
    let ledger = closed_by_keeper(&kill_under_load(&network, running));
    let consumer = &ledger.consumers[0];
    assert_eq!(consumer.delivered, 0, "{ledger:#?}");
    assert!(consumer.missed[&Cause::OutsideTrigger] > 1_000, "{ledger:#?}");
    nothing_to_repair(folder.path());
}
