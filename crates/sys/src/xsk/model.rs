//! The protocol of the rings under loom: every interleaving and every allowed reordering of the two
//! sides of a ring, and of a lane, whose chunks go round through both of its rings.
//!
//! Entries and chunks are cells whose uses loom wants ordered; their values are relaxed atomics, so
//! that an old one shows. The indices begin so that they pass 2^32 meanwhile.

use super::cursor::*;
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;
use std::ops::Range;

const ENTRIES: u32 = 2;
const PASSED: u32 = u32::MAX - 1;

/// Memory that has one owner at a time.
struct OwnedCell {
    used: UnsafeCell<()>,
    value: AtomicU32,
}

impl OwnedCell {
    fn new() -> OwnedCell {
        OwnedCell { used: UnsafeCell::new(()), value: AtomicU32::new(u32::MAX) }
    }

    fn read(&self) -> u32 {
        self.used.with(|_| ());
        self.value.load(Ordering::Relaxed)
    }

    fn write(&self, value: u32) {
        self.used.with_mut(|_| ());
        self.value.store(value, Ordering::Relaxed);
    }
}

struct Ring {
    producer: AtomicU32,
    consumer: AtomicU32,
    entries: Vec<OwnedCell>,
}

impl Ring {
    fn new() -> Ring {
        let [producer, consumer] = [(); 2].map(|()| AtomicU32::new(PASSED));
        Ring { producer, consumer, entries: (0..ENTRIES).map(|_| OwnedCell::new()).collect() }
    }

    fn words(&self) -> Words<'_> {
        Words { producer: &self.producer, consumer: &self.consumer }
    }

    /// Produces as many of `values` as there is room for; returns how many.
    fn put(&self, cursor: &mut ProducerCursor, values: &[u32]) -> usize {
        let free = cursor.free(self.words(), values.len() as u32);
        for (ahead, value) in (0..free).zip(values) {
            self.entries[cursor.slot(ahead)].write(*value);
        }
        if free > 0 {
            cursor.publish(self.words(), free);
        }
        free as usize
    }

    /// Consumes at most `wanted` entries.
    fn take(&self, cursor: &mut ConsumerCursor, wanted: u32) -> Vec<u32> {
        let ready = cursor.ready(self.words(), wanted);
        let values = (0..ready).map(|ahead| self.entries[cursor.slot(ahead)].read()).collect();
        if ready > 0 {
            cursor.release(self.words(), ready);
        }
        values
    }
}

fn producer() -> ProducerCursor {
    ProducerCursor::after(PASSED, ENTRIES)
}

fn consumer() -> ConsumerCursor {
    ConsumerCursor::after(PASSED, ENTRIES)
}

/// As many chunks as a ring has entries; chunk `c` is number `c`.
struct RingPair {
    fill: Ring,
    rx: Ring,
    chunks: Vec<OwnedCell>,
}

impl RingPair {
    fn new() -> Arc<RingPair> {
        let chunks = (0..ENTRIES).map(|_| OwnedCell::new()).collect();
        Arc::new(RingPair { fill: Ring::new(), rx: Ring::new(), chunks })
    }

    /// The kernel, which receives frames of these numbers, some at once if it has the chunks.
    fn receive(&self, frames: Range<u32>) {
        let (mut fill, mut rx) = (consumer(), producer());
        let mut frames = frames.peekable();
        while frames.peek().is_some() {
            let chunks = self.fill.take(&mut fill, ENTRIES);
            if chunks.is_empty() {
                thread::yield_now();
            }
            let used: Vec<u32> = chunks
                .iter()
                .zip(&mut frames)
                .map(|(&chunk, frame)| {
                    self.chunks[chunk as usize].write(frame);
                    chunk
                })
                .collect();
            assert_eq!(self.rx.put(&mut rx, &used), used.len(), "as many entries as chunks");
        }
    }
}

/// Checks all interleavings of at most `preemptions` preemptions: two reach every pair of races
/// between threads of this size, three every chain of two.
fn bounded(preemptions: usize, check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(check);
}

#[test]
fn loom_entries_of_a_ring_are_read_once_in_order_and_not_written_over() {
    bounded(3, || {
        let ring = Arc::new(Ring::new());
        let values: Vec<u32> = (0..5).collect();
        let other_side = {
            let (ring, values) = (ring.clone(), values.clone());
            thread::spawn(move || {
                let (mut cursor, mut rest) = (producer(), &values[..]);
                while !rest.is_empty() {
                    let count = ring.put(&mut cursor, &rest[..rest.len().min(2)]);
                    if count == 0 {
                        thread::yield_now();
                    }
                    rest = &rest[count..];
                }
            })
        };
        let (mut cursor, mut seen) = (consumer(), Vec::new());
        while seen.len() < values.len() {
            let some = ring.take(&mut cursor, ENTRIES);
            if some.is_empty() {
                thread::yield_now();
            }
            seen.extend(some);
        }
        other_side.join().unwrap();
        assert_eq!(seen, values);
    });
}

#[test]
fn loom_a_chunk_is_touched_by_its_owner_alone_on_its_way_around() {
    bounded(3, || {
        let rings = RingPair::new();
        let (mut fill, mut rx) = (producer(), consumer());
        assert_eq!(rings.fill.put(&mut fill, &[0, 1]), 2);
        let kernel = {
            let rings = rings.clone();
            thread::spawn(move || rings.receive(0..4))
        };
        let mut next = 0;
        while next < 4 {
            let claim = rings.rx.take(&mut rx, ENTRIES);
            if claim.is_empty() {
                thread::yield_now();
            }
            for &chunk in &claim {
                let cell = &rings.chunks[chunk as usize];
                assert_eq!(cell.read(), next, "frames come in order, whole");
                // A claim may be changed.
                cell.write(u32::MAX);
                next += 1;
            }
            assert_eq!(rings.fill.put(&mut fill, &claim), claim.len(), "room for all chunks");
        }
        kernel.join().unwrap();
    });
}

/// One of two threads that take frames from a lane under one lock and give chunks back under
/// another; returns the frames that it got.
fn take_frames(
    rings: &RingPair,
    rx: &Mutex<ConsumerCursor>,
    fill: &Mutex<ProducerCursor>,
) -> Vec<u32> {
    let mut frames = Vec::new();
    for _ in 0..2 {
        let claim = rings.rx.take(&mut rx.lock().unwrap(), 1);
        for &chunk in &claim {
            let cell = &rings.chunks[chunk as usize];
            frames.push(cell.read());
            cell.write(u32::MAX);
        }
        assert_eq!(rings.fill.put(&mut fill.lock().unwrap(), &claim), claim.len());
    }
    frames
}

#[test]
fn loom_threads_that_share_the_ends_of_a_lane_get_each_frame_once() {
    bounded(2, || {
        let rings = RingPair::new();
        let mut fill = producer();
        assert_eq!(rings.fill.put(&mut fill, &[0, 1]), 2);
        let ends = Arc::new((Mutex::new(consumer()), Mutex::new(fill)));
        let kernel = {
            let rings = rings.clone();
            thread::spawn(move || rings.receive(0..2))
        };
        let other = {
            let (rings, ends) = (rings.clone(), ends.clone());
            thread::spawn(move || take_frames(&rings, &ends.0, &ends.1))
        };
        let mut frames = take_frames(&rings, &ends.0, &ends.1);
        frames.extend(other.join().unwrap());
        kernel.join().unwrap();
        let rest = rings.rx.take(&mut ends.0.lock().unwrap(), ENTRIES);
        frames.extend(rest.iter().map(|&chunk| rings.chunks[chunk as usize].read()));
        frames.sort_unstable();
        assert_eq!(frames, [0, 1]);
    });
}
