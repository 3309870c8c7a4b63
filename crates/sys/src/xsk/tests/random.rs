//! Random operations against an oracle that counts chunks and remembers frames.

use super::*;
use ringside_testkit::Random;
use std::collections::VecDeque;

/// Runs; each makes a lane or two of its own and is done with in some ten milliseconds.
const RUNS: u64 = 40;
const STEPS: usize = 400;
/// Claims that are out at once.
const CLAIMS: usize = 3;

/// A frame that the kernel took.
#[derive(Debug, PartialEq, Eq)]
struct Sent {
    metadata: Vec<u8>,
    bytes: Vec<u8>,
}

/// One lane, and what is known of it.
struct Model {
    kernel: MockKernel,
    ends: XskEnds,
    claims: Vec<Claim>,
    cut: UmemLayout,
    rx_entries: u32,
    /// Chunks that never come back.
    lost: u32,
    level: u32,
    /// In the fill ring.
    free: u32,
    pending: VecDeque<Sent>,
    shown: VecDeque<Sent>,
    statistics: XskStatistics,
    empty_looks: u64,
}

impl Model {
    fn new(umem: &Arc<Umem>, lane: usize, random: &mut Random) -> Model {
        let rx_entries = 1 << (3 + random.below(8));
        let (mut kernel, mut ends) = MockKernel::new(umem, lane, rx_entries).unwrap();
        ends.rx.expect_parts();
        if random.below(4) > 0 {
            // Indices pass 2^32 at some time of the run.
            let passed = 0u32.wrapping_sub(random.below(1000) as u32);
            kernel.set_passed(passed, &mut ends, rx_entries);
        }
        let cut = umem.layout();
        Model {
            kernel,
            ends,
            claims: (0..CLAIMS).map(|_| Claim::new(umem.clone())).collect(),
            cut,
            rx_entries,
            lost: 0,
            level: cut.chunks_per_lane,
            free: 0,
            pending: VecDeque::new(),
            shown: VecDeque::new(),
            statistics: XskStatistics::default(),
            empty_looks: 0,
        }
    }

    fn room(&self) -> usize {
        (self.cut.chunk_bytes - HEADROOM_BYTES) as usize
    }

    fn parts(&self, frame: &Sent) -> u32 {
        frame.bytes.len().div_ceil(self.room()).max(1) as u32
    }

    fn parts_in(&self, frames: &VecDeque<Sent>) -> u32 {
        frames.iter().map(|frame| self.parts(frame)).sum()
    }

    fn claimed(&self) -> u32 {
        self.claims.iter().map(|claim| claim.parts().len() as u32).sum()
    }

    /// Chunks that are not elsewhere.
    fn reserve(&self) -> u32 {
        let out = self.free + self.parts_in(&self.pending) + self.parts_in(&self.shown);
        self.cut.chunks_per_lane - out - self.claimed() - self.lost
    }

    fn step(&mut self, random: &mut Random) {
        let which = random.below(CLAIMS);
        match random.below(12) {
            0..5 => (0..random.below(40)).for_each(|_| self.receive(random)),
            5..7 => self.flush(),
            7..9 => self.claim(which),
            9 => self.give_back(which),
            10 if random.below(4) == 0 => self.set_level(random),
            10 => self.change(which, random),
            _ if random.below(30) == 0 => self.drop_claim(which),
            _ => self.refill(),
        }
        self.check();
    }

    fn receive(&mut self, random: &mut Random) {
        let room = self.room();
        let length = match random.below(16) {
            0 => 0,
            1..9 => 14 + random.below(100),
            9 => room - 1 + random.below(3),
            10 => 2 * room - 1 + random.below(3),
            11 => room * (1 + random.below(20)),
            _ => random.below(room),
        };
        let metadata = [0, 8, 24, HEADROOM_BYTES as usize][random.below(4)];
        let sent = Sent { metadata: random.bytes(metadata), bytes: random.bytes(length) };
        let parts = self.parts(&sent);
        let held = self.parts_in(&self.pending) + self.parts_in(&self.shown);
        let has_chunks = self.free >= parts;
        let fits = has_chunks && held + parts <= self.rx_entries;
        assert_eq!(self.kernel.receive(&sent.metadata, &sent.bytes), fits);
        if fits {
            self.free -= parts;
            self.pending.push_back(sent);
        } else if has_chunks {
            self.statistics.ring_full += 1;
        } else {
            self.statistics.dropped += 1;
            self.statistics.fill_empty += 1;
        }
    }

    fn flush(&mut self) {
        self.kernel.flush();
        self.shown.append(&mut self.pending);
    }

    /// Fills a claim, or finds that it is full.
    fn claim(&mut self, which: usize) {
        if !self.claims[which].parts().is_empty() {
            let (rx, claim) = (&mut self.ends.rx, &mut self.claims[which]);
            return assert!(panics(|| _ = rx.claim(claim)));
        }
        assert_eq!(self.ends.rx.is_empty(), self.shown.is_empty());
        let waiting = self.parts_in(&self.shown);
        assert_eq!(self.ends.rx.waiting(), waiting);
        let count = self.ends.rx.claim(&mut self.claims[which]);
        assert_eq!(self.claims[which].parts().len(), count);
        let (mut taken, room) = (0, self.room());
        while let Some(frame) = self.shown.front() {
            let parts = self.parts(frame) as usize;
            if taken + parts > 256 {
                break;
            }
            check_frame(&self.claims[which], taken, parts, frame, room);
            taken += parts;
            self.shown.pop_front();
        }
        assert_eq!(taken, count, "of {waiting}");
        assert!(self.ends.rx.high_water() >= waiting);
    }

    fn give_back(&mut self, which: usize) {
        let expected = self.note_refill(self.claims[which].parts().len() as u32);
        assert_eq!(self.ends.fill.give_back(&mut self.claims[which]), expected);
    }

    fn refill(&mut self) {
        let expected = self.note_refill(0);
        assert_eq!(self.ends.fill.refill(), expected);
    }

    /// How many chunks the kernel gets, if `more` come to the reserve.
    fn note_refill(&mut self, more: u32) -> u32 {
        self.empty_looks += u64::from(self.free == 0);
        let count = self.level.saturating_sub(self.free).min(self.reserve() + more);
        self.free += count;
        count
    }

    fn set_level(&mut self, random: &mut Random) {
        let chunks = self.cut.chunks_per_lane;
        self.level = [1, chunks / 8, chunks, u32::MAX][random.below(4)];
        self.ends.fill.set_level(self.level);
    }

    /// Writes all over a claim and over the arena, which must show nowhere else.
    fn change(&mut self, which: usize, random: &mut Random) {
        let claim = &mut self.claims[which];
        let arena = self.ends.arena.range();
        for index in 0..claim.parts().len() {
            let part = claim.parts()[index];
            let filler = random.next_u64() as u8;
            claim.edit(index, |bytes, at| {
                assert_eq!((bytes.len() - at, at), (part.bytes as usize, part.headroom.into()));
                bytes.fill(filler);
            });
            let to = arena.start + random.below(arena.len());
            let fits = to + part.bytes as usize <= arena.end;
            assert_eq!(claim.copy_to_arena(index, &mut self.ends.arena, to), fits);
            if fits {
                let copy = &claim.memory()[to..to + part.bytes as usize];
                assert!(copy.iter().all(|byte| *byte == filler));
            }
        }
    }

    fn drop_claim(&mut self, which: usize) {
        let claim = &mut self.claims[which];
        self.lost += claim.parts().len() as u32;
        let umem = claim.umem().clone();
        *claim = Claim::new(umem);
    }

    fn check(&mut self) {
        assert_eq!(self.kernel.free_chunks(), self.free);
        assert_eq!(self.ends.fill.in_reserve(), self.reserve() as usize);
        assert_eq!(self.kernel.statistics(), self.statistics);
        assert_eq!(self.ends.fill.starved(), self.empty_looks.saturating_sub(1));
        assert_eq!(self.claims.iter_mut().map(Claim::take_damaged).sum::<u64>(), 0);
    }

    /// Takes and gives back all there is; then each chunk that was not lost is in one place.
    fn finish(mut self) -> (Vec<u64>, u32) {
        self.flush();
        while !self.shown.is_empty() || self.claimed() > 0 {
            for which in 0..CLAIMS {
                self.give_back(which);
                self.claim(which);
            }
        }
        self.check();
        assert!(self.ends.rx.is_empty());
        let chunks = self.kernel.fill_ring().into_iter().chain(self.ends.fill.reserve());
        (chunks.collect(), self.lost)
    }
}

/// The frame that begins with part `first` of the claim is the one that was sent.
fn check_frame(claim: &Claim, first: usize, parts: usize, sent: &Sent, room: usize) {
    let pieces = (0..parts).map(|part| &sent.bytes[part * room..]);
    for (index, piece) in pieces.enumerate() {
        let part = claim.parts()[first + index];
        let is_last = index + 1 == parts;
        let bytes = if is_last { piece } else { &piece[..room] };
        assert_eq!(&claim.memory()[part.offset..][..part.bytes as usize], bytes);
        assert_eq!((part.continues, u32::from(part.headroom)), (!is_last, HEADROOM_BYTES));
        if index == 0 {
            let before = part.offset - sent.metadata.len();
            assert_eq!(&claim.memory()[before..part.offset], sent.metadata);
        }
    }
}

fn run(seed: u64) {
    let mut random = Random::new(seed);
    let cut = UmemLayout {
        lanes: 1 + random.below(2),
        chunks_per_lane: 64 << random.below(4),
        chunk_bytes: [CHUNK_BYTES_MIN, CHUNK_BYTES_MAX][random.below(2)],
        arena_bytes: 1 << (12 + random.below(4)),
    };
    eprintln!("seed {seed}: {cut:?}");
    let umem = umem(cut);
    let mut lanes: Vec<Model> =
        (0..cut.lanes).map(|lane| Model::new(&umem, lane, &mut random)).collect();
    for _ in 0..STEPS {
        let lane = random.below(cut.lanes);
        lanes[lane].step(&mut random);
    }
    let (mut chunks, mut lost) = (Vec::new(), 0);
    for lane in lanes {
        let (mut kept, gone) = lane.finish();
        chunks.append(&mut kept);
        lost += gone as usize;
    }
    chunks.sort_unstable();
    chunks.dedup();
    assert_eq!(chunks.len() + lost, cut.lanes * cut.chunks_per_lane as usize, "seed {seed}");
    let chunk_bytes = u64::from(cut.chunk_bytes);
    assert!(chunks.iter().all(|at| at % chunk_bytes == 0 && *at < cut.chunks_bytes() as u64));
}

#[test]
fn any_order_of_operations_keeps_frames_chunks_and_counts() {
    (1..=RUNS).for_each(run);
}
