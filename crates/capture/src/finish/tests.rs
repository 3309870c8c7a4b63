//! A model of a recorder that stops anywhere, finished; and memory that lies.

use super::*;
use crate::backend::{af_packet, af_xdp, xdp_ring};
use crate::packer::{Packer, Reading};
use ringside_core::limits::RING_BLOCK_BYTES_MIN;
use ringside_core::{Batch, FrameMeta, FrameSlot, SourceInterface, Timestamp};
use ringside_ring::{BlockReader, CaptureRing, Claim, HugePages, RingLayout};
use ringside_store::dir::Dir;
use ringside_store::recording::{FileHeader, SeriesFile, file_name};
use ringside_store::repair::{self, Options, RunState};
use ringside_store::retention::spare_name;
use ringside_testkit::{Random, by_run};
use std::os::unix::fs::FileExt;
use std::time::Duration;

const BLOCK_BYTES: usize = RING_BLOCK_BYTES_MIN;
const START: Timestamp = Timestamp(1_795_239_000_000_000_000);
const RUN: &str = "1795239000000000000-7";
/// Ring blocks in a file.
const FILE_BLOCKS: u64 = 3;

/// A lane whose recorder stops somewhere.
struct Model {
    random: Random,
    folder: tempfile::TempDir,
    ring: Arc<CaptureRing>,
    packer: Packer,
    reader: BlockReader,
    /// Written whole and not given back, as if the recorder had died before it could.
    unreleased: Vec<Claim>,
    locks: Vec<RunLock>,
    /// In each directory the file in use, and how many ring blocks it has.
    files: Vec<(SeriesFile, u64)>,
    sequence: u64,
    frames: u64,
}

impl Model {
    fn new(seed: u64) -> Model {
        let mut random = Random::new(seed);
        let layout = RingLayout {
            lanes: 1,
            blocks_per_lane: 5,
            block_bytes: BLOCK_BYTES,
            lossless_readers: 1,
        };
        let ring = CaptureRing::create(layout, HugePages::No).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let names = ["a", "b"];
        let count = 1 + random.below(2);
        let locks = names[..count].iter().map(|name| {
            let path = folder.path().join(name);
            std::fs::create_dir(&path).unwrap();
            RunLock::create(&Dir::open(&path).unwrap(), RUN).unwrap()
        });
        let mut model = Model {
            packer: Packer::new(ring.writer(0).unwrap(), InterfaceId(0), 0, BLOCK_BYTES),
            reader: ring.block_reader(0, 0).unwrap(),
            locks: locks.collect(),
            random,
            folder,
            ring,
            unreleased: Vec::new(),
            files: Vec::new(),
            sequence: 0,
            frames: 0,
        };
        for directory in 0..count {
            let file = model.create(directory, false);
            model.files.push((file, 0));
        }
        model
    }

    fn create(&mut self, directory: usize, spare: bool) -> SeriesFile {
        let name = file_name(START, "eth1", LaneId(0), self.sequence);
        let header = FileHeader {
            run: RUN.into(),
            sequence: self.sequence,
            block_bytes: BLOCK_BYTES,
            serial: self.sequence + 1,
            bytes_max: 4096 + FILE_BLOCKS * BLOCK_BYTES as u64,
            ..FileHeader::default()
        };
        self.sequence += 1;
        let name = if spare { spare_name(&name) } else { name };
        let entry = self.locks[directory].dir().entry(name);
        SeriesFile::create(entry, &header, &[interface()]).unwrap()
    }

    /// Packs `count` frames, as far as there is room in the ring, and publishes them.
    fn pack(&mut self, count: usize) {
        for _ in 0..count {
            let memory = self.random.bytes(2_000);
            let length = 60 + self.random.below(memory.len() - 60);
            let meta = FrameMeta { timestamp: Timestamp(self.frames + 1), ..FrameMeta::default() };
            let slots = [FrameSlot::new(0, length as u32, meta)];
            let batch = Batch::new(&memory, &slots);
            if self.packer.put(&batch, 1, &Reading::default()).taken == 0 {
                break;
            }
            self.frames += 1;
        }
        self.packer.publish(Timestamp(self.frames));
    }

    /// Writes up to `count` closed blocks, each to some directory. The last ones may be torn or not
    /// be given back.
    fn record(&mut self, count: usize, dies: bool) {
        for _ in 0..count {
            let Some(claim) = self.reader.claim(1) else { return };
            let directory = self.random.below(self.locks.len());
            self.next_file(directory);
            let (file, blocks) = &mut self.files[directory];
            let torn = dies && self.random.below(3) == 0;
            let bytes = if torn { self.random.below(BLOCK_BYTES) } else { BLOCK_BYTES };
            file.file().write_all_at(&claim.bytes()[..bytes], file.block_offset(*blocks)).unwrap();
            *blocks += 1;
            if self.random.below(2) == 0 {
                file.set_blocks(None, *blocks - 1).unwrap();
            }
            if torn || dies && self.random.below(2) == 0 || !self.unreleased.is_empty() {
                self.unreleased.push(claim);
            } else {
                self.reader.release(claim);
            }
            if torn {
                return;
            }
        }
    }

    fn next_file(&mut self, directory: usize) {
        if self.files[directory].1 < FILE_BLOCKS {
            return;
        }
        let file = self.create(directory, false);
        let (old, _) = std::mem::replace(&mut self.files[directory], (file, 0));
        if self.random.below(2) == 0 {
            let end = old.block_offset(FILE_BLOCKS);
            old.set_finished(end).unwrap();
        }
    }

    /// Writes the beginning of the open block, with padding to a page, as on a quiet link.
    fn write_open(&mut self) {
        let directory = self.random.below(self.locks.len());
        self.next_file(directory);
        let Some(open) = self.reader.open_block() else { return };
        let mut bytes = open.bytes.to_vec();
        let used = bytes.len();
        bytes.resize((used + 12).next_multiple_of(4096), 0);
        ringside_store::block::write_padding(&mut bytes[used..]);
        let (file, blocks) = &self.files[directory];
        file.file().write_all_at(&bytes, file.block_offset(*blocks)).unwrap();
    }

    fn die(self) -> (Remains, Vec<PathBuf>, u64, tempfile::TempDir) {
        let paths = self.locks.iter().map(|lock| lock.dir().path().to_owned()).collect();
        let remains = Remains {
            boards: self.ring.fd().try_clone_to_owned().unwrap(),
            recorded: None,
            lanes: vec![lane()],
            output: OutputRemains::Recording(RecordingRemains {
                run: RUN.into(),
                locks: self.locks,
                bytes_max: Some(4096 + FILE_BLOCKS * BLOCK_BYTES as u64),
                retention: Policy::default(),
            }),
        };
        // What the threads of a process would do at an orderly end is not done.
        std::mem::forget((self.packer, self.reader, self.unreleased));
        (remains, paths, self.frames, self.folder)
    }
}

fn interface() -> SourceInterface {
    SourceInterface::ethernet("eth1")
}

fn lane() -> LaneRemains {
    let (interface, interface_id) = ("eth1".to_owned(), InterfaceId(0));
    LaneRemains { interface, interface_id, queue: 0, kernel: None }
}

/// The stamps of all frames of a recording, in order; no notice may come with them.
fn stamps(paths: &[PathBuf]) -> Vec<u64> {
    let mut source = ringside_store::open(paths).unwrap();
    let mut stamps = Vec::new();
    while !source.is_finished() {
        if let Some(batch) = source.next_batch(Duration::from_secs(10)).unwrap() {
            stamps.extend(batch.iter().map(|frame| frame.meta.timestamp.0));
        }
    }
    let notices = source.notices();
    assert!(notices.is_empty(), "{notices:?}");
    stamps
}

#[test]
fn whatever_a_recorder_left_the_files_then_hold_every_frame_once() {
    for seed in 0..by_run(20, 600) {
        let mut model = Model::new(seed);
        for _ in 0..model.random.below(12) {
            let count = model.random.below(900);
            model.pack(count);
            let count = model.random.below(4);
            model.record(count, false);
        }
        let count = model.random.below(3_000);
        model.pack(count);
        let count = model.random.below(5);
        model.record(count, true);
        if model.unreleased.is_empty() && model.reader.waiting_blocks() == 0 {
            model.write_open();
        }
        if model.random.below(3) == 0 {
            drop(model.create(0, true));
        }
        let (remains, paths, frames, _folder) = model.die();
        let finished = remains.finish().unwrap();
        assert_eq!(finished.errors, [""; 0], "seed {seed}");
        assert_eq!(finished.ledger.taken, frames, "seed {seed}");
        assert_eq!(finished.ledger.consumers[0].delivered, frames, "seed {seed}");
        assert!(stamps(&paths).into_iter().eq(1..=frames), "seed {seed}");
        let report =
            repair::repair(&paths, &Options { dry_run: true, ..Options::IN_FULL }).unwrap();
        assert!(!report.has(RunState::Broken), "seed {seed}: {report:?}");
        let names = paths.iter().flat_map(|path| std::fs::read_dir(path).unwrap());
        let hidden = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let hidden: Vec<String> = hidden.filter(|name| name.starts_with(".2")).collect();
        assert_eq!(hidden, [""; 0], "seed {seed}: no lock, no spare file");
    }
}

/// A copy of the memory with some words changed, and files as the model left them.
#[test]
fn memory_that_lies_does_no_harm() {
    for seed in 0..by_run(20, 600) {
        let mut model = Model::new(seed);
        model.pack(1_500);
        model.record(2, false);
        let mut random = Random::new(seed);
        let (mut remains, _, _, _folder) = model.die();
        let memory = std::fs::File::from(remains.boards);
        let copy = rustix::fs::memfd_create("copy", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let copy = std::fs::File::from(copy);
        let mut bytes = vec![0; memory.metadata().unwrap().len() as usize];
        memory.read_exact_at(&mut bytes, 0).unwrap();
        // The description stays (it is checked at once); headers, boards and blocks do not.
        for _ in 0..1 + random.below(40) {
            let words = if random.below(4) == 0 { bytes.len() / 8 - 512 } else { 700 };
            let at = 512 + random.below(words);
            let word = match random.below(4) {
                0 => u64::MAX,
                1 => 0,
                2 => random.next_u64(),
                _ => random.next_u64() >> 48,
            };
            bytes[at * 8..at * 8 + 8].copy_from_slice(&word.to_le_bytes());
        }
        copy.write_all_at(&bytes, 0).unwrap();
        remains.boards = copy.into();
        // It may fail, and it ends.
        let _ = remains.finish();
    }
}

/// The words of the memory behind its description, which is checked at once: headers and boards.
const WORDS: std::ops::Range<usize> = 512..1_200;

/// Several lanes whose numbers lie, and every kind of output.
#[test]
fn a_keeper_outlives_whatever_lanes_say() {
    let layout =
        RingLayout { lanes: 3, blocks_per_lane: 2, block_bytes: BLOCK_BYTES, lossless_readers: 1 };
    let ring = CaptureRing::create(layout, HugePages::No).unwrap();
    let memory = std::fs::File::from(ring.fd().try_clone_to_owned().unwrap());
    let mut bytes = vec![0; memory.metadata().unwrap().len() as usize];
    memory.read_exact_at(&mut bytes, 0).unwrap();
    let copy = rustix::fs::memfd_create("copy", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let copy = std::fs::File::from(copy);
    copy.write_all_at(&bytes, 0).unwrap();
    let range = WORDS.start * 8..WORDS.end * 8;
    let mut seeds = ringside_testkit::each_number_at_most(&bytes[range.clone()]);
    seeds.push(vec![0xff; range.len()]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    ringside_testkit::fuzz("keeper-finish", 250, &seeds, |input| {
        let input = &input[..input.len().min(range.len())];
        copy.write_all_at(&bytes[range.clone()], range.start as u64).unwrap();
        copy.write_all_at(input, range.start as u64).unwrap();
        std::fs::write(&path, [0; 100]).unwrap();
        let file = |path: &PathBuf, rotates| OutputRemains::File {
            path: path.clone(),
            format: FileFormat::Pcap,
            rotates,
        };
        let pattern = folder.path().join("%Y-%s.pcap");
        let recording = RecordingRemains {
            run: RUN.into(),
            locks: Vec::new(),
            bytes_max: None,
            retention: Policy::default(),
        };
        for output in [
            OutputRemains::Recording(recording),
            OutputRemains::Count,
            OutputRemains::Stream,
            OutputRemains::Print,
            file(&path, false),
            file(&path, true),
            file(&pattern, true),
        ] {
            let boards = copy.try_clone().unwrap().into();
            let lanes = vec![lane(), lane(), lane()];
            let finished = Remains { boards, recorded: None, lanes, output }.finish();
            // What does not add up is said, and nothing else happens.
            if let Ok(finished) = finished {
                let _ = (finished.ledger.balance(), finished.ledger.lost());
            }
        }
    });
}

#[test]
fn counts_of_the_kernel_and_of_a_lying_board_end_in_an_imbalance_at_most() {
    let mut random = Random::new(7);
    let mut number = || match random.below(3) {
        0 => u64::MAX,
        1 => random.next_u64(),
        _ => random.next_u64() >> 50,
    };
    for _ in 0..20_000 {
        let dropped = ringside_core::Cause::ALL.into_iter().map(|cause| (cause, number()));
        let counters = LaneCounters {
            dropped: dropped.collect(),
            received: Some(number()),
            taken: number(),
            passed: number(),
            filtered: Some(number()),
            ..LaneCounters::default()
        };
        let reading = crate::lane::BoardReading {
            counters,
            is_interrupted: false,
            turns_away: false,
            turned_away_before: number(),
        };
        let counts = af_packet::kernel_side::counts_of_numbers(&mut number).into_iter().chain([
            af_xdp::kernel_side::count_of_numbers(&mut number),
            xdp_ring::kernel_side::count_of_numbers(&mut number),
        ]);
        let counts: Vec<_> = counts.map(Some).chain([None]).collect();
        for count in counts {
            let reading =
                crate::lane::BoardReading { counters: reading.counters.clone(), ..reading };
            let (lane, _) = kernel::final_counters(Some(reading), count, Some(number()));
            let ledger = Ledger::from_lanes(vec![lane.clone(), lane]);
            let _ = (ledger.balance(), ledger.lost());
        }
    }
}
