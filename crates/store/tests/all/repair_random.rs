//! Repair after every cut, random holes, wrong counts and random corruption.

use crate::common::recording::*;
use ringside_core::Source;
use ringside_core::limits::RING_BLOCK_BYTES_MIN;
use ringside_store::block::{BLOCK_END_BYTES, BLOCK_HEADER_BYTES, blocks};
use ringside_store::dir::Dir;
use ringside_store::recording::{RunLock, read_header};
use ringside_store::repair::{Depth, Options, RunState, repair};
use ringside_store::{Condition, FileSource};
use ringside_testkit::{Random, by_run};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const AT_END: Options = Options { only_locked: true, ..Options::IN_FULL };

/// Repairs the run in `dir` as a dead one, and checks that a second repair changes nothing.
fn repair_dead(dir: &Path, depth: Depth) -> ringside_store::repair::Report {
    drop(RunLock::create(&Dir::open(dir).unwrap(), RUN).unwrap());
    let dirs = [dir.to_owned()];
    let report = repair(&dirs, &Options { depth, ..AT_END }).unwrap();
    assert!(report.has(RunState::Repaired), "{report:?}");
    let before = contents(dir);
    let again = repair(&dirs, &Options::IN_FULL).unwrap();
    assert!(again.runs.iter().all(|run| run.state == RunState::Clean), "{again:?}");
    assert!(contents(dir) == before, "a second repair changes nothing");
    report
}

fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> =
        entries.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
    all.sort();
    all
}

fn assert_complete(path: &Path, complete_blocks: u64) {
    let header = read_header(path).unwrap().unwrap();
    assert_eq!(header.blocks_complete, complete_blocks);
    assert_eq!(header.bytes_max, path.metadata().unwrap().len(), "nothing more is reserved");
    let mut source = FileSource::open(path).unwrap();
    while !source.is_finished() {
        source.next_batch(Duration::from_secs(60)).unwrap();
    }
    assert_eq!(source.condition(), &Condition::Complete);
}

/// Where in the file frames end, each with how many there are up to there.
fn frame_ends(file: &[u8]) -> Vec<usize> {
    let mut walk = blocks(file);
    let mut ends = Vec::new();
    while let Some((kind, _)) = walk.next() {
        if kind == ringside_store::pcapng::ENHANCED_PACKET {
            ends.push(walk.offset());
        }
    }
    ends
}

#[test]
fn a_recording_cut_at_any_byte_keeps_every_whole_frame() {
    let made = memory_dir();
    let blocks = [
        ring_block(0, 0..400, true),
        ring_block(1, 400..800, true),
        ring_block(2, 800..803, false),
    ];
    let path = write_file(made.path(), (0, 0), &blocks);
    let whole = std::fs::read(&path).unwrap();
    let ends = frame_ends(&whole);
    let second = HEADER_BYTES + BLOCK_BYTES;
    let third = second + BLOCK_BYTES;
    let statistics = ends[799];
    let mut random = Random::new(1);
    let mut cuts: Vec<usize> = (third - 30..=whole.len()).collect();
    cuts.extend(ends[798]..statistics + 700);
    cuts.extend(second - 20..second + BLOCK_HEADER_BYTES + 20);
    cuts.extend(HEADER_BYTES - 20..HEADER_BYTES + BLOCK_HEADER_BYTES + 20);
    cuts.extend((0..200).map(|_| HEADER_BYTES + random.below(whole.len() - HEADER_BYTES)));
    // Coprime to what lies at even distances: frames, blocks and their fields.
    let cuts: Vec<usize> = cuts.into_iter().step_by(by_run(3, 1)).collect();
    let work = memory_dir();
    let path = work.path().join(path.file_name().unwrap());
    std::fs::write(&path, &whole).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    for (index, &cut) in cuts.iter().enumerate() {
        // What the last repair changed lies in the header page and behind the last whole frame.
        file.write_all_at(&whole[..HEADER_BYTES], 0).unwrap();
        let last = ends.partition_point(|&end| end <= cuts[index.saturating_sub(1)]);
        let from = last.checked_sub(1).map_or(HEADER_BYTES, |last| ends[last]);
        let from = from.saturating_sub(2100).min(cut);
        file.set_len(from as u64).unwrap();
        file.write_all_at(&whole[from..cut], from as u64).unwrap();
        let depth = if index % 2 == 0 && cut >= third { Depth::Tail } else { Depth::Whole };
        let report = repair_dead(work.path(), depth);
        let kept = ends.iter().take_while(|&&end| end <= cut).count();
        let (numbers, notices) = frame_numbers(std::slice::from_ref(&path));
        assert_eq!((numbers.len(), notices.len()), (kept, 0), "cut {cut}");
        assert!(numbers.iter().copied().eq(0..kept as u64), "cut {cut}");
        // Where only the end of a ring block is missing, there is no room for the mark: padding
        // completes it.
        let complete = (cut + BLOCK_END_BYTES).saturating_sub(HEADER_BYTES) / BLOCK_BYTES;
        assert_complete(&path, complete as u64);
        let unknown = report.runs[0].lanes[0].unknown_after_ns.unwrap().0;
        let last = if kept == 0 { START } else { START + (kept as u64 - 1) * 1000 };
        assert_eq!(unknown, last, "cut {cut}");
    }
    assert!(cuts.len() > by_run(1000, 3000));
}

/// Damages ring blocks at random: all zeros, zeros from somewhere on, or a piece of rubbish.
/// Returns for each the length of its undamaged beginning.
fn damage(file: &mut [u8], count: usize, random: &mut Random) -> Vec<usize> {
    let mut whole = vec![BLOCK_BYTES; count];
    for (index, kept) in whole.iter_mut().enumerate() {
        let block = &mut file[HEADER_BYTES + index * BLOCK_BYTES..][..BLOCK_BYTES];
        let at = random.below(BLOCK_BYTES);
        match random.below(6) {
            0 => (*kept, _) = (0, block.fill(0)),
            1 => (*kept, _) = (at, block[at..].fill(0)),
            2 => {
                let length = random.below(5000).min(BLOCK_BYTES - at);
                *kept = at;
                block[at..at + length].copy_from_slice(&random.bytes(length));
            }
            _ => {}
        }
    }
    whole
}

#[test]
fn random_holes_and_wrong_counts_cost_only_what_they_hit() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let count = 2 + random.below(5);
        let made: Vec<_> = (0..count as u64)
            .map(|number| ring_block(number, number * 300..number * 300 + 300, true))
            .collect();
        let dir = memory_dir();
        let path = write_file(dir.path(), (0, 0), &made);
        let mut bytes = std::fs::read(&path).unwrap();
        let whole = damage(&mut bytes, count, &mut random);
        std::fs::write(&path, &bytes).unwrap();
        let wrong = [0, 1, count as u64 - 1, u64::MAX, random.next_u64()][random.below(5)];
        set_count(&path, wrong);
        let report = repair_dead(dir.path(), Depth::Whole);

        let (numbers, notices) = frame_numbers(std::slice::from_ref(&path));
        assert!(notices.is_empty(), "seed {seed}: {notices:?}");
        assert!(numbers.is_sorted(), "seed {seed}");
        let mut must = Vec::new();
        for (index, &kept) in whole.iter().enumerate() {
            let ends = frame_ends(&made[index]);
            let whole = ends.iter().take_while(|&&end| end <= kept).count() as u64;
            must.extend((0..whole).map(|frame| index as u64 * 300 + frame));
        }
        assert!(must.iter().all(|number| numbers.contains(number)), "seed {seed}");
        // Rubbish may hit padding alone; frames behind it in their ring block are given up.
        let last = report.runs[0].files[0].frames.unwrap();
        assert_eq!(last, numbers.len() as u64, "seed {seed}");
        let missing: u64 = report.runs[0].lanes[0].missing.iter().map(|m| m.frames.unwrap()).sum();
        let seen: Vec<u64> = (0..count as u64)
            .filter(|&index| whole[index as usize] >= BLOCK_HEADER_BYTES)
            .collect();
        if let (Some(first), Some(last)) = (seen.first(), seen.last()) {
            let in_last = numbers.iter().filter(|&&number| number / 300 == *last).count() as u64;
            let total = (last - first) * 300 + in_last;
            assert_eq!(numbers.len() as u64 + missing, total, "seed {seed}: {report:?}");
        }
    }
}

fn set_count(path: &Path, count: u64) {
    let bytes = std::fs::read(path).unwrap();
    let at = bytes.windows(8).position(|window| window == b"RINGSIDE").unwrap() + 40;
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&count.to_le_bytes(), at as u64).unwrap();
}

/// Bytes of each ring block that the fuzzer sees; the rest is one padding block.
const SHOWN_BYTES: usize = 1024;
const SHOWN_BLOCKS: usize = 3;

/// Writes what the fuzzer made of the header page and of the beginnings of ring blocks. What it
/// made longer or shorter goes over or short at the end, as in a file that was cut.
fn expand(path: &Path, input: &[u8]) {
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(path).unwrap();
    let header = input.len().min(HEADER_BYTES);
    file.write_all_at(&input[..header], 0).unwrap();
    for (index, shown) in input[header..].chunks(SHOWN_BYTES).enumerate().take(SHOWN_BLOCKS) {
        let start = HEADER_BYTES + index * RING_BLOCK_BYTES_MIN;
        file.write_all_at(shown, start as u64).unwrap();
        if shown.len() < SHOWN_BYTES {
            break;
        }
        let length = (RING_BLOCK_BYTES_MIN - SHOWN_BYTES) as u32;
        let kind = ringside_store::pcapng::RINGSIDE_PADDING;
        let at = (start + SHOWN_BYTES) as u64;
        file.write_all_at(&[kind.to_le_bytes(), length.to_le_bytes()].concat(), at).unwrap();
        let end = (start + RING_BLOCK_BYTES_MIN - 4) as u64;
        file.write_all_at(&length.to_le_bytes(), end).unwrap();
    }
}

/// Seeds: closed blocks of two frames, padded to what the fuzzer sees.
fn seeds() -> Vec<Vec<u8>> {
    let dir = memory_dir();
    let path = write_file(dir.path(), (0, 0), &[]);
    let mut seed = std::fs::read(&path).unwrap();
    for number in 0..SHOWN_BLOCKS as u64 {
        let block = ring_block(number, number * 2..number * 2 + 2, false);
        let mut shown = vec![0; SHOWN_BYTES];
        shown[..block.len()].copy_from_slice(&block);
        ringside_store::block::write_padding(&mut shown[block.len()..]);
        seed.extend(shown);
    }
    let cut = seed[..seed.len() - 700].to_vec();
    // Room at the end, and, as in a copy, before a ring block.
    let [at_the_end, between] = [SHOWN_BLOCKS - 1, 1].map(|place| {
        let (mut seed, at) = (seed.clone(), HEADER_BYTES + place * SHOWN_BYTES);
        seed[at..at + 4].copy_from_slice(&ringside_store::pcapng::RINGSIDE_ROOM.to_le_bytes());
        let length = (RING_BLOCK_BYTES_MIN as u32).to_le_bytes();
        seed[at + 4..at + 8].copy_from_slice(&length);
        seed
    });
    vec![seed, cut, at_the_end, between]
}

#[test]
fn a_corrupted_file_never_has_fewer_leading_frames_after_its_repair() {
    let dir = memory_dir();
    let path = dir.path().join("20261121T053000Z-eth1-lane0-000000.pcapng");
    let dirs = [dir.path().to_owned()];
    ringside_testkit::fuzz("repair", 300, &seeds(), |input| {
        expand(&path, input);
        let before = leading_frames(&path);
        let header = read_header(&path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let report = repair(&dirs, &Options::IN_FULL).unwrap();
        let Some(header) = header.filter(|_| !report.runs.is_empty()) else {
            assert!(std::fs::read(&path).unwrap() == bytes, "what is not ours is left alone");
            return;
        };
        let frames = leading_frames(&path);
        assert!(frames.starts_with(&before), "{} frames of {}", frames.len(), before.len());
        if report.has(RunState::Failed) {
            return;
        }
        let mut source = FileSource::open(&path).unwrap();
        while !source.is_finished() {
            source.next_batch(Duration::from_secs(60)).unwrap();
        }
        assert_eq!(source.condition(), &Condition::Complete);
        let after = read_header(&path).unwrap().unwrap();
        assert_eq!((after.run, after.lane, after.serial), (header.run, header.lane, header.serial));
        let bytes = std::fs::read(&path).unwrap();
        let again = repair(&dirs, &Options::IN_FULL).unwrap();
        assert!(again.has(RunState::Clean), "{again:?}");
        assert!(std::fs::read(&path).unwrap() == bytes, "a second repair changes nothing");
    });
}
