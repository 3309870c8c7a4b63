//! The recorder with queues that fail.

use super::begin::{SECOND_NS, begin_at, begin_from, is_taken};
use super::buffer::PageBuffer;
use super::file::Kept;
use super::housekeeper::reserve;
use super::*;
use crate::packer::{Packer, Reading};
use ringside_core::{Batch, Cause, FrameMeta, FrameSlot, InterfaceId};
use ringside_ring::{Claim, HugePages, RingLayout};
use ringside_store::block;
use ringside_store::dir::{Dir, Entry};
use ringside_store::pcapng::RINGSIDE_ROOM;
use ringside_store::recording::{Reused, SeriesFile};
use ringside_sys::disk::Lease;
use ringside_sys::uring::Completion;
use ringside_testkit::{wait_for, wait_until};
use std::collections::BTreeSet;
use std::fs::DirEntry;
use std::io;
use std::time::Duration;

pub(super) const BLOCK_BYTES: usize = 512 << 10;

/// A queue that writes at once and tells it late, or never.
#[derive(Default)]
pub(super) struct FailingQueue {
    pub(super) completed: VecDeque<Completion<Claim>>,
    /// Waits that are refused; completions are held back until they are over.
    pub(super) refused_waits: u32,
    /// The first submission of a write panics.
    pub(super) panics: bool,
}

impl FailingQueue {
    pub(super) fn submit(&mut self) -> io::Result<()> {
        assert!(!(std::mem::take(&mut self.panics)), "as the test wants it");
        Ok(())
    }

    pub(super) fn next_completion(&mut self) -> Option<Completion<Claim>> {
        if self.refused_waits > 0 { None } else { self.completed.pop_front() }
    }

    pub(super) fn wait(&mut self) -> io::Result<()> {
        if self.refused_waits == 0 {
            return Ok(());
        }
        self.refused_waits -= 1;
        Err(io::Error::from_raw_os_error(12))
    }
}

pub(super) struct Setting {
    pub(super) recorder: Recorder,
    pub(super) counts: Arc<ConsumerCounts>,
    pub(super) control: Arc<Control>,
    pub(super) ring: Arc<CaptureRing>,
}

fn prepare(directories: Vec<PathBuf>, rotation: Rotation) -> Setting {
    let options = DiskOptions { write_blocks: Some(1), io_uring: false, ..DiskOptions::default() };
    try_prepare(directories, rotation, Policy::default(), options).unwrap()
}

/// A recorder of one lane whose ring holds eight blocks.
pub(super) fn try_prepare(
    directories: Vec<PathBuf>,
    rotation: Rotation,
    retention: Policy,
    options: DiskOptions,
) -> Result<Setting, RunError> {
    let layout =
        RingLayout { lanes: 1, blocks_per_lane: 8, block_bytes: BLOCK_BYTES, lossless_readers: 1 };
    let ring = CaptureRing::create(layout, HugePages::No).unwrap();
    let (counts, control) = (Arc::new(ConsumerCounts::default()), Arc::new(Control::new(None)));
    let interface = SourceInterface::ethernet("test0");
    let recorder = Recorder::prepare(RecorderConfig {
        directories,
        rotation,
        options,
        retention,
        lanes: vec!["test0".into()],
        interfaces: vec![interface],
        worker_cpus: &[],
        ring: &ring,
        counts: counts.clone(),
        control: control.clone(),
    });
    Ok(Setting { recorder: recorder?, counts, control, ring })
}

/// Puts `count` frames of 1,000 bytes.
fn put(packer: &mut Packer, count: u64) {
    put_from(packer, 0, count);
}

/// The same, whose stamps count from `first`.
fn put_from(packer: &mut Packer, first: u64, count: u64) {
    let meta = |stamp| FrameMeta { timestamp: Timestamp(stamp), ..FrameMeta::default() };
    let slots: Vec<_> =
        (first..first + count).map(|stamp| FrameSlot::new(0, 1_000, meta(stamp))).collect();
    for slots in slots.chunks(100) {
        let batch = Batch::new(&[0x5a; 1_000], slots);
        assert_eq!(packer.put(&batch, slots.len(), &Reading::default()).taken, 100);
        packer.publish(Timestamp(0));
    }
}

/// Records 1,000 frames of 1,000 bytes through `queue`: two blocks and a part.
fn record_through(queue: FailingQueue) -> (Vec<u8>, Ended) {
    let dir = tempfile::tempdir().unwrap();
    let Setting { mut recorder, counts, control, ring } =
        prepare(vec![dir.path().to_owned()], Rotation::default());
    recorder.writers[0].queue = QueueSetup::Failing(queue);
    let mut packer = Packer::new(ring.writer(0).unwrap(), InterfaceId(0), 0, BLOCK_BYTES);
    put(&mut packer, 1_000);
    packer.finish(&Reading::default());
    let files = recorder.start().unwrap().finish(&control).files;
    let bytes = std::fs::read(&files.paths[0]).unwrap();
    let names = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let has_lock = names
        .filter_map(|name| name.into_string().ok())
        .any(|name| name.starts_with(".ringside-") && name.ends_with(".lock"));
    (bytes, Ended { counts, control, has_lock })
}

/// What is left of a recording that ended.
struct Ended {
    counts: Arc<ConsumerCounts>,
    control: Arc<Control>,
    has_lock: bool,
}

#[test]
fn frames_whose_writes_are_told_late_are_in_the_ledger_and_the_file() {
    let (bytes, end) = record_through(FailingQueue { refused_waits: 1, ..Default::default() });
    let missed = end.counts.missed().get(&Cause::WriteFailed).copied().unwrap_or(0);
    assert!(end.counts.delivered() > 0 && missed > 0);
    assert_eq!(end.counts.delivered() + missed, 1_000, "every frame is accounted for");
    assert_eq!(block::frame_count(&bytes), end.counts.delivered());
    assert_eq!(end.control.errors().len(), 1);
    assert!(!end.has_lock, "the file was finished");
}

#[test]
fn writes_that_are_never_told_are_missed_and_their_file_is_left_to_a_repair() {
    let (bytes, end) =
        record_through(FailingQueue { refused_waits: u32::MAX, ..Default::default() });
    assert_eq!(end.counts.delivered(), 0);
    assert_eq!(end.counts.missed().get(&Cause::WriteFailed), Some(&1_000));
    assert!(block::frame_count(&bytes) > 0, "nothing was cut under the write");
    assert!(end.has_lock, "the lock tells a repair to look");
}

#[test]
fn a_cut_gives_up_what_was_reserved() {
    let dir = tempfile::tempdir().unwrap();
    let mut setting = prepare(vec![dir.path().to_owned()], Rotation::default());
    let writer = &mut setting.recorder.writers[0];
    let file = &mut writer.files[0];
    let mut buffer = PageBuffer::new(BLOCK_BYTES);
    let mut bytes = [0; 100];
    block::write_padding(&mut bytes);
    let part = file.copy_part(&bytes, &mut buffer);
    assert!(file.write_part(0, part, &buffer).is_ok());
    let mut kept = Kept { reserved: 1 << 30, ..Kept::default() };
    reserve(&writer.folder.dir, &file.shared, 0, &mut kept);
    assert_eq!(kept.reserved, 1 << 30, "the padding is still there");
    file.begin_write(0, 1).unwrap();
    reserve(&writer.folder.dir, &file.shared, 0, &mut kept);
    assert_eq!(kept.reserved == 0, file.is_direct(), "only direct writes pad");
}

#[test]
fn a_file_comes_into_use_once_whatever_its_first_write_holds() {
    for blocks in [1, 4] {
        let dir = tempfile::tempdir().unwrap();
        let mut setting = prepare(vec![dir.path().to_owned()], Rotation::default());
        let file = &mut setting.recorder.writers[0].files[0];
        assert!(!file.comes_into_use(), "it is empty");
        file.wrote(blocks);
        assert!(file.comes_into_use(), "{blocks} blocks");
        file.wrote(1);
        assert!(!file.comes_into_use());
    }
}

#[test]
fn a_writer_that_panics_ends_the_run_and_accounts_for_its_frames() {
    let (bytes, end) = record_through(FailingQueue { panics: true, ..Default::default() });
    let missed = end.counts.missed().get(&Cause::WriteFailed).copied().unwrap_or(0);
    assert!(missed > 0);
    assert_eq!(end.counts.delivered() + missed, 1_000, "every frame is accounted for");
    assert_eq!(block::frame_count(&bytes), end.counts.delivered());
    assert!(end.control.is_stopping() && end.control.errors()[0].contains("died"));
}

#[test]
fn two_runs_that_begin_in_one_second_have_names_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let first = prepare(vec![dir.path().to_owned()], Rotation::default());
    let Recorder { shared, .. } = &first.recorder;
    // The second run looked before the first one began, within the same second.
    let start = shared.recording.start.0;
    let start = Timestamp(start - start % SECOND_NS + (start + 1) % SECOND_NS);
    let dirs = [Dir::open(dir.path()).unwrap()];
    let taken = begin_at(start, &shared.recording, &shared.lanes, &dirs, true).err();
    assert!(is_taken(&taken.unwrap()));
    let mut starts = vec![start, start].into_iter();
    let tried = |_: u64| starts.next().unwrap_or(start.saturating_add(SECOND_NS));
    let begun = begin_from(tried, &shared.recording, &shared.lanes, &dirs, true).unwrap();
    assert_eq!(begun.recording.start, start.saturating_add(SECOND_NS));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().filter(is_recording).count(), 2);
}

fn is_recording(entry: &io::Result<DirEntry>) -> bool {
    entry.as_ref().unwrap().path().extension().is_some_and(|end| end == "pcapng")
}

#[test]
fn with_its_period_a_file_ends_also_while_nothing_comes() {
    let dir = tempfile::tempdir().unwrap();
    let rotation = Rotation { bytes: None, interval: Some(Duration::from_secs(3600)) };
    let Setting { recorder, counts, control, ring } = prepare(vec![dir.path().into()], rotation);
    let file = recorder.writers[0].files[0].shared.clone();
    let mut packer = Packer::new(ring.writer(0).unwrap(), InterfaceId(0), 0, BLOCK_BYTES);
    let threads = recorder.start().unwrap();
    put(&mut packer, 500);
    packer.close(&Reading::default());
    wait_until("the frames in the file", || counts.delivered() == 500);
    control.rotate();
    wait_until("the end of the file", || file.has_ended());
    packer.finish(&Reading::default());
    threads.finish(&control);
    assert_eq!(control.errors(), Vec::<String>::new());
}

#[test]
fn sizes_of_files_are_whole_pages() {
    let dir = tempfile::tempdir().unwrap();
    let rotation = Rotation { bytes: Some((4 << 20) + 4_095), interval: None };
    let setting = prepare(vec![dir.path().to_owned()], rotation);
    assert_eq!(setting.recorder.facts().bytes_max, Some(4 << 20));
}

#[test]
fn a_directory_may_not_be_named_twice_and_one_disk_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    std::fs::create_dir(&a).unwrap();
    std::fs::create_dir(&b).unwrap();
    let again = dir.path().join("b/../a");
    assert!(same_disks(&[a.clone(), b.clone(), again]).is_err());
    let notes = same_disks(&[a, b]).unwrap();
    assert_eq!(notes.len(), 1);
    assert!(notes[0].contains("same disk"), "{notes:?}");
}

#[test]
fn sizes_are_told_in_whole_units() {
    assert_eq!(mebibytes(4 << 20), "4 MiB");
    assert_eq!(mebibytes(512 << 10), "512 KiB");
}

/// A recording in memory that keeps to `limit_bytes`, of files of four ring blocks.
fn prepare_limited(directory: &Path, limit_bytes: u64) -> Setting {
    let policy = Policy { limit_bytes: Some(limit_bytes), ..Policy::default() };
    let rotation = Rotation { bytes: Some(4 * BLOCK_BYTES as u64 + 8192), interval: None };
    // What the index thread has open is deleted, not used again.
    let options = DiskOptions {
        write_blocks: Some(1),
        io_uring: false,
        index: false,
        ..DiskOptions::default()
    };
    try_prepare(vec![directory.to_owned()], rotation, policy, options).unwrap()
}

fn old(path: &Path) -> Reused {
    let open = || std::fs::File::options().read(true).write(true).open(path).unwrap();
    // A program that another test is about to run has all that is open here, until it runs.
    let lease = wait_for("nobody else has it open", || Lease::take(open()).ok());
    Reused { lease, map: None, entry: Entry::at(path).unwrap() }
}

/// Stamps of all frames in a directory. That the oldest went, before the look or during it, is all
/// that a reader has to tell.
fn stamps_in(directory: &Path) -> Vec<u64> {
    let mut source = ringside_store::open(&[directory.to_owned()]).unwrap();
    let mut stamps = Vec::new();
    while !source.is_finished() {
        if let Some(batch) = source.next_batch(Duration::from_secs(60)).unwrap() {
            stamps.extend(batch.iter().map(|frame| frame.meta.timestamp.0));
        }
    }
    let notices = source.notices();
    let is_told = |text: String| text.contains("missing") || text.contains("deleted meanwhile");
    assert!(notices.iter().all(|one| is_told(one.to_string())), "{notices:?}");
    stamps
}

#[test]
fn a_recording_in_memory_uses_its_files_again() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let inodes = || {
        let files = std::fs::read_dir(dir.path()).unwrap().filter(is_recording);
        // One may go between the two looks.
        let look = |file: io::Result<DirEntry>| Some(file.unwrap().metadata().ok()?.ino());
        files.filter_map(look).collect::<BTreeSet<_>>()
    };
    let Setting { recorder, counts, control, ring } = prepare_limited(dir.path(), 12 << 20);
    let mut packer = Packer::new(ring.writer(0).unwrap(), InterfaceId(0), 0, BLOCK_BYTES);
    let threads = recorder.start().unwrap();
    let mut seen = BTreeSet::new();
    // 60 MB in whole ring blocks, as fast as they are taken: five times the limit.
    for round in 0..600 {
        put_from(&mut packer, round * 100, 100);
        wait_until("the frames in a file", || counts.delivered() + 1_200 > (round + 1) * 100);
        // What lies there never runs backwards, whatever is being written over.
        if round % 60 == 0 && round > 0 {
            let stamps = stamps_in(dir.path());
            assert!(stamps.is_sorted_by(|a, b| a < b), "round {round}");
        }
        seen.extend(inodes());
        // A file may end with room left.
        if round % 150 == 0 {
            control.rotate();
        }
    }
    // A part of a block on a quiet link, behind which room lay, and the end.
    wait_until("the last frames", || counts.delivered() == 60_000);
    packer.finish(&Reading::default());
    let kept = threads.finish(&control).kept;
    assert_eq!(control.errors(), Vec::<String>::new());
    let stamps = stamps_in(dir.path());
    let first = stamps[0];
    assert_eq!(stamps, (first..60_000).collect::<Vec<_>>(), "{kept:?}");
    assert!(first > 0 && kept.deleted_files > 20, "{kept:?}");
    // Some are found open by the look or not yet finished, and go.
    assert!((seen.len() as u64) < kept.deleted_files / 2, "{} files, {kept:?}", seen.len());
    let sizes = std::fs::read_dir(dir.path()).unwrap().filter(is_recording);
    for file in sizes {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        let mut blocks = block::blocks(&bytes);
        assert!(blocks.all(|(kind, _)| kind != RINGSIDE_ROOM), "what is finished has no room");
    }
}

/// Mappings keep files open: what somebody deletes is free soon, and all is at the end.
#[test]
fn the_memory_of_a_deleted_file_is_given_back() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let Setting { recorder, counts, control, ring } = prepare_limited(dir.path(), 12 << 20);
    let mut packer = Packer::new(ring.writer(0).unwrap(), InterfaceId(0), 0, BLOCK_BYTES);
    let threads = recorder.start().unwrap();
    for round in 0..300 {
        put_from(&mut packer, round * 100, 100);
        wait_until("the frames in a file", || counts.delivered() + 1_200 > (round + 1) * 100);
    }
    let mappings = |end: &str| {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let place = dir.path().to_str().unwrap();
        maps.lines().filter(|line| line.contains(place) && line.ends_with(end)).count()
    };
    wait_until("finished files to be mapped", || mappings(".pcapng") > 2);
    let files = std::fs::read_dir(dir.path()).unwrap().filter(is_recording);
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    // All but the one that is in use. The oldest may go by itself meanwhile.
    for file in &files[..files.len() - 1] {
        let _ = std::fs::remove_file(file);
    }
    wait_until("their memory to be free", || mappings("(deleted)") == 0);
    packer.finish(&Reading::default());
    threads.finish(&control);
    assert_eq!((control.errors(), mappings("")), (Vec::<String>::new(), 0));
}

#[test]
fn room_takes_whole_blocks_and_goes_for_a_part() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut setting = prepare_limited(dir.path(), 12 << 20);
    let writer = &mut setting.recorder.writers[0];
    let bytes = BLOCK_BYTES as u64;
    let path = dir.path().join("old");
    std::fs::write(&path, vec![0x77; 4 * BLOCK_BYTES + 4096]).unwrap();
    let header = setting.recorder.shared.recording.header(LaneId(0), 9);
    let series = SeriesFile::reuse(old(&path), &header, &[]).unwrap();
    let mut file = writer.folder.open(series, 0).unwrap();
    let size = || path.metadata().unwrap().len();
    assert_eq!((file.room_blocks(), size()), (4, 4096 + 4 * bytes));
    let start = file.begin_write(0, 2).unwrap();
    assert!(start.is_room && start.offset == 4096);
    assert_eq!(file.fill_room(&vec![0; 2 * BLOCK_BYTES], start).0, 2 * BLOCK_BYTES);
    file.wrote(2);
    assert_eq!((file.shared.end(), size()), (4096 + 2 * bytes, 4096 + 4 * bytes));
    // More blocks than there is room for are appended like any.
    assert!(!file.begin_write(2, 3).unwrap().is_room);
    assert_eq!(size(), 4096 + 2 * bytes);
    // A part cuts the room before it is written.
    writer.folder.forget(&file.shared);
    drop(file);
    let series = SeriesFile::reuse(old(&path), &header, &[]).unwrap();
    let mut file = writer.folder.open(series, 0).unwrap();
    assert_eq!(size(), 4096 + 2 * bytes);
    let mut buffer = PageBuffer::new(BLOCK_BYTES);
    let mut block = vec![0; BLOCK_BYTES];
    block::write_padding(&mut block);
    for part in [100, BLOCK_BYTES] {
        block::write_padding(&mut block[..part]);
        let part = file.copy_part(&block[..part], &mut buffer);
        assert!(file.write_part(0, part, &buffer).is_ok());
    }
    assert_eq!((file.shared.end(), size()), (4096 + bytes, 4096 + bytes));
    file.shared.settle().unwrap();
}

#[test]
fn an_index_thread_that_is_too_slow_loses_no_frame_and_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let Setting { mut recorder, counts, control, ring } =
        prepare(vec![dir.path().to_owned()], Rotation::default());
    let (open, gate) = std::sync::mpsc::channel();
    recorder.indexer.as_mut().unwrap().gate = Some(gate);
    let mut packer = Packer::new(ring.writer(0).unwrap(), InterfaceId(0), 0, BLOCK_BYTES);
    let threads = recorder.start().unwrap();
    // The ring goes round more than twice.
    for first in (0..10_000).step_by(1_000) {
        put_from(&mut packer, first, 1_000);
        wait_until("room in the ring", || ring.blocks_held(0) < 4);
    }
    packer.finish(&Reading::default());
    drop(open);
    let recorded = threads.finish(&control);
    assert_eq!((counts.delivered(), counts.missed().len()), (10_000, 0));
    assert_eq!(control.errors(), [""; 0]);
    assert_eq!(recorded.indexes, Some(IndexSummary { files: 0, left: 1, bytes: 0 }));
    let path = &recorded.files.paths[0];
    assert_eq!(block::frame_count(&std::fs::read(path).unwrap()), 10_000);
    assert!(!ringside_index::path_of(path).exists());
    // Who reads the file makes it.
    assert_eq!(ringside_index::build(path, &mut |_| true).unwrap().frames, 10_000);
}

#[test]
fn the_end_of_a_run_does_not_wait_for_an_index_thread_that_gets_no_turn() {
    let dir = tempfile::tempdir().unwrap();
    let Setting { recorder, control, ring, .. } =
        prepare(vec![dir.path().to_owned()], Rotation::default());
    let mut packer = Packer::new(ring.writer(0).unwrap(), InterfaceId(0), 0, BLOCK_BYTES);
    let mut threads = recorder.start().unwrap();
    let indexer = threads.indexer.take().unwrap();
    put(&mut packer, 100);
    let work = indexer.work.clone();
    let turn = work.lock().unwrap();
    packer.finish(&Reading::default());
    assert_eq!(threads.finish(&control).files.count, 1);
    let left = indexer.finish(std::time::Duration::ZERO);
    assert_eq!(left, Some(IndexSummary { files: 0, left: 1, bytes: 0 }));
    drop(turn);
}

#[test]
fn every_file_of_a_recorder_that_is_fast_enough_has_its_index() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // Files of two blocks; all frames fit into the ring, so that no thread can be too slow.
    let rotation = Rotation { bytes: Some(3 << 19), interval: None };
    let directories = vec![first.path().to_owned(), second.path().to_owned()];
    let Setting { recorder, counts, control, ring } = prepare(directories, rotation);
    let mut packer = Packer::new(ring.writer(0).unwrap(), InterfaceId(0), 0, BLOCK_BYTES);
    let threads = recorder.start().unwrap();
    put(&mut packer, 3_500);
    packer.finish(&Reading::default());
    let recorded = threads.finish(&control);
    assert_eq!((counts.delivered(), control.errors()), (3_500, vec![]));
    let made = recorded.indexes.unwrap();
    assert_eq!((made.files, made.left), (recorded.files.count, 0));
    let mut frames = 0;
    for path in &recorded.files.paths {
        let ours = std::fs::read(ringside_index::path_of(path)).unwrap();
        frames += ringside_index::build(path, &mut |_| true).unwrap().frames;
        assert!(std::fs::read(ringside_index::path_of(path)).unwrap() == ours, "{path:?}");
    }
    assert_eq!(frames, 3_500);
}
