//! On a real directory: what is ours, what is not, and histories of several runs.

use super::super::{Directory, Policy, RetentionError, spare_name};
use crate::StoreError;
use crate::block::{BLOCK_HEADER_BYTES, BlockHeader, write_block_header};
use crate::dir::{Dir, Entry};
use crate::pcapng::RINGSIDE_ROOM;
use crate::recording::{END_BYTES, FileHeader, RunLock, SeriesFile, file_name, read_header};
use crate::repair::{Options, repair};
use ringside_core::{FrameNumber, LaneId, Timestamp};
use ringside_sys::clock::Clocks;
use ringside_testkit::{Random, by_run, need_root, number, skip};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const BOOT: [u8; 16] = [3; 16];
const KIB: u64 = 1 << 10;

pub fn limited(limit_bytes: u64) -> Policy {
    Policy { limit_bytes: Some(limit_bytes), ..Policy::default() }
}

pub fn name_of(number: u64) -> String {
    file_name(Timestamp(1_700_000_000_000_000_000), "eth0", LaneId(0), number)
}

/// Makes the file `number` of a run: finished with `size`, or reserved up to `bytes_max`.
pub fn put(
    directory: &Path,
    run: &str,
    number: u64,
    serial: u64,
    size: u64,
    bytes_max: u64,
) -> PathBuf {
    let path = directory.join(name_of(number));
    make(&path, run, number, serial, bytes_max).file().set_len(size).unwrap();
    path
}

fn make(path: &Path, run: &str, number: u64, serial: u64, bytes_max: u64) -> SeriesFile {
    SeriesFile::create(Entry::at(path).unwrap(), &header_of(run, number, serial, bytes_max), &[])
        .unwrap()
}

fn header_of(run: &str, sequence: u64, serial: u64, bytes_max: u64) -> FileHeader {
    let run = run.to_owned();
    FileHeader { run, sequence, serial, bytes_max, boot_id: BOOT, ..FileHeader::default() }
}

pub fn now() -> Clocks {
    Clocks::now(BOOT)
}

pub fn names(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !name.ends_with(".lock")).collect()
}

#[test]
fn the_oldest_by_serial_go_and_not_one_more_than_needed() {
    let folder = tempfile::tempdir().unwrap();
    // The serials run against the names and against the order of creation.
    for number in 0..10 {
        put(folder.path(), "old", number, 100 - number, 64 * KIB, 64 * KIB);
    }
    let mut directory = open(folder.path(), "new", limited(10 * 64 * KIB));
    let reservation = directory.reserve(&spare_name(&name_of(50)), 100 * KIB, now()).unwrap();
    assert_eq!(reservation.serial(), 101);
    let deleted: Vec<_> = reservation.deleted().iter().map(|file| file.serial).collect();
    assert_eq!(deleted, [91, 92]);
    drop(reservation);
    let kept: BTreeSet<String> = (0..8).map(name_of).collect();
    assert_eq!(names(folder.path()), kept);
    let summary = directory.summary();
    assert_eq!((summary.deleted_files, summary.deleted_bytes), (2, 128 * KIB));
    assert_eq!((summary.files, summary.used_bytes), (8, 8 * 64 * KIB + 100 * KIB));
    assert!(directory.sweep(now()).unwrap().is_empty());
    // Numbers go on also when the files that bore them are gone.
    for name in names(folder.path()) {
        std::fs::remove_file(folder.path().join(name)).unwrap();
    }
    let mut later = open(folder.path(), "later", Policy::default());
    assert_eq!(later.reserve(&spare_name(&name_of(1)), 0, now()).unwrap().serial(), 102);
}

#[test]
fn what_is_not_ours_is_neither_counted_nor_touched() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let ours = put(folder.path(), "old", 0, 1, 64 * KIB, 64 * KIB);
    // The name of another file, a name of the user's, a link, a folder, a FIFO, other content.
    std::fs::copy(&ours, path(&name_of(1))).unwrap();
    std::fs::copy(&ours, path("incident.pcapng")).unwrap();
    std::fs::copy(&ours, path(&format!("{}.bak", name_of(0)))).unwrap();
    std::fs::rename(put(folder.path(), "x", 7, 0, 9000, 9000), path("kept.pcapng")).unwrap();
    std::os::unix::fs::symlink(path("kept.pcapng"), path(&name_of(7))).unwrap();
    std::fs::create_dir(path(&name_of(2))).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path(&name_of(3)),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    std::fs::write(path(&name_of(4)), vec![7; 100_000]).unwrap();
    std::fs::write(path(&name_of(5)), b"").unwrap();
    std::fs::write(path(&spare_name(&name_of(6))), b"not ours").unwrap();
    let before = names(folder.path());
    let mut directory = open(folder.path(), "new", limited(64 * KIB));
    directory.reserve(&spare_name(&name_of(9)), 0, now()).unwrap();
    assert_eq!(directory.summary().used_bytes, 64 * KIB);
    assert_eq!(names(folder.path()), before);
    directory.reserve(&spare_name(&name_of(9)), 64 * KIB, now()).unwrap();
    assert_eq!(directory.summary().deleted_files, 1);
    let mut left = before;
    left.remove(&name_of(0));
    assert_eq!(names(folder.path()), left);
    // A name that is taken is reported, and left.
    let taken = directory.reserve(&spare_name(&name_of(6)), 0, now()).unwrap_err();
    assert!(matches!(taken, StoreError::Retention(RetentionError::NameTaken { .. })), "{taken}");
    directory.sweep(now()).unwrap();
    assert_eq!(names(folder.path()), left);
}

#[test]
fn files_of_live_runs_count_in_full_and_stay() {
    let folder = tempfile::tempdir().unwrap();
    let lock = RunLock::create(&Dir::open(folder.path()).unwrap(), "live").unwrap();
    put(folder.path(), "live", 0, 1, 8 * KIB, 8 * KIB);
    put(folder.path(), "live", 1, 2, 8 * KIB, 64 * KIB);
    let spare = folder.path().join(spare_name(&name_of(2)));
    make(&spare, "live", 2, 3, 64 * KIB);
    put(folder.path(), "dead", 9, 4, 8 * KIB, 8 * KIB);
    let mut directory = open(folder.path(), "new", limited(160 * KIB));
    let error = directory.reserve("x", 33 * KIB, now()).unwrap_err().to_string();
    let held = (128 * KIB).to_string();
    assert!(error.contains("run live: 2 files") && error.contains(&held), "{error}");
    assert_eq!(directory.summary().deleted_files, 0, "deleting could not help");
    directory.reserve("x", 32 * KIB, now()).unwrap();
    assert_eq!(directory.summary().deleted_files, 2, "the finished file of the live run, first");
    // The run ends without its end: its spare goes for nothing, its file counts as it is.
    drop(lock);
    directory.reserve("x", 32 * KIB, now()).unwrap();
    assert_eq!(directory.summary().used_bytes, 8 * KIB + END_BYTES + 32 * KIB);
    assert_eq!(directory.summary().deleted_files, 2);
    assert!(!spare.exists());
}

#[test]
fn a_creation_that_was_cut_short_is_cleared_away() {
    let folder = tempfile::tempdir().unwrap();
    let name = spare_name(&name_of(0));
    let path = folder.path().join(&name);
    for has_header in [false, true] {
        let mut killed = open(folder.path(), "killed", limited(64 * KIB));
        let reservation = killed.reserve(&name, 64 * KIB, now()).unwrap();
        let serial = reservation.serial();
        if has_header {
            make(&path, "killed", 0, serial, 64 * KIB);
        } else {
            std::fs::write(&path, b"half a header").unwrap();
        }
        // As a kill: nothing is put in order, and the descriptor is closed.
        let state = std::fs::read(folder.path().join(".ringside.lock")).unwrap();
        drop(reservation);
        std::fs::write(folder.path().join(".ringside.lock"), state).unwrap();
        let mut next = open(folder.path(), "next", limited(64 * KIB));
        assert!(next.reserve(&name, 64 * KIB, now()).unwrap().serial() > serial);
        assert!(!path.exists());
        assert_eq!(next.summary().deleted_files, 0);
    }
}

#[test]
fn a_file_that_cannot_be_deleted_is_named_and_no_younger_one_goes() {
    if !need_root("a_file_that_cannot_be_deleted") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let oldest = put(folder.path(), "old", 0, 1, 64 * KIB, 64 * KIB);
    put(folder.path(), "old", 1, 2, 64 * KIB, 64 * KIB);
    let file = std::fs::File::open(&oldest).unwrap();
    let set = |flags| rustix::fs::ioctl_setflags(&file, flags);
    if set(rustix::fs::IFlags::IMMUTABLE).is_err() {
        return skip("a_file_that_cannot_be_deleted", "no immutable files here");
    }
    let policy =
        Policy { limit_age: Some(std::time::Duration::from_nanos(1)), ..limited(128 * KIB) };
    let mut directory = open(folder.path(), "new", policy);
    let within = directory.reserve("x", 0, now()).map(drop);
    let overdue = directory.summary().overdue.clone();
    let beyond = directory.reserve("x", 1, now()).map(drop);
    set(rustix::fs::IFlags::empty()).unwrap();
    within.unwrap();
    for said in [overdue.unwrap(), beyond.unwrap_err().to_string()] {
        assert!(said.contains(oldest.to_str().unwrap()) && said.contains("permitted"), "{said}");
    }
    assert_eq!(names(folder.path()).len(), 2);
    assert_eq!(directory.sweep(now()).unwrap().len(), 2);
}

#[test]
fn a_lock_file_that_is_removed_or_damaged_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join(".ringside.lock");
    let mut directory = open(folder.path(), "a", Policy::default());
    assert_eq!(directory.reserve("x", 0, now()).unwrap().serial(), 1);
    put(folder.path(), "a", 0, 40, 4 * KIB, 0);
    std::fs::remove_file(&lock).unwrap();
    assert_eq!(directory.reserve("x", 0, now()).unwrap().serial(), 41);
    std::fs::write(&lock, b"\xff".repeat(5000)).unwrap();
    assert_eq!(directory.reserve("x", 0, now()).unwrap().serial(), 41);
    std::fs::write(&lock, r#"{"version":9,"next_serial":1,"creating":null,"recorders":[]}"#)
        .unwrap();
    assert!(directory.reserve("x", 0, now()).unwrap_err().to_string().contains("version 9"));
    // The last number there is: a file from elsewhere, or a damaged header.
    std::fs::remove_file(&lock).unwrap();
    let last = put(folder.path(), "a", 1, u64::MAX, 4 * KIB, 0);
    let error = directory.reserve("x", 0, now()).unwrap_err().to_string();
    assert!(error.contains(last.to_str().unwrap()), "{error}");
}

/// What is there, by a look of its own: bytes of each file by its serial.
fn look(directory: &Path) -> BTreeMap<u64, u64> {
    let ours = names(directory).into_iter().filter_map(|name| {
        let path = directory.join(&name);
        let header = read_header(&path).ok()??;
        let is_named = name.ends_with(&format!("-lane0-{:06}.pcapng", header.sequence));
        let metadata = std::fs::metadata(&path).ok()?;
        let bytes = metadata.len().max(metadata.blocks() * 512);
        is_named.then_some((header.serial, bytes))
    });
    ours.collect()
}

/// One run of a history: files that are reserved, written, mostly finished, and sometimes vanish.
fn record(directory: &Path, run: &str, limit: u64, random: &mut Random, number: &mut u64) {
    let _lock = RunLock::create(&Dir::open(directory).unwrap(), run).unwrap();
    let mut retention = open(directory, run, limited(limit));
    for _ in 0..random.below(12) {
        *number += 1;
        let room = (8 + random.below(60) as u64) * KIB;
        let name = name_of(*number);
        let before = look(directory);
        let reservation = retention.reserve(&name, room, now()).unwrap();
        let deleted: Vec<u64> = reservation.deleted().iter().map(|file| file.serial).collect();
        let oldest: Vec<u64> = before.keys().copied().take(deleted.len()).collect();
        assert_eq!(deleted, oldest);
        let taken: u64 = look(directory).values().sum();
        assert!(taken + room <= limit, "{taken} and {room} of {limit} bytes");
        let last = deleted.last().map_or(limit, |serial| before[serial]);
        assert!(taken + room + last + END_BYTES > limit, "one more than needed");
        let file = make(&directory.join(&name), run, *number, reservation.serial(), room);
        drop(reservation);
        let size = (4 + random.below(room as usize / 1024 - 4) as u64) * KIB;
        file.file().set_len(size).unwrap();
        if random.below(8) > 0 {
            file.set_finished(size).unwrap();
        }
        match random.below(10) {
            0 => std::fs::write(directory.join(format!("foreign-{number}")), b"mine").unwrap(),
            1 => std::fs::remove_file(directory.join(&name)).unwrap(),
            _ => {}
        }
        if retention.summary().used_bytes + 70 * KIB > limit && random.below(2) == 0 {
            // Files that are never finished would come to hold the whole limit.
            break;
        }
    }
}

#[test]
fn histories_on_a_real_directory_delete_in_order_and_keep_the_limit() {
    let first = number("RINGSIDE_HISTORY_SEED").unwrap_or(1);
    for seed in first..first + by_run(60, 300) {
        let result = std::panic::catch_unwind(|| {
            let mut random = Random::new(seed);
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("foreign-0"), b"mine").unwrap();
            let limit = (700 + random.below(600) as u64) * KIB;
            let mut number = 0;
            for run in 0..4 {
                record(folder.path(), &format!("run{run}"), limit, &mut random, &mut number);
            }
            assert_eq!(std::fs::read(folder.path().join("foreign-0")).unwrap(), b"mine");
        });
        if let Err(panic) = result {
            eprintln!("failed with RINGSIDE_HISTORY_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// The directory `folder` for a run.
pub fn open(folder: &Path, run: &str, policy: Policy) -> Directory {
    Directory::open(&Dir::open(folder).unwrap(), run, policy).unwrap()
}

/// Ten files of 64 KiB in memory, the oldest first, and a directory that allows no more.
fn full_of_reusable(folder: &Path) -> Directory {
    for number in 0..10 {
        put(folder, "old", number, 1 + number, 64 * KIB, 64 * KIB);
    }
    open(folder, "new", limited(10 * 64 * KIB)).reusing(true)
}

#[test]
fn a_file_that_goes_becomes_the_one_that_comes() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut directory = full_of_reusable(folder.path());
    let path = |name: &str| folder.path().join(name);
    let inode = |name: &str| path(name).metadata().unwrap().ino();
    for number in 0..3 {
        let (oldest, new) = (name_of(number), spare_name(&name_of(50 + number)));
        let before = inode(&oldest);
        let mut reservation = directory.reserve(&new, 64 * KIB, now()).unwrap();
        let old = reservation.take_reused().unwrap();
        assert_eq!(reservation.deleted()[0].name, oldest, "it counts as deleted");
        assert_eq!(old.entry.path().metadata().unwrap().ino(), before);
        assert!(!path(&oldest).exists() && !path(&new).exists(), "no name that others look for");
        assert!(reservation.take_reused().is_none());
        let header = header_of("new", 50 + number, 20 + number, 64 * KIB);
        let mut series = SeriesFile::reuse(old, &header, &[]).unwrap();
        series.rename(&Entry::at(&path(&new)).unwrap()).unwrap();
        drop(reservation);
        assert_eq!((inode(&new), names(folder.path()).len()), (before, 10));
    }
    // Under a name that others read, nothing old is made new.
    let mut reservation = directory.reserve(&name_of(90), 64 * KIB, now()).unwrap();
    assert!(reservation.take_reused().is_none() && reservation.deleted().len() == 1);
    drop(reservation);
    assert_eq!(directory.summary().deleted_files, 4);
    // A file for reuse is removed if no recorder takes it.
    put(folder.path(), "new", 91, 91, 64 * KIB, 64 * KIB);
    let before = names(folder.path()).len();
    let reservation = directory.reserve(&spare_name(&name_of(92)), 64 * KIB, now()).unwrap();
    assert_eq!(names(folder.path()).len(), before);
    drop(reservation);
    assert_eq!(names(folder.path()).len(), before - 1);
}

#[test]
fn a_file_that_somebody_could_miss_is_not_used_again() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut directory = full_of_reusable(folder.path());
    let path = |name: &str| folder.path().join(name);
    let content = |file: &File| {
        let mut bytes = vec![0; 4096];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    };
    let new = spare_name(&name_of(50));
    let mut taken = |what: &str| {
        let mut reservation = directory.reserve(&new, 64 * KIB, now()).unwrap();
        assert_eq!(reservation.deleted().len(), 1, "{what}");
        assert!(reservation.take_reused().is_none(), "{what}");
        assert!(!path(&new).exists(), "{what}");
        drop(reservation);
        put(folder.path(), "new", 60 + what.len() as u64, 20 + what.len() as u64, 64 * KIB, 0);
    };
    // Someone reads it.
    let reader = File::open(path(&name_of(0))).unwrap();
    let before = content(&reader);
    taken("read");
    assert!(content(&reader) == before, "a reader reads on what it opened");
    // Someone keeps it under another name.
    std::fs::hard_link(path(&name_of(1)), path("kept.pcapng")).unwrap();
    taken("kept!");
    assert_eq!(path("kept.pcapng").metadata().unwrap().len(), 64 * KIB);
    // Everybody may read it, which is not to become true of what comes.
    std::fs::set_permissions(path(&name_of(2)), Permissions::from_mode(0o644)).unwrap();
    taken("public");
    // Its group can read it, or the users that its attributes name.
    std::os::unix::fs::chown(path(&name_of(3)), None, Some(12_345)).unwrap();
    taken("a group");
    let (note, flags) = (c"user.note", rustix::fs::XattrFlags::empty());
    rustix::fs::setxattr(path(&name_of(4)), note, b"mine", flags).unwrap();
    taken("with a note");
    // The one that comes is of another size.
    let mut reservation = directory.reserve(&new, 200 * KIB, now()).unwrap();
    assert!(reservation.take_reused().is_none(), "{:?}", reservation.deleted());
    drop(reservation);
    // Room is what is short, and a file that stays gives none.
    let policy = Policy { min_free: Some(1), ..limited(5 * 64 * KIB) };
    let mut careful = open(folder.path(), "careful", policy).reusing(true);
    let mut reservation = careful.reserve(&new, 64 * KIB, now()).unwrap();
    assert!(reservation.take_reused().is_none() && !reservation.deleted().is_empty());
}

/// Killed after any step of a reuse: repairs, which come first, and who records next leave nothing
/// of it, and nothing comes back.
#[test]
fn a_file_whose_reuse_was_cut_short_is_removed_by_who_comes_next() {
    for step in 0..4 {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        // The lane and the number of the file that comes are those of the one that goes.
        let mut killed = full_of_reusable(folder.path());
        for number in 0..10 {
            let mut block = [0; BLOCK_HEADER_BYTES];
            let (first_frame, opened) = (FrameNumber(number), Timestamp(number));
            write_block_header(&mut block, &BlockHeader { number, first_frame, opened });
            let file = File::options().write(true).open(folder.path().join(name_of(number)));
            file.unwrap().write_all_at(&block, 4096).unwrap();
        }
        let new = spare_name(&name_of(0));
        let mut reservation = killed.reserve(&new, 64 * KIB, now()).unwrap();
        let old = reservation.take_reused().unwrap();
        let header = header_of("new", 0, reservation.serial(), 64 * KIB);
        match step {
            0 => drop(old),
            1 => old.lease.file().write_all_at(&RINGSIDE_ROOM.to_le_bytes(), 4096).unwrap(),
            2 => drop(SeriesFile::reuse(old, &header, &[]).unwrap()),
            _ => {
                let mut series = SeriesFile::reuse(old, &header, &[]).unwrap();
                series.rename(&Entry::at(&folder.path().join(&new)).unwrap()).unwrap();
            }
        }
        // Nothing of the process runs any more: neither the end of the creation nor the unlocking.
        std::mem::forget(reservation);
        drop(killed);
        for run in ["old", "new"] {
            drop(RunLock::create(&Dir::open(folder.path()).unwrap(), run).unwrap());
        }
        let left = names(folder.path()).len();
        repair(&[folder.path().to_owned()], &Options::AT_START).unwrap();
        let limit = limited(10 * 64 * KIB);
        let mut next = open(folder.path(), "next", limit);
        let reservation = next.reserve(&spare_name(&name_of(70)), 0, now()).unwrap();
        assert!(reservation.deleted().is_empty());
        drop(reservation);
        let kept: BTreeSet<String> = (1..10).map(name_of).collect();
        assert_eq!((left, names(folder.path())), (10, kept), "step {step}");
    }
}
