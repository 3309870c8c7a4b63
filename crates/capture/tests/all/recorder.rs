//! The recorder over sources of our own: on one disk and several, with and without io_uring, what
//! lies in the files at the end and at every moment before.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common::{Numbered, frames_of, lanes, numbers};
use ringside_capture::config::{DiskOptions, Output, Rotation, RunConfig};
use ringside_capture::run::{Run, RunReport};
use ringside_core::OwnedFrame;
use ringside_store::block;
use ringside_store::recording::{END_BYTES, FileHeader, read_header};
use ringside_store::retention::Policy;
use ringside_testkit::wait_until;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of a ring block, the default of a run.
const BLOCK_BYTES: u64 = 1 << 20;
/// The header page of these files.
const HEADER_BYTES: u64 = 4096;

/// What a test changes of a recording.
#[derive(Default)]
struct Plan {
    rotation: Rotation,
    options: DiskOptions,
    retention: Policy,
}

fn start(paths: &[&Path], sources: Vec<Numbered>, plan: Plan) -> Run {
    let Plan { rotation, options, retention } = plan;
    let paths = paths.iter().map(|path| path.to_path_buf()).collect();
    let output = Output::Directory { paths, rotation, options, retention };
    let (lanes, interfaces) = lanes(sources);
    Run::start(lanes, interfaces, RunConfig { output, ..RunConfig::counting() }).unwrap()
}

fn finish(run: Run) -> RunReport {
    while run.is_running() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let report = run.finish();
    report.ledger.balance().unwrap();
    assert_eq!(report.errors, Vec::<String>::new());
    report
}

fn record(paths: &[&Path], sources: Vec<Numbered>, plan: Plan) -> RunReport {
    finish(start(paths, sources, plan))
}

/// The frames of whole recordings, merged by time.
fn frames_in(paths: &[&Path]) -> Vec<OwnedFrame> {
    let paths: Vec<PathBuf> = paths.iter().map(|path| path.to_path_buf()).collect();
    let mut source = ringside_store::open(&paths).unwrap();
    let mut frames = Vec::new();
    while !source.is_finished() {
        if let Some(batch) = source.next_batch(Duration::ZERO).unwrap() {
            frames.extend(batch.iter().map(|frame| frame.to_owned_frame()));
        }
    }
    frames
}

/// Asserts that the frames of `lane` are 0 to `count`, in order and byte for byte.
fn assert_lane(frames: &[OwnedFrame], lane: u32, count: u64) {
    let mut next = 0;
    for frame in frames.iter().filter(|frame| frame.meta.interface.0 == lane) {
        assert!(frame.bytes == Numbered::bytes(lane, next), "lane {lane}, frame {next}");
        next += 1;
    }
    assert_eq!(next, count, "frames of lane {lane}");
}

/// The files of a recording in `dir`, by name.
fn files_of(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "pcapng")).collect();
    files.sort();
    files
}

fn header_of(path: &Path) -> FileHeader {
    read_header(path).unwrap().unwrap()
}

/// What is in `path` as one moment shows it; `None` if the file changed while it was read.
fn snapshot(path: &Path) -> Option<Vec<u8>> {
    let file = File::open(path).unwrap();
    let state = |file: &File| {
        let data = file.metadata().unwrap();
        (data.len(), data.mtime(), data.mtime_nsec(), data.ctime(), data.ctime_nsec())
    };
    let before = state(&file);
    let mut bytes = vec![0; before.0 as usize];
    file.read_exact_at(&mut bytes, 0).ok()?;
    (state(&file) == before).then_some(bytes)
}

#[test]
fn two_directories_hold_one_recording() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let both = [first.path(), second.path()];
    let sources = vec![Numbered::new(0, 60_000), Numbered::new(1, 30_000)];
    let report = record(&both, sources, Plan::default());
    assert_eq!(report.ledger.consumers[0].delivered, 90_000);
    let frames = frames_in(&both);
    assert_lane(&frames, 0, 60_000);
    assert_lane(&frames, 1, 30_000);
    for dir in both {
        assert_eq!(files_of(dir).len(), 2, "each lane has a file in each directory");
        let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        let locks = names.filter(|name| name.to_str().unwrap().starts_with(".ringside-"));
        assert_eq!(locks.count(), 0, "a run that ended leaves no lock");
    }
}

#[test]
fn every_way_of_writing_gives_the_same_frames_and_sizes() {
    let shared_memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let plain = DiskOptions {
        io_uring: false,
        direct: false,
        write_blocks: Some(1),
        ..DiskOptions::default()
    };
    let ways = [
        (None, DiskOptions::default()),
        (None, DiskOptions { write_blocks: Some(8), ..DiskOptions::default() }),
        (None, DiskOptions { io_uring: false, ..DiskOptions::default() }),
        (None, plain),
        (Some(shared_memory.path()), DiskOptions::default()),
    ];
    for (place, options) in ways {
        let own = tempfile::tempdir().unwrap();
        let dir = place.unwrap_or(own.path());
        let report =
            record(&[dir], vec![Numbered::new(0, 40_000)], Plan { options, ..Plan::default() });
        assert_eq!(report.files.count, 1, "{options:?}");
        let file = &report.files.paths[0];
        assert_lane(&frames_of(file), 0, 40_000);
        let bytes = std::fs::read(file).unwrap();
        assert_eq!(block::whole_bytes(&bytes), bytes.len(), "{options:?}");
        let header = header_of(file);
        let blocks = (bytes.len() as u64 - HEADER_BYTES) / BLOCK_BYTES;
        assert_eq!((header.blocks_complete, header.first_block), (blocks, Some(0)), "{options:?}");
        assert_eq!(header.bytes_max, bytes.len() as u64, "it says that it is finished");
        let allocated = std::fs::metadata(file).unwrap().blocks() * 512;
        assert!(allocated < bytes.len() as u64 + BLOCK_BYTES, "nothing stays reserved");
    }
}

#[test]
fn a_file_ends_exactly_at_its_largest_size() {
    let dir = tempfile::tempdir().unwrap();
    let limit = HEADER_BYTES + 3 * BLOCK_BYTES;
    // What a repair may have to add has its room beyond the ring blocks.
    let rotation = Rotation { bytes: Some(limit + END_BYTES), interval: None };
    let plan = Plan { rotation, ..Plan::default() };
    let report = record(&[dir.path()], vec![Numbered::new(0, 60_000)], plan);
    let (last, others) = report.files.paths.split_last().unwrap();
    assert!(others.len() > 5);
    for file in others {
        assert_eq!(std::fs::metadata(file).unwrap().len(), limit);
        assert_eq!(header_of(file).blocks_complete, 3);
    }
    assert!(std::fs::metadata(last).unwrap().len() <= limit);
    let frames: Vec<u64> = report.files.paths.iter().flat_map(|f| numbers(&frames_of(f))).collect();
    assert!(frames.into_iter().eq(0..60_000), "a frame is missing or out of order");
    let firsts: Vec<_> = report.files.paths.iter().map(|f| header_of(f).first_block).collect();
    let expected: Vec<_> = (0..report.files.count).map(|file| Some(file * 3)).collect();
    assert_eq!(firsts, expected);
}

#[test]
fn a_file_is_whole_at_every_moment() {
    let dir = tempfile::tempdir().unwrap();
    // Some 60 MB within a second or two: quiet writes, their continuation and full blocks.
    let source = Numbered::new(0, 100_000).in_batches(256, Duration::from_millis(5));
    let run = start(&[dir.path()], vec![source], Plan::default());
    let file = files_of(dir.path()).remove(0);
    let (mut looks, mut sizes) = (0, std::collections::BTreeSet::new());
    while run.is_running() {
        let Some(bytes) = snapshot(&file) else { continue };
        let whole = block::whole_bytes(&bytes);
        assert_eq!(whole, bytes.len(), "look {looks}: {whole} bytes are whole");
        looks += 1;
        sizes.insert(bytes.len());
    }
    finish(run);
    assert!(looks > 10 && sizes.len() > 2, "{looks} looks, {} sizes", sizes.len());
    assert_lane(&frames_of(&file), 0, 100_000);
}

#[test]
fn a_quiet_lane_reaches_the_file_and_is_continued() {
    for direct in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let source = Numbered::new(0, 400).in_batches(1, Duration::from_millis(10));
        let options = DiskOptions { direct, ..DiskOptions::default() };
        let run = start(&[dir.path()], vec![source], Plan { options, ..Plan::default() });
        let file = files_of(dir.path()).remove(0);
        let mut seen = 0;
        for _ in 0..3 {
            wait_until("more frames in the file", || {
                let Some(bytes) = snapshot(&file) else { return false };
                let is_whole = block::whole_bytes(&bytes) == bytes.len();
                // Through the page cache the kernel shows the size of a write piece by piece.
                assert!(is_whole || !direct, "a torn end at {} bytes", bytes.len());
                let more = is_whole && block::frame_count(&bytes) > seen;
                seen = seen.max(block::frame_count(&bytes));
                more
            });
            let size = std::fs::metadata(&file).unwrap().len();
            assert!(size < BLOCK_BYTES, "{size} bytes for {seen} frames");
        }
        assert!(run.is_running(), "the frames were there before the end");
        finish(run);
        assert_lane(&frames_of(&file), 0, 400);
        let bytes = std::fs::read(&file).unwrap();
        let last = block::blocks(&bytes).last().unwrap().0;
        assert_eq!(last, 5, "the final statistics end the file, no padding");
    }
}

#[test]
fn an_idle_lane_costs_no_space() {
    let dir = tempfile::tempdir().unwrap();
    let source = Numbered::new(0, 3).in_batches(1, Duration::from_millis(400));
    let report = record(&[dir.path()], vec![source], Plan::default());
    let file = std::fs::metadata(&report.files.paths[0]).unwrap();
    assert!(file.len() < 16_384 && file.blocks() * 512 < 65_536, "{file:?}");
}

#[test]
fn a_rotation_of_a_quiet_lane_costs_what_is_in_it() {
    for direct in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        // Frames all the time, so that each file ends within a ring block.
        let source = Numbered::new(0, 300).in_batches(1, Duration::from_millis(10));
        let options = DiskOptions { direct, ..DiskOptions::default() };
        let run = start(&[dir.path()], vec![source], Plan { options, ..Plan::default() });
        for files in 2..5 {
            let frames = |path: &PathBuf| block::frame_count(&std::fs::read(path).unwrap());
            let newest = || files_of(dir.path()).last().map_or(0, frames);
            wait_until("frames in the last file", || newest() > 0);
            run.rotate();
            wait_until("another file", || files_of(dir.path()).len() >= files);
        }
        run.stop();
        let report = run.finish();
        assert!(report.errors.is_empty(), "{:?}", report.errors);
        assert_lane(&frames_in(&[dir.path()]), 0, report.ledger.taken);
        let mut firsts = Vec::new();
        for path in files_of(dir.path()) {
            let file = std::fs::metadata(&path).unwrap();
            assert!(file.len() < BLOCK_BYTES / 2 && file.blocks() * 512 < BLOCK_BYTES / 2);
            let bytes = std::fs::read(&path).unwrap();
            assert_eq!(block::whole_bytes(&bytes), bytes.len());
            let header = header_of(&path);
            assert_eq!((header.blocks_complete, header.bytes_max), (0, file.len()));
            firsts.push(header.first_block.unwrap());
        }
        assert!(firsts.into_iter().eq(0..report.files.count), "a ring block is missing");
    }
}

#[test]
fn the_oldest_files_go_and_the_limit_holds() {
    let dir = tempfile::tempdir().unwrap();
    let limit = 24 << 20;
    let retention = Policy { limit_bytes: Some(limit), ..Policy::default() };
    // 100 MB through 24 MB, slowly enough for looks.
    let source = Numbered::new(0, 150_000).in_batches(256, Duration::from_millis(3));
    let run = start(&[dir.path()], vec![source], Plan { retention, ..Plan::default() });
    let mut most = 0;
    while run.is_running() {
        let taken = |path: &PathBuf| std::fs::metadata(path).map_or(0, |data| data.blocks() * 512);
        most = most.max(files_of(dir.path()).iter().map(taken).sum());
    }
    let report = finish(run);
    assert!(most <= limit, "{most} bytes of {limit}");
    assert_eq!(report.ledger.consumers[0].delivered, 150_000);
    let frames = numbers(&frames_in(&[dir.path()]));
    let first = *frames.first().unwrap();
    assert!(first > 0, "the oldest went");
    assert!(frames.into_iter().eq(first..150_000), "what is left is the latest, without a gap");
}

#[test]
fn the_same_directory_twice_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let paths = vec![dir.path().to_owned(), dir.path().join(".")];
    let Plan { rotation, options, retention } = Plan::default();
    let output = Output::Directory { paths, rotation, options, retention };
    let (lanes, interfaces) = lanes(vec![Numbered::new(0, 1)]);
    let config = RunConfig { output, ..RunConfig::counting() };
    let error = Run::start(lanes, interfaces, config).err().unwrap().to_string();
    assert!(error.contains("named twice"), "{error}");
}
