//! Disks that fill up or fail while direct writes are under way: ext4 on loop devices.

use super::small_disk::need_loop;
use super::support::*;
use crate::common::*;
use ringside_core::{Cause, Ledger};
use ringside_testkit::by_run;
use std::path::{Path, PathBuf};

/// Loads until the smaller of two disks must be full.
const LOADS_MAX: usize = 20;

/// A load that needs some seconds; every disk here ends before it does.
fn load(network: &Network) {
    send(network, 1_514, 100_000);
}

/// What a failed run left at `output`: its files hold exactly what was delivered, from the first
/// frame on, and no program finds fault with them.
fn check_files(disk: &SmallDisk, output: &Path, ledger: &Ledger) -> Vec<PathBuf> {
    let outside = disk.outside(output);
    let files = files_in(&outside);
    let delivered = ledger.consumers[0].delivered;
    assert!(delivered > 0, "{ledger:#?}");
    assert_eq!(files.iter().map(|file| packets_by_wireshark(file)).sum::<u64>(), delivered);
    assert_eq!(contiguous_frames(&outside), delivered);
    files
}

/// The ledger of a run that stopped by itself, for `cause`, with `texts` among what it said.
fn stopped_ledger(outcome: &Outcome, cause: Cause, texts: &[&str]) -> Ledger {
    for text in [&["recording stopped", "stays valid"], texts].concat() {
        assert!(outcome.stderr.contains(text), "{text}: {}", outcome.stderr);
    }
    let ledger = failed_ledger(outcome);
    let causes: Vec<_> = ledger.consumers[0].missed.keys().copied().collect();
    assert_eq!(causes, [cause], "{ledger:#?}");
    ledger
}

#[test]
fn a_full_disk_under_direct_writes_is_named_and_its_files_are_exact() {
    if !need_loop("a_full_disk_under_direct_writes") {
        return;
    }
    let network = Network::up();
    // One file; a series; a file whose largest size is far beyond the disk.
    let cases = [(Some("5MiB"), 3), (Some("100GiB"), 1), (None, 1)];
    for &(limit, files_min) in by_run(&cases[..2], &cases) {
        let disk = SmallDisk::ext4("32M");
        let ballast = disk.outside(&disk.path("ballast"));
        std::fs::write(&ballast, vec![7; 1 << 20]).unwrap();
        let output = disk.path("recording");
        let limit = limit.map_or(vec![], |limit| vec!["-C", limit]);
        let args = [&["-i", "rx0", "-w", arg(&output)], &limit[..]].concat();
        let running = disk.capture(&network, &args);
        load(&network);
        let outcome = running.finish();
        assert!(outcome.stderr.contains("O_DIRECT"), "{}", outcome.stderr);
        let ledger = stopped_ledger(&outcome, Cause::DiskFull, &["No space left on device"]);
        let files = check_files(&disk, &output, &ledger);
        assert!(files.len() >= files_min, "{files:?}");
        assert!(std::fs::read(&ballast).unwrap() == vec![7; 1 << 20]);
    }
}

#[test]
fn one_full_disk_of_two_ends_the_run_and_the_other_takes_what_is_left() {
    if !need_loop("one_full_disk_of_two") {
        return;
    }
    let network = Network::up();
    let disk = SmallDisk::ext4("24M");
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (small, large) = (disk.path("recording"), folder.path().join("recording"));
    let args = ["-i", "rx0", "-w", arg(&small), "-w", arg(&large)];
    let running = disk.capture(&network, &args);
    // The disk that is ready gets the next block: where the small one is slow that is the other.
    for _ in 0..LOADS_MAX {
        if running.is_over() {
            break;
        }
        load(&network);
    }
    let outcome = running.finish();
    let named = format!("cannot write {}", arg(&small));
    let ledger = stopped_ledger(&outcome, Cause::DiskFull, &[&named]);
    let both = [disk.outside(&small), large];
    let files: Vec<PathBuf> = both.iter().flat_map(|directory| files_in(directory)).collect();
    assert_eq!(files.iter().map(|file| packets_by_wireshark(file)).sum::<u64>(), count(&both));
    assert_eq!(count(&both), ledger.consumers[0].delivered);
}

#[test]
fn a_next_file_that_cannot_be_made_is_named_and_the_files_before_are_kept() {
    if !need_loop("a_next_file_that_cannot_be_made") {
        return;
    }
    let network = Network::up();
    // Room, but no inodes: the root, the directory, two locks and two files.
    let disk = SmallDisk::mount("size=256m,nr_inodes=6");
    let output = disk.path("recording");
    let args = ["-i", "rx0", "--no-index", "-C", "2MiB", "-w", arg(&output)];
    let running = disk.capture(&network, &args);
    load(&network);
    let outcome = running.finish();
    let texts = ["cannot create", "No space left on device"];
    let ledger = stopped_ledger(&outcome, Cause::DiskFull, &texts);
    assert_eq!(check_files(&disk, &output, &ledger).len(), 2);
}

#[test]
fn a_device_that_fails_is_named_and_what_was_written_is_kept() {
    if !need_loop("a_device_that_fails") {
        return;
    }
    let network = Network::up();
    for limit in [None, Some("4MiB")] {
        let disk = SmallDisk::breakable_ext4();
        let output = disk.path("recording");
        let limit = limit.map_or(vec![], |limit| vec!["-C", limit]);
        let args = [&["-i", "rx0", "-w", arg(&output)], &limit[..]].concat();
        let running = disk.capture(&network, &args);
        send(&network, 1_514, 10_000);
        wait_until("frames in the files", || count(&[disk.outside(&output)]) >= 8_000);
        disk.break_under();
        load(&network);
        let outcome = running.finish();
        let ledger = stopped_ledger(&outcome, Cause::WriteFailed, &["Input/output error"]);
        // What only the page cache has is not kept.
        for file in files_in(&disk.outside(&output)) {
            let file = std::fs::File::open(file).unwrap();
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        }
        check_files(&disk, &output, &ledger);
    }
}

#[test]
fn a_file_system_that_becomes_read_only_is_named_and_its_files_are_exact() {
    if !need_loop("a_file_system_that_becomes_read_only") {
        return;
    }
    let network = Network::up();
    let disk = SmallDisk::ext4("256M");
    let output = disk.path("recording");
    let running = disk.capture(&network, &["-i", "rx0", "-C", "4MiB", "-w", arg(&output)]);
    send(&network, 1_514, 10_000);
    disk.trip();
    load(&network);
    let outcome = running.finish();
    let ledger = stopped_ledger(&outcome, Cause::WriteFailed, &["Read-only file system"]);
    check_files(&disk, &output, &ledger);
}
