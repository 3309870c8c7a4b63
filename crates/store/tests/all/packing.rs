//! Files that are compressed: the same packets, the same limits, whatever is killed in between.

use crate::common::recording::{
    BLOCK_BYTES, HEADER_BYTES, RUN, frame_numbers, memory_dir, ring_block, write_file,
};
use ringside_core::{TimeRange, Timestamp};
use ringside_store::dir::Dir;
use ringside_store::recording::{RunLock, read_header, series_of};
use ringside_store::repair::{Options, repair};
use ringside_store::retention::{Directory, Packed, PackedState, PackingOrder, Policy, spare_name};
use ringside_store::{PartReader, PartStep, Query, content_bytes};
use ringside_sys::clock::Clocks;
use ringside_testkit::need_tool;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const BOOT: [u8; 16] = [3; 16];

/// A lane of three finished files of two ring blocks, the last of which is not full.
fn recording() -> (tempfile::TempDir, Vec<PathBuf>) {
    let dir = memory_dir();
    let blocks = |file: u64| {
        let first = file * 200;
        let is_last = file == 2;
        [
            ring_block(2 * file, first..first + 100, true),
            ring_block(2 * file + 1, first + 100..first + 200, !is_last),
        ]
    };
    let paths: Vec<_> =
        (0..3).map(|file| write_file(dir.path(), (0, file), &blocks(file))).collect();
    // They end, as after a run.
    repair(&[dir.path().to_owned()], &Options::IN_FULL).unwrap();
    (dir, paths)
}

fn open(dir: &Path) -> Directory {
    Directory::open(&Dir::open(dir).unwrap(), "", Policy::default()).unwrap()
}

fn pack_next(dir: &Path) -> Option<Packed> {
    let mut directory = open(dir);
    let now = Clocks::now(BOOT);
    let job = directory.begin_packing(&PackingOrder::default(), now).unwrap()?;
    let packed = job.run(&|| true).unwrap();
    Some(directory.end_packing(job, packed).unwrap())
}

fn pack_all(dir: &Path) -> Vec<Packed> {
    std::iter::from_fn(|| pack_next(dir)).collect()
}

/// Bytes that a file takes.
fn taken(path: &Path) -> u64 {
    let found = path.metadata().unwrap();
    found.len().max(found.blocks() * 512)
}

fn packed_path(path: &Path) -> PathBuf {
    format!("{}.zst", path.display()).into()
}

#[test]
fn what_was_compressed_is_the_same_and_zstd_gives_it_back() {
    let (dir, paths) = recording();
    let before: Vec<_> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    let metadata: Vec<_> = paths.iter().map(|path| path.metadata().unwrap()).collect();
    let frames = frame_numbers(&[dir.path().to_owned()]);
    let packed = pack_all(dir.path());
    assert_eq!(packed.len(), 3);
    assert!(packed.iter().all(|file| file.state == PackedState::Packed), "{packed:?}");
    assert_eq!(frame_numbers(&[dir.path().to_owned()]), frames);
    assert_eq!(frame_numbers(&paths[..1]).0, (0..200).collect::<Vec<_>>(), "by its first name");
    for ((path, bytes), old) in paths.iter().zip(&before).zip(&metadata) {
        assert!(!path.exists());
        let new = packed_path(path).metadata().unwrap();
        let of = |m: &std::fs::Metadata| (m.mtime(), m.mtime_nsec(), m.mode(), m.uid(), m.gid());
        assert_eq!(of(&new), of(old));
        assert!(new.len() < old.len() / 4, "{} of {}", new.len(), old.len());
        let file = File::open(packed_path(path)).unwrap();
        assert_eq!(content_bytes(&file).unwrap(), bytes.len() as u64);
        if need_tool("packing::what_was_compressed_is_the_same", "zstd") {
            let packed = packed_path(path);
            let back = Command::new("zstd").args(["-q", "-d", "-c"]).arg(packed).output().unwrap();
            assert!(back.stdout == *bytes, "{back:?}");
        }
    }
    let header = read_header(&packed_path(&paths[1])).unwrap().unwrap();
    assert_eq!((header.sequence, header.first_block), (1, Some(2)));
}

#[test]
fn parts_lie_where_they_lay_and_are_passed_by() {
    let (dir, paths) = recording();
    let parts = |path: &Path| {
        let mut reader = PartReader::open(path).unwrap();
        let mut parts = Vec::new();
        loop {
            match reader.step() {
                PartStep::Part(part) => parts.push(part),
                PartStep::End => return parts,
                PartStep::Frames(_) | PartStep::Unfit => {}
            }
        }
    };
    let before = parts(&paths[0]);
    assert_eq!(before[1].start, (HEADER_BYTES + BLOCK_BYTES) as u64);
    pack_all(dir.path());
    assert_eq!(parts(&packed_path(&paths[0])), before);
    let from = Timestamp(crate::common::recording::START + 150 * 1000);
    let range = TimeRange { from: Some(from), to: None };
    let mut source = Query { inputs: paths[..1].into(), range }.open().unwrap();
    let mut frames = 0;
    while let Some(batch) = source.next_batch(std::time::Duration::MAX).unwrap() {
        frames += batch.frame_count();
    }
    assert_eq!((frames, source.tally().blocks_passed), (50, 1));
}

#[test]
fn whatever_is_left_of_a_kill_one_whole_copy_is_read() {
    let (dir, paths) = recording();
    let folder = [dir.path().to_owned()];
    let frames = frame_numbers(&folder);
    let mut directory = open(dir.path());
    let job =
        directory.begin_packing(&PackingOrder::default(), Clocks::now(BOOT)).unwrap().unwrap();
    job.run(&|| true).unwrap();
    let draft = dir
        .path()
        .join(spare_name(&packed_path(&paths[0]).file_name().unwrap().display().to_string()));
    let whole = std::fs::read(&draft).unwrap();
    assert_eq!(frame_numbers(&folder), frames, "a draft is not read");
    // Another process sees that somebody works on it, and counts what it may come to take.
    let mut other = open(dir.path());
    other.sweep(Clocks::now(BOOT)).unwrap();
    let sizes: u64 = paths.iter().map(|path| taken(path)).sum();
    assert!(other.summary().used_bytes > sizes + paths[0].metadata().unwrap().len());
    drop(job);
    assert!(!draft.exists(), "who gives up leaves nothing");
    // Killed while it was written: the next look removes it.
    std::fs::write(&draft, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(frame_numbers(&folder), frames);
    other.sweep(Clocks::now(BOOT)).unwrap();
    assert!(!draft.exists() && other.summary().used_bytes == sizes);
    // Killed between the new name and the end of the old one: both are there, and one is read.
    std::fs::write(packed_path(&paths[0]), &whole).unwrap();
    assert_eq!(frame_numbers(&folder), frames);
    assert_eq!(series_of(&folder).unwrap().0[0].files.len(), 3);
    other.sweep(Clocks::now(BOOT)).unwrap();
    let packed = taken(&packed_path(&paths[0]));
    assert_eq!(other.summary().used_bytes, sizes + packed, "the bytes that are there");
    assert_eq!(pack_next(dir.path()).unwrap().state, PackedState::Packed, "it is ended");
    assert!(!paths[0].exists());
    assert_eq!(frame_numbers(&folder), frames);
    // What has the name and is something else stays, and so does what would be compressed.
    std::fs::write(packed_path(&paths[1]), "a user's").unwrap();
    let job =
        directory.begin_packing(&PackingOrder::default(), Clocks::now(BOOT)).unwrap().unwrap();
    let packed = job.run(&|| true).unwrap();
    assert!(directory.end_packing(job, packed).is_err());
    assert!(paths[1].exists());
    assert_eq!(std::fs::read(packed_path(&paths[1])).unwrap(), b"a user's");
}

#[test]
fn what_may_still_be_written_is_left_alone() {
    let dir = memory_dir();
    let finished = write_file(dir.path(), (0, 0), &[ring_block(0, 0..100, true)]);
    repair(&[dir.path().to_owned()], &Options::IN_FULL).unwrap();
    let _open = write_file(dir.path(), (0, 1), &[ring_block(1, 100..200, true)]);
    let folder = Dir::open(dir.path()).unwrap();
    let lock = RunLock::create(&folder, RUN).unwrap();
    let packed = pack_all(dir.path());
    assert_eq!(packed.len(), 1, "of a run that lives, what ended");
    assert!(!finished.exists());
    drop(lock);
    // A run that was killed is repaired first.
    let other = write_file(dir.path(), (1, 0), &[ring_block(0, 0..100, true)]);
    assert!(pack_all(dir.path()).is_empty());
    let report = repair(&[dir.path().to_owned()], &Options::IN_FULL).unwrap();
    let missing: Vec<_> = report.runs[0].lanes.iter().flat_map(|lane| &lane.missing).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(pack_all(dir.path()).len(), 2);
    assert!(!other.exists());
    assert_eq!(frame_numbers(&[dir.path().to_owned()]).0.len(), 300);
}

#[test]
fn what_does_not_become_smaller_stays() {
    let dir = memory_dir();
    let mut random = ringside_testkit::Random::new(2);
    let path = write_file(dir.path(), (0, 0), &[ring_block(0, 0..1, true)]);
    // Padding may hold anything: what was repaired has bytes there.
    let mut bytes = std::fs::read(&path).unwrap();
    let end = bytes.len() - 64;
    let noise = random.bytes(BLOCK_BYTES - 8192);
    let at = end - noise.len();
    bytes[at..end].copy_from_slice(&noise);
    std::fs::write(&path, &bytes).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    repair(&[dir.path().to_owned()], &Options::IN_FULL).unwrap();
    let states: Vec<_> = pack_next(dir.path()).into_iter().map(|file| file.state).collect();
    assert_eq!(states, [PackedState::NotSmaller]);
    assert!(path.exists() && !packed_path(&path).exists());
}
