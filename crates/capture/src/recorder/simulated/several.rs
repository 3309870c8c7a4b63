//! A whole recorder, with its threads, on a disk that fails and whose power goes: files follow each
//! other, are made ready under hidden names, renamed, finished, and deleted for a limit.
//!
//! A seed gives the faults and the load; which thread meets which fault is the scheduler's.

use super::super::tests::{BLOCK_BYTES, Setting, try_prepare};
use super::body::Crash;
use super::disk::Disk;
use super::mount::{mount, mount_in_private};
use super::{bytes_of, data_of, frames_in};
use crate::config::{DiskOptions, Rotation};
use crate::packer::{Packer, Reading};
use ringside_core::{Batch, FrameMeta, FrameSlot, InterfaceId, Timestamp};
use ringside_store::block::{self, BLOCK_HEADER_BYTES};
use ringside_store::recording::{END_BYTES, read_header};
use ringside_store::repair::{Options, RunState, repair};
use ringside_store::retention::Policy;
use ringside_testkit::Random;
use rustix::io::Errno;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const HEADER_BYTES: u64 = 4096;

/// What a history is made of.
#[derive(Debug)]
struct Plan {
    frames: u64,
    rotation: Rotation,
    retention: Policy,
    options: DiskOptions,
    /// One call in this number fails; 0 for none.
    fault_in: usize,
    /// Calls until the power goes.
    calls: usize,
}

impl Plan {
    fn new(random: &mut Random) -> Plan {
        let blocks = 1 + random.below(3) as u64;
        let bytes = HEADER_BYTES + blocks * BLOCK_BYTES as u64 + END_BYTES;
        let limit_bytes = (random.below(3) > 0).then(|| (4 + random.below(3) as u64) * bytes);
        Plan {
            frames: random.below(6_000) as u64,
            rotation: Rotation { bytes: Some(bytes), interval: None },
            retention: Policy { limit_bytes, ..Policy::default() },
            options: DiskOptions {
                write_blocks: Some(1 + random.below(2)),
                io_uring: random.below(2) == 0,
                direct: random.below(2) == 0,
                index: false,
            },
            fault_in: [0, 0, 20, 100][random.below(4)],
            calls: if random.below(4) == 0 { usize::MAX } else { 5 + random.below(200) },
        }
    }
}

/// What the recorder said of a run.
#[derive(Debug)]
struct Outcome {
    delivered: u64,
    deleted_files: u64,
    is_well: bool,
}

/// Records on `directory`; `None` if nothing could be begun.
fn record(plan: &Plan, directory: &Path) -> Option<Outcome> {
    let directories = vec![directory.to_owned()];
    let prepared = try_prepare(directories, plan.rotation, plan.retention, plan.options);
    let Setting { recorder, counts, control, ring } = match prepared {
        Ok(setting) => setting,
        Err(error) => {
            assert!(plan.fault_in > 0 || plan.calls < usize::MAX, "{error}");
            return None;
        }
    };
    let mut packer = Packer::new(ring.writer(0).unwrap(), InterfaceId(0), 0, BLOCK_BYTES);
    let threads = recorder.start().unwrap();
    (0..plan.frames).for_each(|number| put(&mut packer, number));
    packer.finish(&Reading::default());
    let summary = threads.finish(&control).kept;
    let missed: u64 = counts.missed().values().sum();
    assert_eq!(counts.delivered() + missed, plan.frames, "every frame is accounted for");
    let is_well = control.errors().is_empty();
    assert!(!is_well || missed == 0, "frames are missed without a word");
    Some(Outcome { delivered: counts.delivered(), deleted_files: summary.deleted_files, is_well })
}

/// Puts a frame, when there is room for it.
fn put(packer: &mut Packer, number: u64) {
    let bytes = bytes_of(number);
    let wire_bytes = bytes.len() as u32;
    let meta = FrameMeta { timestamp: Timestamp(number), wire_bytes, ..FrameMeta::default() };
    let slots = [FrameSlot::new(0, wire_bytes, meta)];
    while packer.put(&Batch::new(&bytes, &slots), 1, &Reading::default()).taken == 0 {
        std::thread::yield_now();
    }
    packer.publish(Timestamp(0));
}

/// What a crash left of a file.
struct Left {
    path: PathBuf,
    /// Numbers of the frames in its ring blocks that are counted as complete.
    counted: Range<u64>,
    frames: Vec<u64>,
}

/// The recording's files in the order of their names, which is that of their frames; without those
/// whose header page is not there, because it was not synced.
fn paths_in(directory: &Path) -> Vec<PathBuf> {
    let is_begun = |path: &PathBuf| {
        let is_named = path.extension() == Some("pcapng".as_ref());
        is_named && read_header(path).unwrap().is_some()
    };
    let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths.filter(is_begun).collect();
    paths.sort();
    paths
}

fn look(path: PathBuf) -> Left {
    let header = read_header(&path).unwrap().unwrap();
    let file = std::fs::File::open(&path).unwrap();
    let mut counted = None;
    let mut bytes = vec![0; BLOCK_BYTES];
    for at in 0..header.blocks_complete {
        file.read_exact_at(&mut bytes, HEADER_BYTES + at * BLOCK_BYTES as u64).unwrap();
        let found = block::block_header(&bytes[..BLOCK_HEADER_BYTES]);
        let found = found.unwrap_or_else(|| panic!("{path:?}: ring block {at} of {header:?}"));
        assert_eq!(Some(found.number), header.first_block.map(|first| first + at), "{path:?}");
        let range = counted.get_or_insert(found.first_frame.0..found.first_frame.0);
        assert_eq!(found.first_frame.0, range.end, "{path:?}");
        range.end += block::frame_count(&bytes);
    }
    let frames = frames_in(&path);
    let counted = counted.unwrap_or_else(|| frames.first().map_or(0..0, |&first| first..first));
    Left { path, counted, frames }
}

fn check(plan: &Plan, outcome: Option<&Outcome>, directory: &Path, crash: Crash) {
    let files: Vec<_> = paths_in(directory).into_iter().map(look).collect();
    for Left { path, counted, frames } in &files {
        let there = frames.iter().copied().take_while(|number| counted.contains(number));
        assert!(there.eq(counted.clone()), "{path:?}: {counted:?} of {frames:?}");
    }
    let all: Vec<u64> = files.iter().flat_map(|file| file.frames.iter().copied()).collect();
    assert!(all.is_sorted_by(|a, b| a < b), "{all:?}");
    if let Some(limit) = plan.retention.limit_bytes {
        let bytes = files.iter().map(|file| std::fs::metadata(&file.path).unwrap().len());
        assert!(bytes.sum::<u64>() <= limit, "the limit holds");
    }
    if let Some(outcome) = outcome {
        check_delivered(outcome, &all, crash);
    }
    repair_twice(directory, &all);
}

fn check_delivered(outcome: &Outcome, all: &[u64], crash: Crash) {
    let Outcome { delivered, deleted_files, is_well } = *outcome;
    let first = if deleted_files == 0 { 0 } else { all.first().copied().unwrap_or(delivered) };
    let must = first..delivered;
    // A file that cannot be finished is not deleted; others are, although they are newer.
    if is_well || (crash == Crash::Killed && deleted_files == 0) {
        // More than that is there if what was written in vain could not be cut away.
        let there = all.iter().copied().take(must.clone().count());
        assert!(there.eq(must.clone()), "{delivered} of {all:?}");
    }
    assert!(!is_well || all.len() == must.count(), "{delivered} of {all:?}");
}

fn repair_twice(directory: &Path, before: &[u64]) {
    let directories = [directory.to_owned()];
    repair(&directories, &Options::AT_START).unwrap();
    // It looks only at runs that did not end well; a file made ready may be left of others.
    repair(&directories, &Options::IN_FULL).unwrap();
    let paths = paths_in(directory);
    let after: Vec<u64> = paths.iter().flat_map(|path| frames_in(path)).collect();
    assert!(
        before.iter().all(|number| after.binary_search(number).is_ok()),
        "{before:?}, {after:?}"
    );
    let data = || paths.iter().map(|path| data_of(path)).collect::<Vec<_>>();
    let repaired = data();
    let again = repair(&directories, &Options::IN_FULL).unwrap();
    assert!(paths.is_empty() || again.has(RunState::Clean), "{again:?}");
    assert!(data() == repaired, "a second repair changes nothing");
}

/// The kernel says in one of two ways that the file system has gone: its device has, or the
/// connection was ended.
fn unmount(session: fuser::BackgroundSession) {
    if let Err(error) = session.umount_and_join() {
        assert_eq!(error.raw_os_error(), Some(Errno::CONNABORTED.raw_os_error()), "{error}");
    }
}

fn run(seed: u64, directory: &Path) {
    let mut random = Random::new(seed);
    let plan = Plan::new(&mut random);
    let disk = Disk::new(random.next_u64(), plan.fault_in, plan.calls);
    let session = mount(&disk, directory);
    println!("{plan:?}");
    let outcome = record(&plan, directory);
    println!("{outcome:?}");
    unmount(session);
    for crash in [Crash::Killed, Crash::OnlySynced, Crash::Any] {
        let left = tempfile::tempdir_in("/dev/shm").unwrap();
        disk.leave(left.path(), crash);
        println!("{crash:?}");
        check(&plan, outcome.as_ref(), left.path(), crash);
    }
}

#[test]
fn a_recording_of_several_files_keeps_what_it_counted_whatever_fails() {
    let name = "a_recording_of_several_files_keeps_what_it_counted_whatever_fails";
    if !ringside_testkit::need_root(name) {
        return;
    }
    mount_in_private();
    let directory = tempfile::tempdir().unwrap();
    super::each_seed(60, 10_000, |seed| run(seed, directory.path()));
}
