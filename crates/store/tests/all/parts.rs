//! Files part by part: what is passed by is missing, and nothing else is.

use crate::common::drain;
use crate::common::recording::memory_dir;
use crate::query::{frame, notices_of, write_lane};
use ringside_core::ledger::ByCause;
use ringside_core::{Frame, InterfaceId, OwnedFrame, SourceInterface, TimeRange, Timestamp};
use ringside_store::{Format, Part, PartReader, PartStep, Pruner, Query, StoredSource};
use ringside_testkit::{Random, by_run};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A part, and the bytes of its frames.
type Filled = (Part, Vec<Vec<u8>>);

/// All parts of a file, and how many frames are in none.
fn parts_of(path: &Path) -> (Vec<Filled>, usize) {
    let mut reader = PartReader::open(path).unwrap();
    let (mut parts, mut frames, mut unfit) = (Vec::new(), Vec::new(), 0);
    loop {
        match reader.step() {
            PartStep::Frames(batch) => frames.extend(batch.iter().map(|f| f.bytes.to_vec())),
            PartStep::Part(part) => {
                assert_eq!(part.frames, frames.len() as u64);
                parts.push((part, std::mem::take(&mut frames)));
            }
            PartStep::Unfit => unfit += std::mem::take(&mut frames).len(),
            PartStep::End => break,
        }
    }
    assert!(parts.is_sorted_by(|(one, _), (next, _)| one.end <= next.start));
    let file_bytes = path.metadata().unwrap().len();
    assert!(parts.iter().all(|(part, _)| part.start < part.end && part.end <= file_bytes));
    (parts, unfit + frames.len())
}

/// Passes by some parts of each file, and knows which frames were in them.
#[derive(Debug)]
struct Some_ {
    seed: u64,
    passed: Mutex<BTreeMap<PathBuf, Vec<Filled>>>,
}

impl Some_ {
    fn new(seed: u64) -> Arc<Some_> {
        Arc::new(Some_ { seed, passed: Mutex::default() })
    }

    fn frames(&self) -> BTreeSet<Vec<u8>> {
        let passed = self.passed.lock().unwrap();
        passed.values().flatten().flat_map(|(_, frames)| frames.clone()).collect()
    }
}

impl Pruner for Some_ {
    fn passed(&self, path: &Path, _file: &File, _range: TimeRange) -> Vec<Part> {
        let mut random = Random::new(self.seed);
        let (mut parts, _) = parts_of(path);
        // All of them, none, or any.
        let odds = [0, 1, 2, 2][random.below(4)];
        parts.retain(|_| odds == 0 || (odds == 2 && random.below(2) == 0));
        let passed = parts.iter().map(|(part, _)| *part).collect();
        self.passed.lock().unwrap().insert(path.to_owned(), parts);
        passed
    }
}

fn check(inputs: &[PathBuf], range: TimeRange, seed: u64) {
    let mut whole = ringside_store::open(inputs).unwrap();
    let mut expected = drain(&mut *whole).frames;
    let pruner = Some_::new(seed);
    let query = Query { inputs: inputs.to_vec(), range };
    let mut source = query.open_pruned(pruner.clone()).unwrap();
    let found = drain(&mut source);
    assert_eq!((found.error, notices_of(&source)), (None, notices_of(&*whole)));
    let passed = pruner.frames();
    let count = expected.len();
    expected.retain(|frame| range.holds(frame.meta.timestamp) && !passed.contains(&frame.bytes));
    // Interfaces of several inputs are numbered as they are come to.
    let content = |frames: &[OwnedFrame]| -> Vec<_> {
        frames.iter().map(|frame| (frame.bytes.clone(), frame.meta.timestamp)).collect()
    };
    let is_same = match inputs.len() {
        1 => found.frames == expected,
        _ => content(&found.frames) == content(&expected),
    };
    assert!(is_same, "{inputs:?} {range:?} seed {seed}");
    assert_eq!(source.tally().frames_outside, (count - expected.len()) as u64);
    let newest = query.newest_pruned(Some(Some_::new(seed))).unwrap().newest;
    assert_eq!(newest, query.newest().unwrap().newest, "also of parts that are passed by");
}

#[test]
fn parts_of_recordings_are_passed_by_and_the_rest_comes_in_its_order() {
    let mut random = Random::new(11);
    for seed in 0..by_run(40, 2_000) {
        let dirs = [memory_dir(), memory_dir()];
        let dirs = dirs.each_ref().map(|dir| dir.path());
        for lane in 0..1 + random.below(3) {
            let block = |random: &mut Random| -> Vec<u64> {
                (0..random.below(6)).map(|_| 1 + random.next_u64() % 40).collect()
            };
            let blocks: Vec<_> = (0..1 + random.below(6)).map(|_| block(&mut random)).collect();
            write_lane(dirs, lane as u16, 2 + random.below(2) as u32, &blocks);
        }
        let moment =
            |random: &mut Random| (random.below(2) == 0).then(|| Timestamp(random.next_u64() % 42));
        let range = TimeRange { from: moment(&mut random), to: moment(&mut random) };
        let dirs = dirs.map(Path::to_owned);
        check(&dirs, TimeRange::default(), seed);
        check(&dirs, range, seed);
        check(&[dirs[0].join("x-eth1-lane0-000000.pcapng")], range, seed);
    }
}

/// Five MiB of frames, a nanosecond apart or back.
fn write_large(path: &Path, format: Format, lane: usize, interfaces: &[SourceInterface]) {
    let mut writer = format.writer(File::create(path).unwrap(), interfaces).unwrap();
    for number in 0..5000 {
        let OwnedFrame { mut bytes, mut meta } = frame(lane, number, 1000 + (number as u64 ^ 3));
        bytes.resize(1000, number as u8);
        meta.interface = InterfaceId(number as u32 % interfaces.len() as u32);
        meta.wire_bytes = 1000;
        writer.write(&Frame { bytes: &bytes, meta }).unwrap();
    }
    writer.finish(&[]).unwrap();
}

#[test]
fn parts_of_captures_are_a_mib_and_no_interface_is_described_in_one() {
    let dir = memory_dir();
    let [a, b, c] = ["a.pcapng", "b.pcapng", "c.pcap"].map(|name| dir.path().join(name));
    let one = [SourceInterface::ethernet("eth1")];
    let two = ["eth1", "eth2"].map(SourceInterface::ethernet);
    write_large(&a, Format::Pcapng, 1, &two);
    write_large(&b, Format::Pcapng, 2, &one);
    write_large(&c, Format::Pcap, 3, &one);
    // Two sections in one file.
    let joined = dir.path().join("joined.pcapng");
    let bytes = [&a, &b].map(|path| std::fs::read(path).unwrap()).concat();
    std::fs::write(&joined, &bytes).unwrap();
    for (path, frames) in [(&a, 5000), (&b, 5000), (&c, 5000), (&joined, 10_000)] {
        let (parts, unfit) = parts_of(path);
        let in_parts: usize = parts.iter().map(|(_, frames)| frames.len()).sum();
        assert!(in_parts + unfit <= frames, "{}", path.display());
        let is_most = in_parts + 3000 > frames && parts.len() >= 4;
        assert!(is_most, "{in_parts} frames in {} parts", parts.len());
        let largest = parts.iter().map(|(part, _)| part.end - part.start).max().unwrap();
        assert!(largest < 2 << 20, "{largest} bytes");
    }
    for seed in 0..by_run(6, 100) {
        let range = TimeRange { from: Some(Timestamp(3000)), to: Some(Timestamp(5000)) };
        for path in [&a, &c, &joined] {
            check(std::slice::from_ref(path), TimeRange::default(), seed);
            check(std::slice::from_ref(path), range, seed);
        }
        check(&[joined.clone(), c.clone()], TimeRange::default(), seed);
    }
}

#[test]
fn a_part_that_is_not_where_it_was_said_to_be_is_read() {
    #[derive(Debug)]
    struct Wrong(Vec<Part>);
    impl Pruner for Wrong {
        fn passed(&self, _: &Path, _: &File, _: TimeRange) -> Vec<Part> {
            self.0.clone()
        }
    }
    let dir = memory_dir();
    let path = dir.path().join("a.pcapng");
    write_large(&path, Format::Pcapng, 1, &[SourceInterface::ethernet("eth1")]);
    let part = parts_of(&path).0[1].0;
    let bytes = path.metadata().unwrap().len();
    let wrong = [
        Part { start: part.start + 4, ..part },
        Part { start: bytes, end: bytes + 4, ..part },
        Part { start: 0, ..part },
    ];
    let query = Query { inputs: vec![path], range: TimeRange::default() };
    let mut source = query.open_pruned(Arc::new(Wrong(wrong.to_vec()))).unwrap();
    assert_eq!(drain(&mut source).frames.len(), 5000);
}

#[test]
fn the_ledger_at_the_end_of_a_ring_block_is_told() {
    let dir = memory_dir();
    let other = memory_dir();
    write_lane([dir.path(), other.path()], 0, 3, &[vec![1, 2], vec![3], vec![4]]);
    let path = dir.path().join("x-eth1-lane0-000000.pcapng");
    let mut reader = PartReader::open(&path).unwrap();
    assert_eq!(reader.dropped(), None, "nothing was read");
    let is_part = (0..10).any(|_| matches!(reader.step(), PartStep::Part(_)));
    assert!(is_part, "the first ring block");
    assert_eq!(reader.dropped(), Some(&ByCause::new()), "nothing was lost");
}
