//! Repair: which runs and files it touches, what it says, and what other programs say after it.

use crate::common::recording::*;
use crate::common::{complaints, tcpdump, tshark};
use pcap_file::pcapng::{Block, PcapNgReader};
use ringside_core::LaneId;
use ringside_store::block::{BLOCK_HEADER_BYTES, block_end};
use ringside_store::dir::Dir;
use ringside_store::recording::{FORMAT_VERSION, RunLock, read_header};
use ringside_store::repair::{
    Change, Depth, Missing, Options, Report, RunReport, RunState, Watch, repair, repair_run,
    repair_watched,
};
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const LOOK: Options = Options { dry_run: true, ..Options::IN_FULL };

/// Two complete ring blocks, and the beginning of a third whose last frame is torn.
fn torn_file(dir: &Path, (lane, sequence): (u16, u64), first: u64) -> PathBuf {
    let blocks = [
        ring_block(first, first * 100..first * 100 + 100, true),
        ring_block(first + 1, first * 100 + 100..first * 100 + 200, true),
        ring_block(first + 2, first * 100 + 200..first * 100 + 210, false),
    ];
    let path = write_file(dir, (lane, sequence), &blocks);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(path.metadata().unwrap().len() - 5).unwrap();
    path
}

fn all_bytes(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.is_file());
    let mut all: Vec<_> = files.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
    all.sort();
    all
}

fn only_run(report: &Report) -> &RunReport {
    assert_eq!(report.runs.len(), 1, "{report:?}");
    &report.runs[0]
}

#[test]
fn a_run_that_is_recorded_is_left_alone_and_a_look_changes_nothing() {
    let dir = memory_dir();
    let dirs = [dir.path().to_owned()];
    torn_file(dir.path(), (0, 0), 0);
    let before = all_bytes(dir.path());
    for options in [LOOK, Options::IN_FULL, Options::AT_START] {
        let lock = RunLock::create(&Dir::open(dir.path()).unwrap(), RUN).unwrap();
        let report = repair(&dirs, &options).unwrap();
        assert_eq!(only_run(&report).state, RunState::Live);
        lock.remove().unwrap();
    }
    let report = repair(&dirs, &LOOK).unwrap();
    assert_eq!(only_run(&report).state, RunState::Broken);
    assert!(!only_run(&report).files[0].changes.is_empty());
    assert!(repair(&dirs, &Options::AT_START).unwrap().runs.is_empty(), "no lock was left");
    assert!(all_bytes(dir.path()) == before);

    let report = repair(&dirs, &Options::IN_FULL).unwrap();
    assert_eq!(only_run(&report).state, RunState::Repaired);
    let names: Vec<_> = all_bytes(dir.path()).into_iter().map(|(path, _)| path).collect();
    assert_eq!(names.len(), 1, "no lock stays: {names:?}");
    assert_eq!(frame_numbers(&names), ((0..209).collect(), Vec::new()));
}

#[test]
fn a_recording_of_version_2_is_read_and_repaired_and_stays_one() {
    let dir = memory_dir();
    let path = dir.path().join("a.pcapng");
    let blocks = [0, 1]
        .map(|number| of_version_2(ring_block(number, number * 100..number * 100 + 100, true)));
    assert!(blocks.iter().all(|block| block_end(block).is_none()));
    let open = ring_block(2, 200..210, false);
    write_file_at(&path, (0, 0), 2, &[&blocks[..], &[open]].concat());
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(path.metadata().unwrap().len() - 5).unwrap();
    let (numbers, notices) = frame_numbers(&[dir.path().to_owned()]);
    assert_eq!((numbers, notices.len()), ((0..209).collect(), 1));
    let report = repair(&[dir.path().to_owned()], &Options::IN_FULL).unwrap();
    assert_eq!(only_run(&report).state, RunState::Repaired);
    let header = read_header(&path).unwrap().unwrap();
    assert_eq!((header.format, header.blocks_complete), (2, 2));
    assert_eq!(frame_numbers(&[dir.path().to_owned()]), ((0..209).collect(), Vec::new()));
}

#[test]
fn a_look_that_takes_too_long_is_reported_and_changes_nothing() {
    let dir = memory_dir();
    let dirs = [dir.path().to_owned()];
    let path = torn_file(dir.path(), (0, 0), 0);
    // A terabyte of which nothing is there.
    OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
    drop(RunLock::create(&Dir::open(dir.path()).unwrap(), RUN).unwrap());
    let reports = RefCell::new(Vec::new());
    let report =
        |path: &Path, _: u64, bytes: u64| reports.borrow_mut().push((path.to_owned(), bytes));
    let watch = Watch { deadline: Some(Instant::now()), report: &report };
    let report = repair_watched(&dirs, &Options::AT_START, &watch).unwrap();
    let run = only_run(&report);
    assert_eq!(run.state, RunState::Failed);
    let error = run.files[0].error.as_ref().unwrap();
    assert!(error.contains("`ringside repair` takes the time"), "{error}");
    assert_eq!(path.metadata().unwrap().len(), 1 << 40);
    assert_eq!(reports.borrow().first(), Some(&(path.clone(), 1 << 40)));
    // With time the hole is passed unread, and is too much to be filled.
    let report = repair(&dirs, &Options::AT_START).unwrap();
    let error = only_run(&report).files[0].error.as_ref().unwrap();
    assert!(error.contains("of its ring blocks are holes"), "{error}");
    assert_eq!(path.metadata().unwrap().len(), 1 << 40);
}

#[test]
fn a_run_that_ended_in_order_needs_nothing() {
    let dir = memory_dir();
    let dirs = [dir.path().to_owned()];
    let path = write_file(dir.path(), (0, 0), &[ring_block(0, 0..100, true)]);
    // As its recorder leaves it: what was reserved is what is there.
    assert_eq!(only_run(&repair(&dirs, &Options::IN_FULL).unwrap()).state, RunState::Repaired);
    let before = all_bytes(dir.path());
    assert_eq!(read_header(&path).unwrap().unwrap().blocks_complete, 1);
    let report = repair(&dirs, &Options::IN_FULL).unwrap();
    let run = only_run(&report);
    assert_eq!((run.state, run.files[0].frames), (RunState::Clean, Some(100)));
    assert_eq!(run.lanes[0].unknown_after_ns, None, "a lane with an end is not marked");
    assert!(all_bytes(dir.path()) == before);
}

#[test]
fn the_holder_of_the_lock_repairs_without_giving_it_up() {
    let dir = memory_dir();
    let lock = RunLock::create(&Dir::open(dir.path()).unwrap(), RUN).unwrap();
    let path = torn_file(dir.path(), (0, 0), 0);
    let run = repair_run(RUN, &[dir.path().to_owned()], Depth::Tail).unwrap();
    assert_eq!((run.state, run.lanes[0].unknown_after_ns.is_some()), (RunState::Repaired, true));
    assert_eq!(frame_numbers(&[path]), ((0..209).collect(), Vec::new()));
    assert!(lock.path().exists());
    let run = repair_run(RUN, &[dir.path().to_owned()], Depth::Whole).unwrap();
    assert_eq!(run.state, RunState::Clean);
}

#[test]
fn files_made_ready_go_or_come_into_their_name_and_foreign_ones_stay() {
    let dir = memory_dir();
    let name = |sequence| format!("20261121T053000Z-eth1-lane0-{sequence:06}.pcapng");
    let path = |name: &str| dir.path().join(name);
    torn_file(dir.path(), (0, 0), 0);
    write_file(dir.path(), (1, 0), &[]);
    write_file(dir.path(), (1, 1), &[]);
    write_file_at(&path(&format!(".{}.next", name(1))), (0, 1), FORMAT_VERSION, &[]);
    write_file_at(
        &path(&format!(".{}.next", name(2))),
        (0, 2),
        FORMAT_VERSION,
        &[ring_block(3, 300..310, true)],
    );
    std::fs::write(path(&format!(".{}.next", name(3))), b"").unwrap();
    // Not ours: by content, by name, by kind.
    std::fs::write(path("notes.txt"), b"notes").unwrap();
    std::fs::write(path("other.pcapng"), b"no capture").unwrap();
    std::fs::write(path(".ringside.lock"), b"").unwrap();
    let elsewhere = memory_dir();
    let target = torn_file(elsewhere.path(), (0, 7), 50);
    let outside = std::fs::read(&target).unwrap();
    std::os::unix::fs::symlink(&target, path("link.pcapng")).unwrap();
    let fifo = Command::new("mkfifo").arg(path("fifo.pcapng")).status();
    assert!(fifo.unwrap().success());
    drop(RunLock::create(&Dir::open(dir.path()).unwrap(), RUN).unwrap());

    let report = repair(&[dir.path().to_owned()], &Options::AT_START).unwrap();
    let run = only_run(&report);
    assert_eq!(run.state, RunState::Repaired, "{report:?}");
    let removed = |path: &Path| {
        run.files.iter().any(|file| file.path == path && file.changes == [Change::Removed])
    };
    for sequence in [1, 3] {
        assert!(removed(&path(&format!(".{}.next", name(sequence)))), "{sequence}: {report:?}");
    }
    assert!(path(&name(2)).exists(), "what has frames comes into its name");
    let mut left: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    let empty_lane = "20261121T053000Z-eth1-lane1-000000.pcapng";
    let expected = [
        ".ringside.lock",
        &name(0),
        &name(2),
        empty_lane,
        "fifo.pcapng",
        "link.pcapng",
        "notes.txt",
        "other.pcapng",
    ];
    assert_eq!(left, expected, "the first file of a lane stays, the lock goes");
    assert!(std::fs::read(&target).unwrap() == outside);
    assert_eq!(std::fs::read(path("other.pcapng")).unwrap(), b"no capture");
    assert_eq!(run.lanes.len(), 2);
    assert!(run.lanes.iter().all(|lane| lane.unknown_after_ns.is_some()));
}

#[test]
fn a_lane_in_two_directories_is_marked_once_and_its_gaps_have_numbers() {
    let root = memory_dir();
    let dirs = [root.path().join("a"), root.path().join("b")];
    dirs.iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
    let block = |number: u64, closed| ring_block(number, number * 10..number * 10 + 10, closed);
    let first = [block(0, true), block(1, true), block(6, false)];
    let paths = [
        write_file(&dirs[0], (0, 0), &first),
        write_file(&dirs[1], (0, 1), &[block(2, true), block(5, true), block(7, false)]),
    ];
    for path in &paths {
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(path.metadata().unwrap().len() - 1).unwrap();
    }
    dirs.iter().for_each(|dir| drop(RunLock::create(&Dir::open(dir).unwrap(), RUN).unwrap()));
    let report = repair(&dirs, &Options { only_locked: true, ..Options::IN_FULL }).unwrap();
    let run = only_run(&report);
    assert_eq!(run.state, RunState::Repaired);
    let marks = |index: usize| {
        run.files[index].changes.iter().any(|change| matches!(change, Change::Marked { .. }))
    };
    assert_eq!([marks(0), marks(1)], [false, true], "{report:?}");
    let missing =
        |first_block, last_block, frames| Missing { first_block, last_block, frames: Some(frames) };
    assert_eq!(run.lanes[0].lane, LaneId(0));
    assert_eq!(run.lanes[0].missing, [missing(3, 4, 20), missing(6, 6, 1)]);
    let (numbers, notices) = frame_numbers(&dirs);
    assert_eq!(numbers, (0..30).chain(50..69).chain(70..79).collect::<Vec<_>>());
    assert_eq!(notices.len(), 2, "{notices:?}");
    assert!(notices[0].ends_with("ring blocks 3-4 of lane 0 are missing: 20 frames"));
    assert!(notices[1].ends_with("the end of a ring block of lane 0 is missing: 1 frame"));
}

/// Everything after the header page is there, and the page is not: another file has the same.
#[test]
fn a_lost_header_page_is_made_again_from_another_file_of_the_run() {
    for lost in [0, 1, 28, 100, 400, 600, 4095] {
        let dir = memory_dir();
        let path = torn_file(dir.path(), (0, 0), 0);
        write_file(dir.path(), (1, 0), &[ring_block(0, 0..5, true)]);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&vec![0; 4096 - lost], lost as u64).unwrap();
        let report = repair(&[dir.path().to_owned()], &Options::IN_FULL).unwrap();
        assert_eq!(only_run(&report).state, RunState::Repaired, "{report:?}");
        assert!(report.unreadable.is_empty());
        let header = read_header(&path).unwrap().unwrap();
        assert_eq!((header.lane, header.blocks_complete), (LaneId(0), 2));
        let (numbers, notices) = frame_numbers(std::slice::from_ref(&path));
        assert_eq!((numbers.len(), notices.len()), (209, 0), "lost from {lost}");
        assert_eq!(tshark(&path).1, "", "lost from {lost}");
    }
    // Alone, nothing says what it was.
    let dir = memory_dir();
    let path = torn_file(dir.path(), (0, 0), 0);
    OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&[0; 4096], 0).unwrap();
    let before = all_bytes(dir.path());
    let report = repair(&[dir.path().to_owned()], &Options::IN_FULL).unwrap();
    let unreadable: Vec<_> = report.unreadable.into_iter().map(|file| file.path).collect();
    assert_eq!((report.runs.len(), unreadable), (0, vec![path]));
    assert!(all_bytes(dir.path()) == before);
}

#[test]
fn a_sparse_file_costs_what_its_data_costs() {
    let dir = memory_dir();
    let path = write_file(dir.path(), (0, 0), &[ring_block(0, 0..10, true)]);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let whole = path.metadata().unwrap().len();
    file.set_len(1 << 40).unwrap();
    let report = repair(&[dir.path().to_owned()], &Options::IN_FULL).unwrap();
    assert_eq!(only_run(&report).state, RunState::Repaired, "{report:?}");
    assert!(path.metadata().unwrap().len() < whole + 1000, "zeros at the end go");

    let far = HEADER_BYTES as u64 + (BLOCK_BYTES as u64) * 1_000_000;
    file.write_all_at(&ring_block(9, 90..100, true), far).unwrap();
    let report = repair(&[dir.path().to_owned()], &Options::IN_FULL).unwrap();
    assert_eq!(only_run(&report).state, RunState::Failed, "{report:?}");
    let error = only_run(&report).files[0].error.clone().unwrap();
    assert!(error.contains("are holes"), "{error}");
}

/// Tools of others, before and after: they refuse the torn file and take the repaired one.
#[test]
fn other_programs_open_a_repaired_file_without_a_word() {
    let test = "other_programs_open_a_repaired_file_without_a_word";
    let tools = ["tshark", "capinfos", "tcpdump"];
    if !tools.iter().all(|tool| ringside_testkit::need_tool(test, tool)) {
        return;
    }
    let dir = memory_dir();
    let path = torn_file(dir.path(), (0, 0), 0);
    // A hole in the middle, from within a frame to the end of its ring block; and a lost block.
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let at = (HEADER_BYTES + BLOCK_HEADER_BYTES + 2000) as u64;
    file.write_all_at(&vec![0; BLOCK_BYTES - BLOCK_HEADER_BYTES - 2000], at).unwrap();
    let blocks: Vec<_> = (3..6)
        .map(|number| ring_block(number, 180 + number * 10..190 + number * 10, true))
        .collect();
    let last = write_file(dir.path(), (0, 1), &blocks);
    let file = OpenOptions::new().write(true).open(&last).unwrap();
    file.write_all_at(&vec![0; BLOCK_BYTES], (HEADER_BYTES + BLOCK_BYTES) as u64).unwrap();
    assert_ne!(tshark(&path).1, "");
    drop(RunLock::create(&Dir::open(dir.path()).unwrap(), RUN).unwrap());
    let report = repair(&[dir.path().to_owned()], &Options::IN_FULL).unwrap();
    assert_eq!(only_run(&report).state, RunState::Repaired, "{report:?}");
    for path in [&path, &last] {
        let (numbers, notices) = frame_numbers(std::slice::from_ref(path));
        assert!(notices.is_empty());
        let (rows, complaint) = tshark(path);
        assert_eq!((rows.len(), complaint.as_str()), (numbers.len(), ""));
        let (records, complaint) = tcpdump(path);
        assert_eq!((records.len(), complaint.as_str()), (numbers.len(), ""));
        let capinfos = Command::new("capinfos").arg(path).output().unwrap();
        assert!(capinfos.status.success());
        assert_eq!(complaints(&capinfos.stderr), "");

        let mut reader = PcapNgReader::new(File::open(path).unwrap()).unwrap();
        let (mut packets, mut marks) = (0, 0);
        while let Some(block) = reader.next_block() {
            match block.unwrap().0 {
                Block::EnhancedPacket(_) => packets += 1,
                Block::InterfaceStatistics(one) => {
                    marks += usize::from(format!("{:?}", one.options).contains("repaired"));
                }
                _ => {}
            }
        }
        assert_eq!(packets, numbers.len());
        assert_eq!(marks, usize::from(path == &last));
    }
    let missing = &only_run(&report).lanes[0].missing;
    let blocks: Vec<_> = missing.iter().map(|missing| missing.first_block).collect();
    assert_eq!(blocks, [0, 2, 4], "{missing:?}");
    assert_eq!(missing[2].frames, Some(10));
}
