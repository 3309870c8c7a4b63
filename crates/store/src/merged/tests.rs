use super::*;
use crate::block::{
    BLOCK_HEADER_BYTES, BlockHeader, Statistics, close_filled, write_block_header,
    write_packet_block,
};
use crate::recording::{FileHeader, file_name};
use crate::writer::{FrameWriter, PcapngWriter};
use crate::{FileSource, open};
use ringside_core::limits::RING_BLOCK_BYTES_MIN;
use ringside_core::{Frame, FrameMeta, FrameNumber, InterfaceId, LaneCounters, LaneId, OwnedFrame};
use ringside_testkit::Random;

fn interface(name: &str) -> SourceInterface {
    SourceInterface::ethernet(name)
}

fn meta(interface: u32, stamp: u64) -> FrameMeta {
    let (timestamp, interface) = (Timestamp(stamp), InterfaceId(interface));
    FrameMeta { timestamp, interface, ..FrameMeta::default() }
}

/// A pcapng file whose frames hold their own stamps.
fn write_file(path: &Path, names: &[&str], frames: &[(u32, u64)]) {
    let interfaces: Vec<_> = names.iter().map(|name| interface(name)).collect();
    let mut writer =
        PcapngWriter::new(crate::writer::create_file(path).unwrap(), &interfaces).unwrap();
    for &(id, stamp) in frames {
        let bytes = &stamp.to_le_bytes();
        writer.write(&Frame { bytes, meta: meta(id, stamp) }).unwrap();
    }
    writer.finish(&[]).unwrap();
}

/// A file of a recording with a frame for each stamp, in ring blocks of two frames that follow
/// block `first.0` and frame `first.1` of the lane.
fn write_series(
    dir: &Path,
    run: &str,
    (lane, sequence): (u16, u64),
    first: (u64, u64),
    stamps: &[u64],
) -> PathBuf {
    let blocks: Vec<_> = (0..).zip(stamps.chunks(2)).collect();
    let blocks = blocks.iter().map(|&(index, pair)| ring_block(first, index, pair));
    write_blocks(dir, run, (lane, sequence), &blocks.collect::<Vec<_>>())
}

/// Ring block `index` after `first`, each before it with two frames.
fn ring_block(first: (u64, u64), index: u64, stamps: &[u64]) -> Vec<u8> {
    let header = BlockHeader {
        number: first.0 + index,
        first_frame: FrameNumber(first.1 + index * 2),
        opened: Timestamp(0),
    };
    let mut block = vec![0; RING_BLOCK_BYTES_MIN];
    let mut at = write_block_header(&mut block, &header);
    for &stamp in stamps {
        let frame = Frame { bytes: &stamp.to_le_bytes(), meta: meta(1, stamp) };
        at += write_packet_block(&mut block[at..], &frame, 0);
    }
    let counters = LaneCounters::default();
    let (interface, first_time, when) = (InterfaceId(1), Timestamp(1), Timestamp(2));
    let statistics = Statistics { interface, first_time, when, counters: &counters };
    close_filled(&mut block, at, &statistics);
    block
}

fn write_blocks(
    dir: &Path,
    run: &str,
    (lane, sequence): (u16, u64),
    blocks: &[Vec<u8>],
) -> PathBuf {
    let name = file_name(Timestamp(0), &format!("{run}{lane}"), LaneId(lane), sequence);
    let path = dir.join(name);
    let header = FileHeader {
        run: run.into(),
        lane: LaneId(lane),
        sequence,
        block_bytes: RING_BLOCK_BYTES_MIN,
        ..FileHeader::default()
    };
    let interfaces = [interface("eth0"), interface(&format!("{run}-eth1"))];
    let mut bytes = header.encode(&interfaces).unwrap().bytes;
    blocks.iter().for_each(|block| bytes.extend_from_slice(block));
    std::fs::write(&path, bytes).unwrap();
    path
}

fn drain(source: &mut dyn Source) -> (Vec<OwnedFrame>, Option<String>) {
    let (mut frames, mut error) = (Vec::new(), None);
    while !source.is_finished() {
        match source.next_batch(Duration::from_secs(60)) {
            Ok(Some(batch)) => frames.extend(batch.iter().map(|frame| frame.to_owned_frame())),
            Ok(None) => {}
            Err(failure) => assert!(error.replace(failure.to_string()).is_none()),
        }
    }
    for frame in &frames {
        assert_eq!(frame.bytes, frame.meta.timestamp.0.to_le_bytes());
    }
    (frames, error)
}

fn stamps(frames: &[OwnedFrame]) -> Vec<u64> {
    frames.iter().map(|frame| frame.meta.timestamp.0).collect()
}

#[test]
fn several_files_are_merged_and_equal_interfaces_are_one() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a.pcapng"), dir.path().join("b.pcapng"));
    let many: Vec<(u32, u64)> = (0..2000).map(|n| (n % 2, u64::from(n) * 2 + 10)).collect();
    write_file(&a, &["eth1", "eth1"], &many);
    write_file(&b, &["eth2", "eth1"], &[(0, 11), (1, 13), (1, 12), (0, 9000)]);
    let mut source = open(&[a, b]).unwrap();
    assert_eq!(source.interfaces().len(), 3, "known before the first batch");
    let (frames, error) = drain(&mut *source);
    assert_eq!((error, frames.len()), (None, 2004));
    assert_eq!(stamps(&frames[..6]), [10, 11, 12, 13, 12, 14], "the order of a lane is kept");
    let ids: Vec<u32> = frames[..6].iter().map(|frame| frame.meta.interface.0).collect();
    assert_eq!(ids, [0, 2, 1, 0, 0, 0], "eth1 of b is the first eth1 of a");
    let counters = source.counters();
    assert_eq!((counters.received, counters.inversions), (Some(2004), 1));
    assert!(source.notices().is_empty());
}

#[test]
fn a_directory_is_its_series_in_sequence_and_merged() {
    let dir = tempfile::tempdir().unwrap();
    write_series(dir.path(), "run1", (0, 1), (2, 3), &[50, 60, 70]);
    write_series(dir.path(), "run1", (0, 0), (0, 0), &[10, 20, 30]);
    write_series(dir.path(), "run1", (1, 0), (0, 0), &[15, 25, 55]);
    write_series(dir.path(), "run2", (0, 0), (0, 0), &[100, 110]);
    write_series(dir.path(), "empty", (0, 0), (0, 0), &[]);
    write_file(&dir.path().join("foreign.pcapng"), &["x"], &[(0, 1)]);
    std::fs::write(dir.path().join("rubbish.pcapng"), b"rubbish").unwrap();
    std::fs::write(dir.path().join("notes.txt"), b"notes").unwrap();
    let mut source = open(&[dir.path().to_owned()]).unwrap();
    let (frames, error) = drain(&mut *source);
    assert_eq!(error, None);
    assert_eq!(stamps(&frames), [10, 15, 20, 25, 30, 50, 55, 60, 70, 100, 110]);
    let names: Vec<&str> = source.interfaces().iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["eth0", "empty-eth1", "run1-eth1", "run2-eth1"]);
    assert_eq!(frames[0].meta.interface, InterfaceId(2));
    assert_eq!(frames[10].meta.interface, InterfaceId(3));
    let skipped: Vec<String> = source.notices().iter().map(Notice::to_string).collect();
    assert_eq!(skipped.len(), 2);
    assert!(skipped[0].contains("foreign.pcapng: skipped: not a file of a recording"));
    assert!(skipped[1].contains("rubbish.pcapng: skipped"));
}

#[test]
fn many_runs_in_one_directory_need_few_open_files() {
    let dir = tempfile::tempdir().unwrap();
    let mut expected = Vec::new();
    for run in 0..300 {
        write_file(&dir.path().join(format!("{run}.pcapng")), &["eth0"], &[(0, run * 10 + 1)]);
        expected.push(run * 10 + 1);
    }
    let paths: Vec<PathBuf> =
        (0..300).map(|run| dir.path().join(format!("{run}.pcapng"))).collect();
    let lanes = paths.into_iter().map(Lane::of_file).collect();
    let mut source = MergedSource::new(lanes, Vec::new(), Wanted::default()).unwrap();
    let mut found = Vec::new();
    while !source.is_finished() {
        if let Some(batch) = source.next_batch(Duration::from_secs(60)).unwrap() {
            found.extend(batch.iter().map(|frame| frame.meta.timestamp.0));
        }
        assert!(source.files_open <= 2);
    }
    assert_eq!(found, expected);
}

#[test]
fn damage_in_one_file_delays_nothing_else_and_is_reported_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let damaged = write_series(dir.path(), "run", (0, 0), (0, 0), &[10, 20, 30, 40]);
    write_series(dir.path(), "run", (0, 1), (2, 4), &[50]);
    let torn = write_series(dir.path(), "run", (1, 0), (0, 0), &[15, 45]);
    let mut bytes = std::fs::read(&damaged).unwrap();
    // The length of the third frame's block.
    bytes[4096 + RING_BLOCK_BYTES_MIN + BLOCK_HEADER_BYTES + 4] ^= 1;
    std::fs::write(&damaged, &bytes).unwrap();
    let bytes = std::fs::read(&torn).unwrap();
    // Within the second frame.
    std::fs::write(&torn, &bytes[..4096 + BLOCK_HEADER_BYTES + 40 + 20]).unwrap();
    let mut source = open(&[dir.path().to_owned()]).unwrap();
    let (frames, error) = drain(&mut *source);
    assert_eq!(stamps(&frames), [10, 15, 20, 50]);
    assert!(error.unwrap().contains("damaged at byte"));
    let notices = source.notices();
    assert!(matches!(notices[0].condition, Condition::CutShort { offset: 4176, left_bytes: 20 }));
    assert!(matches!(notices[1].condition, Condition::Damaged { .. }));
    let missing = Condition::Missing { lane: LaneId(0), blocks: None, frames: 2 };
    assert_eq!(notices[2].condition, missing);
    let counters = source.counters();
    assert_eq!((counters.received, counters.dropped[&Cause::Damaged]), (Some(6), 2));
}

#[test]
fn what_cannot_be_opened_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let error = open(&[dir.path().to_owned()]).err().unwrap().to_string();
    assert!(error.contains("holds no file of a recording"), "{error}");
    let other = tempfile::tempdir().unwrap();
    write_series(other.path(), "run", (0, 0), (0, 0), &[1]);
    let source = open(&[dir.path().to_owned(), other.path().to_owned()]).unwrap();
    let notice = source.notices()[0].to_string();
    assert!(notice.contains("skipped: holds no file of a recording"), "{notice}");
    let missing = [dir.path().join("a"), dir.path().join("b")];
    assert!(open(&missing).err().unwrap().to_string().contains("cannot open"));
    assert!(open(&[]).err().unwrap().to_string().contains("no input was named"));
}

#[test]
fn what_goes_before_its_turn_is_noted_and_the_rest_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = |sequence: u64| {
        let (first, stamp) = ((sequence, sequence * 2), sequence * 10);
        write_series(dir.path(), "run", (0, sequence), first, &[stamp, stamp + 1])
    };
    let paths: Vec<_> = (0..5).map(file).collect();
    let read = |gone: &[usize]| {
        let lanes: Vec<_> = series_of(&[dir.path().to_owned()])
            .unwrap()
            .0
            .into_iter()
            .map(Lane::of_series)
            .collect();
        gone.iter().for_each(|&index| std::fs::remove_file(&paths[index]).unwrap());
        let mut source = MergedSource::new(lanes, Vec::new(), Wanted::default()).unwrap();
        let (frames, error) = drain(&mut source);
        assert_eq!(error, None);
        let is_deleted = |one: &&Notice| one.to_string().contains("was deleted meanwhile");
        (stamps(&frames), source.notices().iter().filter(is_deleted).count())
    };
    // The first two before the first look, and one in the midst.
    assert_eq!(read(&[0, 1, 3]), (vec![20, 21, 40, 41], 3));
    assert_eq!(read(&[2, 4]), (vec![], 2));
    // But what was named has to be there.
    assert!(open(&paths[..1]).err().unwrap().to_string().contains("cannot open"));
}

/// Ring blocks of lane 0, three frames of consecutive stamps less one in every fourth block.
fn lane_of(blocks: u64) -> (Vec<Vec<u8>>, Vec<u64>) {
    let (mut lane, mut stamps, mut next) = (Vec::new(), Vec::new(), 0);
    for number in 0..blocks {
        let count = if number % 4 == 3 { 0 } else { 3 };
        let own: Vec<u64> = (next..next + count).map(|frame| 1000 + frame).collect();
        lane.push(ring_block((number, next), 0, &own));
        stamps.extend(own);
        next += count;
    }
    (lane, stamps)
}

/// Spreads ring blocks over directories and files at random, each file in order.
fn spread(dirs: &[PathBuf], blocks: &[Vec<u8>], random: &mut Random) {
    let mut files: Vec<Vec<Vec<u8>>> = vec![Vec::new(); dirs.len()];
    let mut sequence = 0;
    let mut flush = |dir: usize, file: &mut Vec<Vec<u8>>| {
        write_blocks(&dirs[dir], "run", (0, sequence), file);
        file.clear();
        sequence += 1;
    };
    let mut dir = 0;
    for block in blocks {
        if random.below(3) == 0 {
            dir = random.below(dirs.len());
        }
        files[dir].push(block.clone());
        if random.below(5) == 0 {
            flush(dir, &mut files[dir]);
        }
    }
    for (dir, file) in files.iter_mut().enumerate() {
        flush(dir, file);
    }
}

#[test]
fn a_lane_in_several_directories_reads_as_one_whatever_the_spread() {
    let (blocks, expected) = lane_of(20);
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let root = tempfile::tempdir().unwrap();
        let count = 1 + random.below(4);
        let dirs: Vec<_> = (0..count).map(|dir| root.path().join(dir.to_string())).collect();
        dirs.iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
        spread(&dirs, &blocks, &mut random);
        let mut source = open(&dirs).unwrap();
        let (frames, error) = drain(&mut *source);
        assert_eq!((error, source.notices()), (None, Vec::new()), "seed {seed}");
        assert_eq!(stamps(&frames), expected, "seed {seed}");
        assert_eq!(source.counters().inversions, 0, "seed {seed}");

        // The same with all files in one directory.
        let all = root.path().join("all");
        std::fs::create_dir(&all).unwrap();
        for (number, dir) in dirs.iter().enumerate() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap();
                std::fs::rename(&path, all.join(format!("{number}-{name}"))).unwrap();
            }
        }
        let (frames, _) = drain(&mut *open(&[all]).unwrap());
        assert_eq!(stamps(&frames), expected, "seed {seed}, in one directory");
    }
}

#[test]
fn what_is_missing_of_a_lane_is_reported_to_the_frame() {
    let (blocks, expected) = lane_of(12);
    let lane = LaneId(0);
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let dir = tempfile::tempdir().unwrap();
        let kept: Vec<usize> = (0..blocks.len()).filter(|_| random.below(2) == 0).collect();
        let Some(&last) = kept.last() else { continue };
        let mut chosen: Vec<_> = kept.iter().map(|&index| blocks[index].clone()).collect();
        let torn = random.below(2) == 0 && last % 4 != 3 && last > 0;
        if torn {
            // A file that ends within its last block, and one that goes on after it.
            let half = chosen.last_mut().unwrap();
            half.truncate(BLOCK_HEADER_BYTES + 40);
            let next = ring_block((last as u64 + 1, 1_000_000), 0, &[5000]);
            write_blocks(dir.path(), "run", (0, 1), &[next]);
        }
        write_blocks(dir.path(), "run", (0, 0), &chosen);
        let mut source = open(&[dir.path().to_owned()]).unwrap();
        let (frames, error) = drain(&mut *source);
        assert_eq!(error, None);
        let (mut missing, mut named) = (0, Vec::new());
        for notice in source.notices() {
            let Condition::Missing { lane: of, blocks, frames } = notice.condition else {
                panic!("seed {seed}: {notice}")
            };
            assert_eq!(of, lane);
            missing += frames;
            named.extend(blocks.map_or(0..0, |(first, last)| first as usize..last as usize + 1));
        }
        let absent: Vec<usize> = (0..last).filter(|index| !kept.contains(index)).collect();
        assert_eq!(named, absent, "seed {seed}");
        let before_last = 3 * (last - last / 4) as u64;
        let found = stamps(&frames);
        let total = if torn { 1_000_001 } else { before_last + u64::from(last % 4 != 3) * 3 };
        assert_eq!(found.len() as u64 + missing, total, "seed {seed}");
        assert!(found.iter().all(|stamp| *stamp == 5000 || expected.contains(stamp)));
    }
}

#[test]
fn many_gaps_are_reported_together_and_to_the_frame() {
    let dir = tempfile::tempdir().unwrap();
    let blocks: Vec<_> = (0..30).map(|n| ring_block((2 * n, 10 * n), 0, &[n + 1])).collect();
    write_blocks(dir.path(), "run", (0, 0), &blocks);
    let mut source = open(&[dir.path().to_owned()]).unwrap();
    assert_eq!(drain(&mut *source).0.len(), 30);
    let notices = source.notices();
    assert_eq!(notices.len(), 11);
    let missing = Condition::Missing { lane: LaneId(0), blocks: Some((19, 19)), frames: 9 };
    assert_eq!(notices[9].condition, missing);
    let more = Condition::MoreMissing { lane: LaneId(0), gaps: 19, frames: 19 * 9 };
    assert_eq!(notices[10].condition, more);
}

#[test]
fn no_frame_is_given_twice_when_files_repeat() {
    let (blocks, expected) = lane_of(6);
    let dir = tempfile::tempdir().unwrap();
    let mut half = blocks[2].clone();
    half.truncate(BLOCK_HEADER_BYTES + 2 * 40);
    write_blocks(dir.path(), "run", (0, 0), &[blocks[0].clone(), blocks[1].clone(), half]);
    write_blocks(dir.path(), "run", (0, 1), &blocks[1..]);
    let mut source = open(&[dir.path().to_owned()]).unwrap();
    let (frames, error) = drain(&mut *source);
    assert_eq!((error, stamps(&frames)), (None, expected));
    let notices: Vec<String> = source.notices().iter().map(Notice::to_string).collect();
    assert_eq!(notices.len(), 2, "{notices:?}");
    assert!(notices[0].ends_with("ring block 1 of lane 0 was read from another file already"));
}

#[test]
fn contradicting_numbers_are_reported_and_delay_no_frame() {
    let dir = tempfile::tempdir().unwrap();
    let blocks = [
        ring_block((0, 0), 0, &[1, 2]),
        ring_block((1, 1), 0, &[3]),
        ring_block((u64::MAX, u64::MAX - 1), 0, &[4, 5, 6]),
        ring_block((u64::MAX, u64::MAX), 0, &[7]),
    ];
    write_blocks(dir.path(), "run", (0, 0), &blocks);
    let mut source = open(&[dir.path().to_owned()]).unwrap();
    let (frames, error) = drain(&mut *source);
    assert_eq!(error, None);
    assert!(stamps(&frames).starts_with(&[1, 2, 3, 4, 5, 6]));
    let notices: Vec<String> = source.notices().iter().map(Notice::to_string).collect();
    assert!(notices[0].contains("ring block 1 begins with frame 1, and 2 frames came before"));
    assert!(notices[1].contains("ring blocks 2-18446744073709551614 of lane 0 are missing"));
}

/// A recorder goes on while its file is read: the padding behind the last frame is replaced by
/// frames, and the file grows. The reader gives what was there when it was opened.
#[test]
fn a_file_that_grows_while_it_is_read_ends_where_it_ended() {
    let dir = tempfile::tempdir().unwrap();
    let mut begun = ring_block((1, 2), 0, &[3, 4]);
    let frames_end = BLOCK_HEADER_BYTES + 2 * 40;
    begun.truncate(4096);
    crate::block::write_padding(&mut begun[frames_end..]);
    let complete = ring_block((0, 0), 0, &[1, 2]);
    let path = write_blocks(dir.path(), "run", (0, 0), &[complete, begun]);
    let mut sources = [
        Box::new(FileSource::open(&path).unwrap()) as Box<dyn StoredSource>,
        open(&[dir.path().to_owned()]).unwrap(),
    ];
    // The first read of an open file does not reach its end.
    let at = 4096 + RING_BLOCK_BYTES_MIN + frames_end;
    let continued = ring_block((1, 2), 0, &(3..303).collect::<Vec<_>>());
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &continued[frames_end..], at as u64).unwrap();
    for source in &mut sources {
        let (frames, error) = drain(&mut **source);
        assert_eq!(error, None);
        let found = stamps(&frames);
        assert!(found.iter().copied().eq(1..=found.len() as u64), "{}", found.len());
        assert!(found.len() >= 4, "{}", found.len());
        // Only what fits the size that it had.
        let page = (4096 - BLOCK_HEADER_BYTES) / 40;
        assert!(found.len() <= 2 + page, "{}", found.len());
    }
}
