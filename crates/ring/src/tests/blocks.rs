//! Readers of whole blocks: any order of claims and releases, against an oracle.

use super::*;
use proptest::prelude::*;
use ringside_sys::shared_memory;
use ringside_sys::uring::Lends;
use std::collections::VecDeque;

const SLOTS: usize = 5;

/// One step of a lane's life.
#[derive(Clone, Debug)]
enum Step {
    /// Opens a block if none is open.
    Open,
    /// Fills this many bytes and frames, as far as they fit.
    Fill(usize, u32),
    /// Publishes.
    Publish,
    /// Fills the open block and closes it.
    Close,
    /// Claims at most this number of blocks.
    Claim(usize),
    /// Releases one of the claims that are out.
    Release(prop::sample::Index),
    /// Looks at the open block.
    Look,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Open),
        3 => (1..BLOCK, 0..9u32).prop_map(|(bytes, frames)| Step::Fill(bytes, frames)),
        2 => Just(Step::Publish),
        4 => Just(Step::Close),
        3 => (1..4usize).prop_map(Step::Claim),
        3 => any::<prop::sample::Index>().prop_map(Step::Release),
        1 => Just(Step::Look),
    ]
}

/// What a block must hold: its number in the first and in the last word.
fn is_block(bytes: &[u8], sequence: u64) -> bool {
    let mark = sequence.to_ne_bytes();
    bytes.len() == BLOCK && bytes[..8] == mark && bytes[BLOCK - 8..] == mark
}

/// The lane and what it must be.
struct Run {
    writer: LaneWriter,
    reader: BlockReader,
    claims: Vec<Claim>,
    opened: u64,
    /// Bytes and frames of the open block, filled and published.
    filled: Option<(usize, u32)>,
    published: (usize, u32),
    /// Frames before the open block.
    frames: u64,
    /// Frames of the closed blocks that are not claimed.
    closed: VecDeque<u32>,
    /// Which blocks were released.
    released: Vec<bool>,
}

impl Run {
    fn new() -> Run {
        let ring = CaptureRing::create(layout(SLOTS, 1), HugePages::No).unwrap();
        Run {
            writer: ring.writer(1).unwrap(),
            reader: ring.block_reader(1, 0).unwrap(),
            claims: Vec::new(),
            opened: 0,
            filled: None,
            published: (0, 0),
            frames: 0,
            closed: VecDeque::new(),
            released: Vec::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Open if self.filled.is_none() => self.open(),
            Step::Fill(bytes, frames) => self.fill(*bytes, *frames),
            Step::Publish => self.publish(),
            Step::Close => self.close(),
            Step::Claim(blocks_max) => self.claim(*blocks_max),
            Step::Release(index) => self.release(index),
            Step::Open | Step::Look => {}
        }
        self.check();
    }

    fn open(&mut self) {
        let all_released = self.released.iter().take_while(|released| **released).count() as u64;
        let result = self.writer.open(self.frames);
        if self.opened - all_released >= SLOTS as u64 {
            assert_eq!(result, Err(RingFull));
            return;
        }
        assert_eq!(result, Ok(()));
        self.writer.tail()[..8].copy_from_slice(&self.opened.to_ne_bytes());
        self.released.push(false);
        self.opened += 1;
        self.filled = Some((0, 0));
        self.published = (0, 0);
    }

    fn fill(&mut self, bytes: usize, frames: u32) {
        let Some((filled, counted)) = &mut self.filled else { return };
        if *filled + bytes < BLOCK - 8 {
            self.writer.fill(bytes, frames);
            *filled += bytes;
            *counted += frames;
        }
    }

    fn publish(&mut self) {
        self.writer.publish();
        self.published = self.filled.unwrap_or_default();
    }

    fn close(&mut self) {
        let Some((_, frames)) = self.filled.take() else { return };
        let tail = self.writer.tail();
        let bytes = tail.len();
        tail[bytes - 8..].copy_from_slice(&(self.opened - 1).to_ne_bytes());
        self.writer.fill(bytes, 0);
        self.writer.close();
        self.closed.push_back(frames);
        self.frames += u64::from(frames);
        self.published = (0, 0);
    }

    /// Number of the next block to claim.
    fn next(&self) -> u64 {
        self.opened - u64::from(self.filled.is_some()) - self.closed.len() as u64
    }

    fn claim(&mut self, blocks_max: usize) {
        let first = self.next();
        let until_wrap = SLOTS - (first % SLOTS as u64) as usize;
        let blocks = blocks_max.min(self.closed.len()).min(until_wrap);
        let Some(claim) = self.reader.claim(blocks_max) else {
            return assert_eq!(blocks, 0);
        };
        let frames: u32 = self.closed.drain(..blocks).sum();
        assert_eq!((claim.lane(), claim.first_sequence(), claim.blocks()), (1, first, blocks));
        assert_eq!(claim.frames(), u64::from(frames));
        self.claims.push(claim);
    }

    fn release(&mut self, index: &prop::sample::Index) {
        if self.claims.is_empty() {
            return;
        }
        let claim = self.claims.swap_remove(index.index(self.claims.len()));
        let first = claim.first_sequence() as usize;
        self.released[first..first + claim.blocks()].fill(true);
        self.reader.release(claim);
    }

    fn check(&mut self) {
        for claim in &self.claims {
            for (block, sequence) in claim.bytes().chunks(BLOCK).zip(claim.first_sequence()..) {
                assert!(is_block(block, sequence), "block {sequence} was written over");
            }
        }
        assert_eq!(self.reader.waiting_blocks(), self.closed.len() as u64);
        let last = self.opened.wrapping_sub(1);
        match self.reader.open_block() {
            Some(open) => {
                assert_eq!((open.bytes.len(), open.frames), self.published);
                assert_eq!((open.sequence, open.first_frame), (last, self.frames));
                assert!(open.bytes.len() < 8 || open.bytes[..8] == last.to_ne_bytes());
            }
            None => assert!(!self.closed.is_empty() || self.published.0 == 0),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn claims_agree_with_the_oracle_in_any_order(
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut run = Run::new();
        for step in &steps {
            run.step(step);
        }
    }
}

#[test]
fn the_writer_waits_for_the_earliest_block_that_is_out() {
    let ring = CaptureRing::create(layout(3, 1), HugePages::No).unwrap();
    let mut writer = ring.writer(0).unwrap();
    let mut reader = ring.block_reader(0, 0).unwrap();
    assert!(reader.claim(1).is_none());
    for block in 0..3 {
        write_block(&mut writer, block).unwrap();
    }
    let first = reader.claim(1).unwrap();
    let rest = reader.claim(8).unwrap();
    assert_eq!((rest.first_sequence(), rest.blocks(), rest.first_frame()), (1, 2, PER_BLOCK));
    assert_eq!(rest.frames(), 2 * PER_BLOCK);
    reader.release(rest);
    assert_eq!(writer.open(3 * PER_BLOCK), Err(RingFull));
    reader.release(first);
    for block in 3..6 {
        write_block(&mut writer, block).unwrap();
    }
    assert_eq!(writer.open(6 * PER_BLOCK), Err(RingFull));
}

#[test]
fn the_last_open_block_is_final_once_the_reader_is_finished() {
    let ring = CaptureRing::create(layout(3, 1), HugePages::No).unwrap();
    let mut writer = ring.writer(0).unwrap();
    let mut reader = ring.block_reader(0, 0).unwrap();
    write_block(&mut writer, 0).unwrap();
    writer.open(PER_BLOCK).unwrap();
    writer.tail()[..4].fill(7);
    writer.fill(4, 1);
    assert!(!reader.is_finished());
    writer.finish();
    assert!(!reader.is_finished(), "a closed block is left");
    let claim = reader.claim(9).unwrap();
    assert!(reader.is_finished());
    let open = reader.open_block().unwrap();
    assert_eq!((open.sequence, open.bytes, open.frames), (1, &[7; 4][..], 1));
    assert_eq!(open.first_frame, PER_BLOCK);
    reader.release(claim);
}

#[test]
fn a_claim_outlives_its_reader_and_the_ring_and_then_lets_the_writer_go() {
    let ring = CaptureRing::create(layout(2, 1), HugePages::No).unwrap();
    let mut writer = ring.writer(0).unwrap();
    let mut reader = ring.block_reader(0, 0).unwrap();
    write_block(&mut writer, 0).unwrap();
    let claim = reader.claim(1).unwrap();
    drop(reader);
    drop(ring);
    write_block(&mut writer, 1).unwrap();
    assert_eq!(writer.open(2 * PER_BLOCK), Err(RingFull), "the claim still borrows");
    assert_eq!(frames_in(claim.bytes()), (0..PER_BLOCK as u8).collect::<Vec<_>>());
    drop(claim);
    for block in 2..6 {
        write_block(&mut writer, block).unwrap();
    }
}

#[test]
fn the_registered_pieces_hold_every_block_whole() {
    // 2,395 blocks in lanes of 479: lanes and pieces of 2,048 end at different blocks.
    let sizes =
        RingLayout { lanes: 5, blocks_per_lane: 479, block_bytes: BLOCK, lossless_readers: 0 };
    let pieces: Vec<_> = shared_memory::pieces(sizes.data_bytes()).collect();
    assert_eq!(pieces, [(0, 1 << 30), (1 << 30, 347 * BLOCK)]);
    for (lane, slot) in (0..5).flat_map(|lane| (0..479).map(move |slot| (lane, slot))) {
        let block = (lane * 479 + slot) * BLOCK;
        let (offset, bytes) = pieces[block / shared_memory::PIECE_BYTES];
        let room = sizes.blocks_to_piece_end(lane, slot);
        assert!(offset <= block && block + BLOCK <= offset + bytes, "lane {lane}, slot {slot}");
        // What is claimed from here on stays in the piece, or in the lane if that ends first.
        let claimed = room.min(479 - slot) * BLOCK;
        assert!(claimed > 0 && block + claimed <= offset + bytes, "lane {lane}, slot {slot}");
    }
}

#[test]
fn a_claim_names_its_place_in_the_registered_pieces() {
    let ring = CaptureRing::create(layout(3, 1), HugePages::No).unwrap();
    let mut writer = ring.writer(1).unwrap();
    let mut reader = ring.block_reader(1, 0).unwrap();
    write_block(&mut writer, 0).unwrap();
    let claim = reader.claim(1).unwrap();
    assert_eq!(claim.lent().piece(), Some(0));
    let first = claim.bytes().as_ptr() as usize;
    assert_eq!(first % 4096, 0, "blocks may go past the page cache");
    reader.release(claim);
    write_block(&mut writer, 1).unwrap();
    let second = reader.claim(1).unwrap();
    assert_eq!(second.bytes().as_ptr() as usize, first + BLOCK);
}
