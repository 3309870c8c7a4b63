//! kill -9 at random points at full rate: of the worker, of the worker and its keeper.
//!
//! `RINGSIDE_KILLS` says how many of the first; of the second it is a fifth. `make crashes` runs
//! 1,000 and 200.

use crate::common::chaos::{full_rate, kill, kills, random};
use crate::common::*;
use ringside_core::ledger::total;
use ringside_core::{Cause, Ledger};
use ringside_store::block::{block_header, blocks, frame_count};
use ringside_store::recording::read_header;
use ringside_store::{Condition, Notice};
use ringside_testkit::{Random, huge_pages_lock, need_root};
use ringside_transmit::Stamp;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Kills of the worker unless the environment says otherwise: what a run of all tests can afford.
const KILLS: [u64; 2] = [10, 1_000];
/// Latest kill after the capture listens: the ring has gone round more than once by then.
const KILL_AFTER_MAX_US: usize = 250_000;
/// A small ring, which is full at times at this rate, in huge pages that are a knob to put back.
const RING: [&str; 6] =
    ["--ring-size", "16MiB", "--huge-pages", "--write-blocks", "2", "--no-control"];

/// Waits for a random time, which spreads over everything that a recorder does.
fn random_wait(random: &mut Random) {
    std::thread::sleep(Duration::from_micros(random.below(KILL_AFTER_MAX_US) as u64));
}

fn huge_pages() -> u64 {
    std::fs::read_to_string("/proc/sys/vm/nr_hugepages").unwrap().trim().parse().unwrap()
}

/// Waits until the system has `pages` huge pages again: those of a run that was killed with its
/// keeper go back at the next start, which may be another program's.
fn given_back(pages: u64) {
    wait_until(&format!("{pages} huge pages again"), || huge_pages() == pages);
}

fn recorded_files(directory: &Path) -> Vec<PathBuf> {
    let files = files_in(directory).into_iter();
    files.filter(|path| path.extension().is_some_and(|end| end == "pcapng")).collect()
}

/// Frames in a directory; each stream's in order, for losses leave gaps but turn nothing round.
fn frames_in_order(directory: &Path) -> u64 {
    let (frames, notices) = ordered_frames(directory);
    assert!(notices.is_empty(), "{notices:?}");
    frames
}

/// The same, and what the reader has to tell.
fn ordered_frames(directory: &Path) -> (u64, Vec<Notice>) {
    let mut last = BTreeMap::new();
    let mut frames = 0;
    let notices = for_each_frame(&[directory.to_owned()], |frame, _| {
        let stamp = Stamp::read(frame.bytes).unwrap();
        let before = last.insert(stamp.stream, stamp.sequence);
        assert!(before.is_none_or(|before| before < stamp.sequence), "{before:?} {stamp:?}");
        frames += 1;
    });
    (frames, notices)
}

/// Number and frames of each ring block that lies in the files from its start to its end.
fn complete_blocks(directory: &Path) -> BTreeMap<u64, u64> {
    let mut found = BTreeMap::new();
    for path in recorded_files(directory) {
        let Ok(Some(header)) = read_header(&path) else { continue };
        let bytes = std::fs::read(&path).unwrap();
        // The header page or pages end where the first ring block's own header begins.
        let starts = (4096..bytes.len()).step_by(4096);
        let Some(first) = starts.into_iter().find(|&at| block_header(&bytes[at..]).is_some())
        else {
            continue;
        };
        for block in bytes[first..].chunks_exact(header.block_bytes) {
            let Some(of) = block_header(block) else { continue };
            let whole: usize = blocks(block).map(|(_, block)| block.len()).sum();
            if whole == block.len() {
                found.insert(of.number, frame_count(block));
            }
        }
    }
    found
}

fn nothing_to_repair(directory: &Path) {
    let outcome = run_ringside(&["repair", "--dry-run", arg(directory)]);
    assert_eq!(outcome.code(), Some(0), "{} {}", outcome.text(), outcome.stderr);
}

/// Everything that was committed to the ring is in the files, and the ledger is closed.
fn check_closed(outcome: &Outcome, directory: &Path) -> Ledger {
    assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
    assert_eq!(outcome.json_lines().last().unwrap()["closed_by"], "keeper", "{}", outcome.stderr);
    let ledger = outcome.ledger();
    assert_eq!(ledger.balance(), Ok(()), "{ledger:?}");
    assert_eq!(ledger.in_flight, Some(0), "{ledger:?}");
    let recorder = &ledger.consumers[0];
    assert_eq!((recorder.delivered, total(&recorder.missed)), (ledger.taken, 0), "{ledger:?}");
    assert_eq!(frames_in_order(directory), recorder.delivered, "{ledger:?}");
    ledger
}

#[test]
fn a_worker_killed_at_any_moment_loses_nothing_that_it_had_committed() {
    if !need_root("a_worker_killed_at_any_moment") {
        return;
    }
    let network = Network::up();
    let sender = full_rate(&network, &[]);
    let mut random = random();
    let (mut frames, mut died_with, mut unknown) = (0, 0, 0);
    for _ in 0..kills(KILLS) {
        let _lock = huge_pages_lock();
        let pages = huge_pages();
        let folder = tempfile::tempdir().unwrap();
        let args = [&["-i", "rx0", "-w", arg(folder.path())], &RING[..]].concat();
        let running = network.capture(&args);
        random_wait(&mut random);
        running.signal_worker(Signal::KILL);
        let outcome = running.finish();
        let ledger = check_closed(&outcome, folder.path());
        assert_eq!(huge_pages(), pages, "{}", outcome.stderr);
        frames += ledger.taken;
        died_with += ledger.dropped.get(&Cause::WorkerDied).copied().unwrap_or_default();
        unknown += u64::from(ledger.received.is_none());
    }
    println!(
        "{} kills of the worker: {frames} frames committed, all in the files; {died_with} were \
         still the kernel's; received unknown in {unknown}",
        kills(KILLS)
    );
    assert_eq!(sender.stop().code(), Some(0));
}

/// In memory the files of a limited recording are written over. Whichever process is killed while
/// that is done, nothing of what was there before is ever taken for what came, and nothing else is
/// lost.
#[test]
fn a_recorder_killed_while_it_uses_files_again_shows_nothing_of_before() {
    if !need_root("a_recorder_killed_while_it_uses_files_again") {
        return;
    }
    let network = Network::up();
    let sender = full_rate(&network, &[]);
    let (mut random, mut reused) = (random(), 0);
    for round in 0..kills(KILLS).div_ceil(2) {
        let _lock = huge_pages_lock();
        let pages = huge_pages();
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let limit = ["-i", "rx0", "-w", arg(folder.path()), "--limit-bytes", "48MiB"];
        let running = network.capture(&[&limit[..], &RING[..]].concat());
        // The limit is reached first.
        wait_until("a file that went", || {
            let files = recorded_files(folder.path());
            !files.is_empty() && files.iter().all(|file| !arg(file).contains("-000000."))
        });
        random_wait(&mut random);
        let worker = running.worker_pid();
        let by_keeper = round % 3 != 0;
        if !by_keeper {
            kill(running.pid());
        }
        kill(worker);
        let outcome = running.finish();
        wait_until("the end of the worker", || !Path::new(&format!("/proc/{worker}")).exists());
        if !by_keeper {
            let repaired = run_ringside(&["repair", arg(folder.path())]);
            assert_eq!(repaired.code(), Some(0), "{}", repaired.stderr);
            assert_eq!(network.capture(&["-i", "rx0", "--no-control"]).stop().code(), Some(0));
        }
        // Who counts them next must not see them go.
        given_back(pages);
        nothing_to_repair(folder.path());
        let (frames, gone) = frames_behind_those_that_went(folder.path());
        assert!(frames > 0 && gone > 0, "{frames} frames, {gone} went");
        reused += gone;
        if by_keeper {
            assert_eq!(outcome.ledger().consumers[0].delivered, frames + gone, "{round}");
        }
    }
    println!("{reused} frames were written over");
    assert_eq!(sender.stop().code(), Some(0));
}

/// Frames in a directory, in order, and how many are missing before the first of them; none is
/// missing between.
fn frames_behind_those_that_went(directory: &Path) -> (u64, u64) {
    let (frames, notices) = ordered_frames(directory);
    let [only] = &notices[..] else { panic!("{notices:?}") };
    match only.condition {
        Condition::Missing { blocks: Some((0, _)), frames: gone, .. } => (frames, gone),
        _ => panic!("{only}"),
    }
}

#[test]
fn what_both_leave_behind_is_repaired_at_the_next_start() {
    if !need_root("what_both_leave_behind") {
        return;
    }
    let network = Network::up();
    let sender = full_rate(&network, &[]);
    let mut random = random();
    let (mut repaired, mut blocks_kept) = (0, 0);
    for round in 0..kills(KILLS).div_ceil(5) {
        let _lock = huge_pages_lock();
        let pages = huge_pages();
        let folder = tempfile::tempdir().unwrap();
        let args = [&["-i", "rx0", "-w", arg(folder.path())], &RING[..]].concat();
        let running = network.capture(&args);
        random_wait(&mut random);
        let (keeper, worker) = (running.pid(), running.worker_pid());
        for pid in if round % 2 == 0 { [keeper, worker] } else { [worker, keeper] } {
            // The keeper may have seen its worker's end and be finishing; then it dies at that.
            kill(pid);
        }
        running.finish();
        wait_until("the end of the worker", || !Path::new(&format!("/proc/{worker}")).exists());
        let before = complete_blocks(folder.path());

        let next =
            network.capture(&["-i", "rx0", "-w", arg(folder.path()), "-c", "1", "--no-control"]);
        let said = next.finish();
        assert_eq!(said.code(), Some(0), "{}", said.stderr);
        repaired += u64::from(said.stderr.contains("repaired"));
        given_back(pages);
        let after = complete_blocks(folder.path());
        for (number, frames) in &before {
            assert!(after.get(number) >= Some(frames), "block {number}: {frames}, {after:?}");
        }
        blocks_kept += before.len();
        nothing_to_repair(folder.path());
        for_each_frame(&[folder.path().to_owned()], |frame, _| {
            assert!(Stamp::read(frame.bytes).is_some());
        });
    }
    println!("{repaired} recordings repaired, {blocks_kept} complete blocks all there");
    assert!(repaired > 0);
    assert_eq!(sender.stop().code(), Some(0));
}
