//! Random operations of the sending end against an oracle that remembers frames and payload.

use super::transmit::{Kernel, Sent, pair};
use crate::xsk::tx_memory::METADATA_BYTES;
use crate::xsk::{TxLayout, TxProgress, TxRequest, TxRing};
use ringside_testkit::Random;
use std::collections::VecDeque;
use std::ops::Range;

/// Runs; each takes some ten milliseconds.
const RUNS: u64 = 40;
const STEPS: usize = 600;

/// A frame that was put.
#[derive(Clone)]
struct Frame {
    bytes: Vec<u8>,
    parts: usize,
    /// Of which as many are slots.
    slots: usize,
    /// Of the payload that it names.
    chunks: Vec<usize>,
}

struct Model {
    kernel: Kernel,
    ring: TxRing,
    layout: TxLayout,
    payload: Vec<u8>,
    /// Put, not shown.
    pending: VecDeque<Frame>,
    shown: VecDeque<Frame>,
    taken: Vec<(Frame, Sent)>,
    /// Given back, not reaped.
    returned: Vec<Frame>,
    put: u64,
    completed: u64,
}

impl Model {
    fn room(&self) -> usize {
        (self.layout.chunk_bytes - METADATA_BYTES) as usize
    }

    /// Frames that are out, as the ring knows.
    fn out(&self) -> impl Iterator<Item = &Frame> {
        let taken = self.taken.iter().map(|(frame, _)| frame);
        self.pending.iter().chain(&self.shown).chain(taken).chain(&self.returned)
    }

    fn fits(&self, slots: usize, parts: usize) -> bool {
        let sum = |each: fn(&Frame) -> usize| self.out().map(each).sum::<usize>();
        let entries = self.layout.entries as usize;
        sum(|frame| frame.slots) + slots <= entries && sum(|frame| frame.parts) + parts <= entries
    }

    fn step(&mut self, random: &mut Random) {
        match random.below(10) {
            0..3 => (0..random.below(20)).for_each(|_| self.put(random)),
            3 => (0..random.below(8)).for_each(|_| self.put_chain(random)),
            4 => self.write_payload(random),
            5 => self.publish(),
            6..8 => (0..random.below(30)).for_each(|_| self.take()),
            8 => (0..random.below(30)).for_each(|_| self.give_back(random)),
            _ => self.reap(),
        }
        self.check();
    }

    fn put(&mut self, random: &mut Random) {
        let room = self.room();
        let length = match random.below(8) {
            0 => room - 1 + random.below(3),
            1 => 1 + random.below(9 * room),
            _ => 14 + random.below(room - 14),
        };
        let bytes = random.bytes(length);
        let parts = length.div_ceil(room);
        let fits = self.fits(parts, parts);
        let write = |slot: &mut [u8]| slot.copy_from_slice(&bytes);
        assert_eq!(self.ring.put(length, TxRequest::default(), write).unwrap(), fits);
        if fits {
            self.pending.push_back(Frame { bytes, parts, slots: parts, chunks: Vec::new() });
            self.put += 1;
        }
    }

    fn chunks(&self, piece: &Range<usize>) -> Range<usize> {
        let room = self.room();
        if piece.is_empty() { 0..0 } else { piece.start / room..(piece.end - 1) / room + 1 }
    }

    fn piece(&self, random: &mut Random) -> Range<usize> {
        let start = random.below(self.payload.len());
        let longest = [1, 1448, 5000][random.below(3)];
        start..self.payload.len().min(start + random.below(longest + 1))
    }

    fn put_chain(&mut self, random: &mut Random) {
        let header = 14 + random.below(100);
        let header = random.bytes(header);
        let pieces: Vec<Range<usize>> = (0..random.below(6)).map(|_| self.piece(random)).collect();
        let chunks: Vec<usize> = pieces.iter().flat_map(|piece| self.chunks(piece)).collect();
        let parts = 1 + chunks.len();
        let write = |slot: &mut [u8]| slot.copy_from_slice(&header);
        let fits = self.fits(1, parts);
        let result = self.ring.put_chain(header.len(), TxRequest::default(), write, &pieces);
        if parts > self.ring.parts_max() {
            return assert!(result.is_err());
        }
        assert_eq!(result.unwrap(), fits);
        if fits {
            let payload = pieces.iter().flat_map(|piece| &self.payload[piece.clone()]);
            let bytes = header.iter().chain(payload).copied().collect();
            self.pending.push_back(Frame { bytes, parts, slots: 1, chunks });
            self.put += 1;
        }
    }

    fn write_payload(&mut self, random: &mut Random) {
        let range = self.piece(random);
        let named = |chunk| self.out().any(|frame| frame.chunks.contains(&chunk));
        let is_free = !self.chunks(&range).any(named);
        let new = random.bytes(range.len());
        let mut rest = &new[..];
        let write = |part: &mut [u8]| {
            let (now, later) = rest.split_at(part.len());
            part.copy_from_slice(now);
            rest = later;
        };
        assert_eq!(self.ring.write_payload(range.clone(), write).unwrap(), is_free);
        if is_free {
            self.payload[range].copy_from_slice(&new);
        }
    }

    fn publish(&mut self) {
        self.ring.publish();
        self.shown.append(&mut self.pending);
    }

    fn take(&mut self) {
        let sent = self.kernel.take();
        let Some(frame) = self.shown.pop_front() else { return assert_eq!(sent, None) };
        let sent = sent.unwrap();
        assert_eq!((sent.addresses.len(), sent.bytes == frame.bytes), (frame.parts, true));
        self.taken.push((frame, sent));
    }

    /// In any order, as skbs are freed.
    fn give_back(&mut self, random: &mut Random) {
        if self.taken.is_empty() {
            return;
        }
        let (frame, sent) = self.taken.swap_remove(random.below(self.taken.len()));
        self.kernel.complete(&sent);
        self.returned.push(frame);
    }

    fn reap(&mut self) {
        let parts: usize = self.returned.iter().map(|frame| frame.parts).sum();
        assert_eq!(self.ring.reap() as usize, parts);
        self.completed += self.returned.len() as u64;
        self.returned.clear();
    }

    fn check(&mut self) {
        let out: usize = self.out().map(|frame| frame.parts).sum();
        let named: usize = self.out().map(|frame| frame.chunks.len()).sum();
        let slots: usize = self.out().map(|frame| frame.slots).sum();
        assert_eq!((self.ring.out() as usize, self.ring.payload_named() as usize), (out, named));
        assert_eq!(self.ring.free_slots(), self.layout.entries as usize - slots);
        let progress = TxProgress {
            put: self.put,
            completed: self.completed,
            taken: (self.taken.len() + self.returned.len()) as u64,
            waiting: (self.pending.len() + self.shown.len()) as u64,
        };
        assert_eq!(self.ring.progress(), progress);
        assert_eq!(self.ring.take_damaged(), 0);
    }
}

fn run(seed: u64) {
    let mut random = Random::new(seed);
    let layout = TxLayout {
        entries: 64 << random.below(3),
        chunk_bytes: [2048, 4096][random.below(2)],
        payload_chunks: 1 + random.below(16) as u32,
    };
    eprintln!("seed {seed}: {layout:?}");
    let (kernel, mut ring) = pair(layout, 0u32.wrapping_sub(random.below(1000) as u32));
    let payload = vec![0; layout.payload_bytes()];
    assert!(ring.write_payload(0..payload.len(), |part| part.fill(0)).unwrap());
    let mut model = Model {
        kernel,
        ring,
        layout,
        payload,
        pending: VecDeque::new(),
        shown: VecDeque::new(),
        taken: Vec::new(),
        returned: Vec::new(),
        put: 0,
        completed: 0,
    };
    for _ in 0..STEPS {
        model.step(&mut random);
    }
    model.publish();
    while !model.shown.is_empty() {
        model.take();
    }
    while !model.taken.is_empty() {
        model.give_back(&mut random);
    }
    model.reap();
    model.check();
    assert_eq!((model.put, model.ring.out()), (model.completed, 0), "seed {seed}");
}

#[test]
fn any_order_of_operations_keeps_frames_payload_and_counts() {
    (1..=RUNS).for_each(run);
}
