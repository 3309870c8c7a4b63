//! A lane's file over a disk that fails and whose power goes: histories by seed.
//!
//! `RINGSIDE_SEED=N` runs the history N alone.

mod body;
mod disk;
mod file;
mod mount;
mod names;
mod several;

use super::buffer::{PAGE_BYTES, PageBuffer};
use super::file::LaneFile;
use super::folder::lock;
use super::housekeeper::tend;
use body::Crash;
use disk::Disk;
use file::SimulatedFile;
use ringside_core::{Frame, FrameMeta, FrameNumber, InterfaceId, LaneCounters, LaneId};
use ringside_core::{SourceError, SourceInterface, Timestamp};
use ringside_store::block::{self, BlockHeader, Statistics};
use ringside_store::dir::Dir;
use ringside_store::recording::{FileHeader, RunLock, SeriesFile, Storage, file_name, read_header};
use ringside_store::repair::{Options, RunState, repair};
use ringside_testkit::Random;
use rustix::fs::{SeekFrom, seek};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

const BLOCK_BYTES: usize = 512 << 10;
const HEADER_BYTES: u64 = 4096;
const RUN: &str = "20261121T053000Z-1";

/// A lane that is written to its file.
struct History {
    random: Random,
    disk: Disk,
    dir: Dir,
    file: LaneFile<SimulatedFile>,
    buffer: PageBuffer,
    /// The ring block that is being filled, and its bytes in use.
    block: Vec<u8>,
    used: usize,
    /// Ring blocks that were written whole.
    closed: Vec<Vec<u8>>,
    /// Frames made, reported to be in the file, and reported to be synced.
    made: u64,
    kept: u64,
    synced: u64,
}

impl History {
    /// `None` if the file could not be begun.
    fn begin(seed: u64, dir: &Dir) -> Option<History> {
        let mut random = Random::new(seed);
        let fault_in = [0, 10, 30][random.below(3)];
        let disk = Disk::new(random.next_u64(), fault_in, 3 + random.below(60));
        let entry = dir.entry(file_name(Timestamp(0), "eth1", LaneId(0), 0));
        let header =
            FileHeader { run: RUN.into(), block_bytes: BLOCK_BYTES, ..FileHeader::default() };
        let file = disk.create(&entry, random.below(2) == 0).ok()?;
        let interfaces = [SourceInterface::ethernet("eth1")];
        let series = SeriesFile::create_in(file, entry, &header, &interfaces).ok()?;
        let file = LaneFile::new(series, 0, None, true).unwrap();
        let mut history = History {
            random,
            disk,
            dir: dir.clone(),
            file,
            buffer: PageBuffer::new(BLOCK_BYTES + PAGE_BYTES),
            block: Vec::new(),
            used: 0,
            closed: Vec::new(),
            made: 0,
            kept: 0,
            synced: 0,
        };
        history.open_block();
        Some(history)
    }

    fn open_block(&mut self) {
        self.block = vec![0; BLOCK_BYTES];
        let (number, first_frame) = (self.closed.len() as u64, FrameNumber(self.made));
        let header = BlockHeader { number, first_frame, opened: Timestamp(0) };
        self.used = block::write_block_header(&mut self.block, &header);
    }

    fn add_frames(&mut self) {
        for _ in 0..self.random.below(6) {
            let bytes = bytes_of(self.made);
            let meta = FrameMeta {
                timestamp: Timestamp(self.made),
                wire_bytes: bytes.len() as u32,
                ..FrameMeta::default()
            };
            let frame = Frame { bytes: &bytes, meta };
            self.used += block::write_packet_block(&mut self.block[self.used..], &frame, 0);
            self.made += 1;
        }
    }

    /// Runs until the power goes or a write fails.
    fn run(&mut self) {
        while !self.disk.has_crashed() {
            self.add_frames();
            let is_written = match self.random.below(4) {
                0 => self.write_closed(),
                1 | 2 => self.write_open(),
                _ => true,
            };
            self.tend();
            if !is_written {
                break;
            }
        }
        self.finish();
    }

    fn write_open(&mut self) -> bool {
        let part = self.file.copy_part(&self.block[..self.used], &mut self.buffer);
        let written = self.file.write_part(self.closed.len() as u64, part, &self.buffer);
        match written {
            Ok(()) => self.kept = self.made,
            Err((_, frames)) => self.kept += frames,
        }
        self.kept == self.made
    }

    fn write_closed(&mut self) -> bool {
        let counters = LaneCounters { interface: "eth1".into(), ..LaneCounters::default() };
        let (interface, when) = (InterfaceId(0), Timestamp(self.made));
        let statistics =
            Statistics { interface, first_time: Timestamp(0), when, counters: &counters };
        block::close_filled(&mut self.block, self.used, &statistics);
        let number = self.closed.len() as u64;
        let Ok(start) = self.file.begin_write(number, 1) else { return false };
        self.buffer.bytes_mut()[..BLOCK_BYTES].copy_from_slice(&self.block);
        let bytes = &self.buffer.bytes()[..BLOCK_BYTES];
        let handle = self.file.handle().clone();
        let (written, result) = handle.write_counted(&bytes[start.from..], start.offset);
        if result.is_err() {
            let kept = self.file.write_failed(bytes, start.from + written);
            let first = self.made - block::frame_count(&self.block);
            self.kept = self.kept.max(first + block::frame_count(&bytes[..kept]));
            return false;
        }
        self.file.wrote(1);
        self.kept = self.made;
        self.closed.push(std::mem::take(&mut self.block));
        self.open_block();
        true
    }

    /// As the housekeeper does now and then.
    fn tend(&mut self) {
        if self.random.below(3) == 0 {
            let file = &self.file.shared;
            let tended = tend(&self.dir, file);
            if tended.is_ok() && lock(&file.kept).synced == file.end() {
                self.synced = self.kept;
            }
        }
    }

    fn finish(&mut self) {
        let file = &self.file.shared;
        if file.finish(&mut lock(&file.kept)).is_ok() {
            self.synced = self.kept;
        }
    }
}

fn bytes_of(number: u64) -> Vec<u8> {
    let mut bytes = vec![0x5a; 60 + number as usize * 7 % 1455];
    bytes[14..22].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// Numbers of the frames that our reader finds in a file or a directory before what is damaged. Of
/// what was not synced some may be missing in between, and pages of a frame may be lost although
/// its block's ends are there: pcapng has no checksum that would tell.
fn frames_in(path: &Path) -> Vec<u64> {
    let mut source = ringside_store::open(&[path.to_owned()]).unwrap();
    let mut found = Vec::new();
    while !source.is_finished() {
        let batch = match source.next_batch(Duration::from_secs(60)) {
            Ok(Some(batch)) => batch,
            Ok(None) => continue,
            Err(SourceError::Damaged(_)) => break,
            Err(error) => panic!("{error}"),
        };
        for frame in batch.iter() {
            let number = frame.bytes.get(14..).and_then(<[u8]>::first_chunk);
            let number = number.map_or(0, |&bytes| u64::from_be_bytes(bytes));
            if frame.bytes != bytes_of(number) {
                return found;
            }
            assert!(found.last().is_none_or(|&last| last < number), "{number} after {found:?}");
            found.push(number);
        }
    }
    found
}

/// What is not a hole, by offset, and the file's size: most of a file is holes.
fn data_of(path: &Path) -> (u64, Vec<(u64, Vec<u8>)>) {
    let file = std::fs::File::open(path).unwrap();
    let (mut data, mut at) = (Vec::new(), 0);
    while let Ok(from) = seek(&file, SeekFrom::Data(at)) {
        at = seek(&file, SeekFrom::Hole(from)).unwrap();
        let mut bytes = vec![0; (at - from) as usize];
        file.read_exact_at(&mut bytes, from).unwrap();
        data.push((from, bytes));
    }
    (file.metadata().unwrap().len(), data)
}

fn check(history: &History, directory: &Path, crash: Crash) {
    let path = directory.join(history.file.shared.series.entry().name());
    let header = if path.exists() { read_header(&path).unwrap() } else { None };
    let Some(header) = header else {
        assert_eq!(history.synced, 0, "a header page that was synced is there");
        return;
    };
    let file = std::fs::File::open(&path).unwrap();
    let mut there = vec![0; BLOCK_BYTES];
    for (block, at) in history.closed.iter().zip(0..header.blocks_complete) {
        file.read_exact_at(&mut there, HEADER_BYTES + at * BLOCK_BYTES as u64).unwrap();
        assert!(there == *block, "ring block {at} is counted");
    }
    let must = if crash == Crash::Killed { history.kept } else { history.synced };
    let before = frames_in(directory);
    assert!(before.iter().copied().take(must as usize).eq(0..must), "{must} of {before:?}");
    assert!(before.last().is_none_or(|&last| last < history.made), "{before:?}");
    drop(RunLock::create(&Dir::open(directory).unwrap(), RUN).unwrap());
    let report = repair(&[directory.to_owned()], &Options::AT_START).unwrap();
    assert!(report.has(RunState::Repaired), "{report:?}");
    let after = frames_in(directory);
    assert!(before.iter().all(|number| after.contains(number)), "{after:?} of {before:?}");
    let data = data_of(&path);
    let again = repair(&[directory.to_owned()], &Options::IN_FULL).unwrap();
    assert!(again.has(RunState::Clean), "{again:?}");
    assert!(data_of(&path) == data, "a second repair changes nothing");
}

fn run(seed: u64, dir: &Dir) {
    let Some(mut history) = History::begin(seed, dir) else { return };
    history.run();
    let crash = [Crash::Killed, Crash::OnlySynced, Crash::Any][history.random.below(3)];
    let left = tempfile::tempdir_in("/dev/shm").unwrap();
    history.disk.leave(left.path(), crash);
    check(&history, left.path(), crash);
}

#[test]
fn what_was_said_to_be_synced_is_there_after_any_crash() {
    let folder = tempfile::tempdir().unwrap();
    let dir = Dir::open(folder.path()).unwrap();
    each_seed(800, 1_000_000, |seed| run(seed, &dir));
}

/// Runs the histories of the short or the long run, the number that `RINGSIDE_HISTORIES` gives, or
/// the one that `RINGSIDE_SEED` names.
fn each_seed(short: u64, long: u64, mut run: impl FnMut(u64)) {
    let only = ringside_testkit::number("RINGSIDE_SEED");
    let count = ringside_testkit::number("RINGSIDE_HISTORIES");
    let all = 0..count.unwrap_or_else(|| ringside_testkit::by_run(short, long));
    for seed in only.map_or(all, |seed| seed..seed + 1) {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(seed)));
        outcome.unwrap_or_else(|_| panic!("RINGSIDE_SEED={seed} repeats this"));
    }
}
