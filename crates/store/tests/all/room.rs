//! Files that are used again: what readers, other programs and a repair find in them at every
//! moment.

use crate::common::recording::*;
use crate::common::{tcpdump, tshark};
use ringside_core::{LaneId, Source, Timestamp};
use ringside_store::dir::{Dir, Entry};
use ringside_store::recording::{
    END_BYTES, FileHeader, Reused, RunLock, SeriesFile, is_room_at, read_header,
};
use ringside_store::repair::{Change, Options, RunState, repair};
use ringside_store::{Condition, FileSource};
use ringside_sys::disk::Lease;
use ringside_sys::file_map::FileMap;
use ringside_testkit::wait_for;
use std::io::Cursor;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Ring blocks of a file.
const PLACES: u64 = 4;
const FILE_BYTES: u64 = HEADER_BYTES as u64 + PLACES * BLOCK_BYTES as u64 + END_BYTES;

/// A full file of another run, used again.
fn reused() -> (TempDir, SeriesFile) {
    let dir = memory_dir();
    let blocks: Vec<_> = (0..PLACES).map(|n| ring_block(n, n * 300..n * 300 + 300, true)).collect();
    let path = write_file(dir.path(), (0, 3), &blocks);
    assert_eq!(frame_numbers(std::slice::from_ref(&path)).0.len(), 1_200);
    let header = FileHeader {
        run: RUN.into(),
        lane: LaneId(0),
        sequence: 7,
        block_bytes: BLOCK_BYTES,
        bytes_max: FILE_BYTES,
        created: Timestamp(START),
        ..FileHeader::default()
    };
    let file = SeriesFile::reuse(old(&path), &header, &interfaces()).unwrap();
    assert_eq!((file.path(), file.room_end()), (&*path, FILE_BYTES - END_BYTES));
    (dir, file)
}

fn old(path: &Path) -> Reused {
    // A program that another test is about to run has all that is open here, until it runs.
    let lease = wait_for("no other process has it open", || Lease::take(file_of(path)).ok());
    let map = FileMap::new(lease.file(), FILE_BYTES as usize).unwrap();
    Reused { lease, map: Some(map), entry: Entry::at(path).unwrap() }
}

fn paths(file: &SeriesFile) -> Vec<PathBuf> {
    vec![file.path().to_owned()]
}

/// Our reader, tshark and tcpdump find these frames, and complain of nothing.
fn holds(file: &SeriesFile, frames: std::ops::Range<u64>) {
    let count = frames.end - frames.start;
    assert_eq!(frame_numbers(&paths(file)), (frames.collect(), Vec::new()));
    let (rows, complaints) = tshark(file.path());
    assert_eq!((rows.len() as u64, complaints.as_str()), (count, ""));
    let (records, complaints) = tcpdump(file.path());
    assert_eq!((records.len() as u64, complaints.as_str()), (count, ""));
}

#[test]
fn a_file_that_is_used_again_holds_nothing_of_before() {
    let (_dir, file) = reused();
    holds(&file, 0..0);
    let header = read_header(file.path()).unwrap().unwrap();
    assert_eq!((header.sequence, header.blocks_complete, header.first_block), (7, 0, None));
    assert!(header.bytes_max > file.path().metadata().unwrap().len(), "it counts as being written");
    let places = (0..PLACES + 1).map(|place| file.block_offset(place));
    let is_room: Vec<bool> = places.map(|at| is_room_at(&file_of(file.path()), at)).collect();
    assert_eq!(is_room, [true, true, true, true, false]);
    let blocks = [ring_block(40, 0..100, true), ring_block(41, 100..180, true)].concat();
    let (written, result) = file.fill_room(&blocks, file.block_offset(0));
    result.unwrap();
    assert_eq!(written, blocks.len());
    holds(&file, 0..180);
    let (_, result) = file.fill_room(&ring_block(42, 180..181, true), file.block_offset(2));
    result.unwrap();
    holds(&file, 0..181);
}

#[test]
fn a_file_of_another_size_is_cut_to_what_is_wanted_of_it() {
    let dir = memory_dir();
    let header = FileHeader { block_bytes: BLOCK_BYTES, ..FileHeader::default() };
    for (there, bytes_max, room) in [
        (3 * BLOCK_BYTES as u64 + 77, FILE_BYTES, 2),
        (9 * BLOCK_BYTES as u64, FILE_BYTES, PLACES),
        (100, FILE_BYTES, 0),
        (9 * BLOCK_BYTES as u64, 0, 0),
    ] {
        let path = dir.path().join(format!("{there}-{bytes_max}"));
        std::fs::write(&path, vec![0xaa; there as usize]).unwrap();
        let header = FileHeader { bytes_max, ..header.clone() };
        let file = SeriesFile::reuse(old(&path), &header, &interfaces()).unwrap();
        assert_eq!(file.room_end(), file.block_offset(room));
        assert_eq!(path.metadata().unwrap().len(), file.room_end());
        assert_eq!(frame_numbers(&[path]), (Vec::new(), Vec::new()));
    }
}

/// A process dies while it writes a ring block over room: readers see nothing of the old frames,
/// nor of half a block.
#[test]
fn a_ring_block_that_was_not_finished_is_room() {
    let new = ring_block(41, 100..200, true);
    for written in [9, 1_000, BLOCK_BYTES - 4, BLOCK_BYTES] {
        let (dir, file) = reused();
        file.fill_room(&ring_block(40, 0..100, true), file.block_offset(0)).1.unwrap();
        let at = file.block_offset(1) + 8;
        file_of(file.path()).write_all_at(&new[8..written], at).unwrap();
        assert_eq!(frame_numbers(&paths(&file)), ((0..100).collect(), Vec::new()), "{written}");

        drop(RunLock::create(&Dir::open(dir.path()).unwrap(), RUN).unwrap());
        let report = repair(&[dir.path().to_owned()], &Options::AT_START).unwrap();
        assert_eq!(report.runs[0].state, RunState::Repaired, "{report:?}");
        let changes = &report.runs[0].files[0].changes;
        let given_back = (PLACES - 1) * BLOCK_BYTES as u64;
        assert!(changes.contains(&Change::Released { bytes: given_back }), "{changes:?}");
        assert!(!changes.iter().any(|change| matches!(change, Change::Cut { .. })), "{changes:?}");
        holds(&file, 0..100);
        let header = read_header(file.path()).unwrap().unwrap();
        let size = file.path().metadata().unwrap().len();
        assert_eq!((header.blocks_complete, header.first_block), (1, Some(40)));
        assert!(size < file.block_offset(1) + END_BYTES && header.bytes_max == size);
        let again = repair(&[dir.path().to_owned()], &Options::IN_FULL).unwrap();
        assert_eq!(again.runs[0].state, RunState::Clean, "{again:?}");
    }
}

/// What is damaged before the room is fixed as in any file; the room is no part of it.
#[test]
fn damage_before_room_is_fixed_and_the_room_given_back() {
    let (dir, file) = reused();
    let blocks = [ring_block(40, 0..100, true), ring_block(41, 100..200, true)].concat();
    file.fill_room(&blocks, file.block_offset(0)).1.unwrap();
    let damaged = file.block_offset(1) + 40 + 4;
    file_of(file.path()).write_all_at(&[0xff; 4], damaged).unwrap();
    repair(&[dir.path().to_owned()], &Options::IN_FULL).unwrap();
    assert_eq!(frame_numbers(&paths(&file)), ((0..100).collect(), Vec::new()));
    let size = file.path().metadata().unwrap().len();
    assert!((file.block_offset(2)..file.block_offset(2) + END_BYTES).contains(&size), "{size}");
    let again = repair(&[dir.path().to_owned()], &Options::IN_FULL).unwrap();
    assert_eq!(again.runs[0].state, RunState::Clean, "{again:?}");
}

/// A copy of a file that was being written may have a ring block behind a place that was room when
/// it was read: a reader ends there, a repair keeps both.
#[test]
fn a_repair_finds_what_lies_behind_room_in_a_copy() {
    let (dir, file) = reused();
    for (place, frames) in [(0, 0..100), (2, 200..300)] {
        let block = ring_block(40 + place, frames, true);
        file.fill_room(&block, file.block_offset(place)).1.unwrap();
    }
    assert_eq!(frame_numbers(&paths(&file)).0, (0..100).collect::<Vec<_>>());
    repair(&[dir.path().to_owned()], &Options::IN_FULL).unwrap();
    let (frames, _) = frame_numbers(&paths(&file));
    assert_eq!(frames, (0..100).chain(200..300).collect::<Vec<_>>());
    assert_eq!(file.path().metadata().unwrap().len(), file.block_offset(3));
    let again = repair(&[dir.path().to_owned()], &Options::IN_FULL).unwrap();
    assert_eq!(again.runs[0].state, RunState::Clean, "{again:?}");
}

/// Files one behind the other in a stream: room in the first does not hide the second.
#[test]
fn room_in_a_stream_is_passed() {
    let (dir, file) = reused();
    file.fill_room(&ring_block(40, 0..100, true), file.block_offset(0)).1.unwrap();
    let second = write_file(dir.path(), (1, 0), &[ring_block(0, 100..200, true)]);
    let stream = [std::fs::read(file.path()).unwrap(), std::fs::read(second).unwrap()].concat();
    let name = Path::new("stream");
    let mut source = FileSource::from_reader(name, Box::new(Cursor::new(stream))).unwrap();
    let mut frames = 0;
    while !source.is_finished() {
        if let Some(batch) = source.next_batch(Duration::from_secs(60)).unwrap() {
            frames += batch.frame_count();
        }
    }
    assert_eq!((frames, source.condition()), (200, &Condition::Complete));
}

/// Somebody cuts the file that is being written: what is written later is there.
#[test]
fn a_file_that_somebody_cut_is_written_on() {
    let (_dir, file) = reused();
    let write = |place, frames| {
        let block = ring_block(40 + place, frames, true);
        file.fill_room(&block, file.block_offset(place)).1.unwrap();
    };
    write(0, 0..100);
    file_of(file.path()).set_len(file.block_offset(1)).unwrap();
    write(1, 100..200);
    write(2, 200..300);
    assert_eq!(frame_numbers(&paths(&file)), ((0..300).collect(), Vec::new()));
}

/// Its recorder cuts the room and writes a part while somebody reads: no frame is damaged.
#[test]
fn a_reader_who_saw_room_does_not_take_its_cut_for_damage() {
    let (_dir, file) = reused();
    file.fill_room(&ring_block(40, 0..100, true), file.block_offset(0)).1.unwrap();
    let mut source = FileSource::open(file.path()).unwrap();
    file.cut(file.block_offset(1)).unwrap();
    let part = ring_block(41, 100..200, false);
    file_of(file.path()).write_all_at(&part[..part.len() / 2], file.block_offset(1)).unwrap();
    while !source.is_finished() {
        source.next_batch(Duration::from_secs(60)).unwrap();
    }
    assert_eq!(source.condition(), &Condition::Complete);
    assert_eq!(source.counters().dropped.values().sum::<u64>(), 0);
}

/// A file made ready over an old one and never used holds no frame, and goes.
#[test]
fn a_spare_file_with_room_is_removed_with_its_run() {
    let (dir, mut file) = reused();
    let name = dir.path().join(".20261121T053000Z-eth1-lane0-000007.pcapng.next");
    file.rename(&Entry::at(&name).unwrap()).unwrap();
    write_file(dir.path(), (0, 6), &[ring_block(9, 0..10, true)]);
    drop(RunLock::create(&Dir::open(dir.path()).unwrap(), RUN).unwrap());
    repair(&[dir.path().to_owned()], &Options::AT_START).unwrap();
    assert!(!name.exists());
    assert_eq!(frame_numbers(&[dir.path().to_owned()]).0, (0..10).collect::<Vec<_>>());
}

/// Room is room only where ring blocks begin in a file of a recording; elsewhere its type is one
/// of many that are passed.
#[test]
fn a_block_of_its_type_elsewhere_ends_nothing() {
    let dir = memory_dir();
    let block = ring_block(0, 0..50, false);
    let mut room = vec![0; 64];
    room[..4].copy_from_slice(&ringside_store::pcapng::RINGSIDE_ROOM.to_le_bytes());
    room[4..8].copy_from_slice(&64u32.to_le_bytes());
    room[60..].copy_from_slice(&64u32.to_le_bytes());
    let more = &ring_block(1, 50..90, false)[40..];
    let path = write_file(dir.path(), (0, 0), &[[&block[..], &room, more].concat()]);
    assert_eq!(frame_numbers(&[path]), ((0..90).collect(), Vec::new()));
}

fn file_of(path: &Path) -> std::fs::File {
    std::fs::File::options().read(true).write(true).open(path).unwrap()
}
