//! HPCAP's way (J. Zazo, "Captura de tráfico a 40 Gbps", 2016, section 3.2): each thread has a
//! fixed segment of the receive ring, each frame gets its place in the buffer by one atomic
//! addition, and descriptors go back to the card in order.
//!
//! Descriptors of a segment are returned once those of the segment before it were (algorithm 3.1).
//! The algorithm as printed sets the flag of the *previous* thread at the end of a segment; the
//! text says its own, which is what makes it go round, and what is done here.
//!
//! Also unlike the printed text: its bound on what a thread copies before it looks at the free
//! space again, an n-th of it, does not hold, since a thread that looks again does not know what
//! the others have left of theirs (two threads, 100 bytes free: each may copy 50; one copies its 50
//! and looks again, finds 50 and takes 25; together they may copy 125). Here the buffer is filled
//! once, and each reservation is checked.

use super::Setup;
use crate::memory_ring::{CHUNK_BYTES, HEADROOM, START_NS};

use ringside_core::limits::BATCH_FRAMES_MAX;
use ringside_core::{Direction, Frame, FrameMeta, Timestamp};
use ringside_store::block::{packet_block_bytes, write_packet_block};
use ringside_sys::flat::FlatBuffer;
use ringside_sys::thread;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The ring and what its threads share.
struct Ring<'r> {
    setup: &'r Setup,
    buffer: &'r FlatBuffer,
    memory: &'r [u8],
    /// Frames until it is finished.
    frames: u64,
    /// Descriptors of a segment.
    segment: u64,
    /// Descriptors of the whole ring.
    descriptors: u64,
    order: ReturnOrder,
    start: Instant,
}

/// Who may return descriptors, and how many were.
pub(super) struct ReturnOrder {
    /// Descriptors that were returned, all of them in order.
    returned: AtomicU64,
    /// For each thread: it has returned the last descriptor of its segment (*freed_last_rxd*).
    freed_last: Vec<AtomicBool>,
}

impl ReturnOrder {
    pub(super) fn new(threads: usize) -> ReturnOrder {
        let freed_last = (0..threads).map(|_| AtomicBool::new(false)).collect();
        ReturnOrder { returned: AtomicU64::new(0), freed_last }
    }

    pub(super) fn returned(&self) -> u64 {
        self.returned.load(Ordering::Acquire)
    }

    /// Returns the descriptors of `thread` up to before number `to`, if it may; `can_free` is the
    /// thread's own variable of that name. True if they were.
    pub(super) fn free(
        &self,
        thread: usize,
        can_free: &mut bool,
        to: u64,
        is_last_in_segment: bool,
    ) -> bool {
        let threads = self.freed_last.len();
        let previous = &self.freed_last[(thread + threads - 1) % threads];
        if !*can_free && previous.load(Ordering::Acquire) {
            previous.store(false, Ordering::Relaxed);
            *can_free = true;
        }
        if !*can_free {
            return false;
        }
        self.returned.store(to, Ordering::Release);
        if is_last_in_segment {
            self.freed_last[thread].store(true, Ordering::Release);
            *can_free = false;
        }
        true
    }
}

/// Drains `frames` frames; returns what each thread took, and the time.
pub(super) fn run(setup: &Setup, frames: u64, buffer: &FlatBuffer) -> (Vec<u64>, Duration) {
    let threads = setup.threads;
    let segment = (u64::from(setup.descriptors) / threads as u64).max(1);
    let descriptors = segment * threads as u64;
    let memory = vec![0x5a; descriptors as usize * CHUNK_BYTES];
    let barrier = Barrier::new(threads + 1);
    let ring = Ring {
        setup,
        buffer,
        memory: &memory,
        frames,
        segment,
        descriptors,
        order: ReturnOrder::new(threads),
        start: Instant::now(),
    };
    let (ring, barrier) = (&ring, &barrier);
    let taken = std::thread::scope(|scope| {
        let thread = |thread| {
            scope.spawn(move || {
                barrier.wait();
                ring.drain(thread)
            })
        };
        let threads: Vec<_> = (0..threads).map(thread).collect();
        barrier.wait();
        threads.into_iter().map(|thread| thread.join().unwrap_or(0)).collect()
    });
    (taken, ring.start.elapsed())
}

impl Ring<'_> {
    /// One thread to its end; returns the frames that it took.
    fn drain(&self, thread: usize) -> u64 {
        if let Some(cpu) = self.setup.cpu(thread) {
            // Where it runs instead shows in the rate.
            let _ = thread::pin_to_cpu(cpu);
        }
        let mut can_free = thread == 0;
        let mut taken = 0;
        let mut begin = thread as u64 * self.segment;
        while begin < self.frames {
            let end = begin + self.segment;
            let (mut next, mut freed) = (begin, begin);
            while freed < end.min(self.frames) {
                let came = self.came().min(end);
                let to = came.min(next + BATCH_FRAMES_MAX as u64).max(next);
                taken += self.copy(next, to);
                next = to;
                if next == freed {
                    std::hint::spin_loop();
                } else if self.order.free(thread, &mut can_free, next, next == end) {
                    freed = next;
                }
            }
            begin += self.descriptors;
        }
        taken
    }

    /// Frames that have come: one for each descriptor that the card has.
    fn came(&self) -> u64 {
        let room = self.order.returned() + self.descriptors;
        let in_time = self
            .setup
            .rate_per_sec
            .map_or(u64::MAX, |rate| (self.start.elapsed().as_secs_f64() * rate) as u64);
        room.min(in_time).min(self.frames)
    }

    /// Copies frames into the buffer, each to a place of its own; returns how many fitted.
    fn copy(&self, from: u64, to: u64) -> u64 {
        let captured = self.setup.frame_bytes as usize;
        let bytes = packet_block_bytes(captured, Direction::Unknown);
        let mut copied = 0;
        for number in from..to {
            let at = (number % self.descriptors) as usize * CHUNK_BYTES + HEADROOM;
            let meta = FrameMeta {
                timestamp: Timestamp(START_NS + number),
                wire_bytes: captured as u32,
                ..FrameMeta::default()
            };
            let frame = Frame { bytes: &self.memory[at..at + captured], meta };
            if let Some(mut part) = self.buffer.reserve(bytes) {
                write_packet_block(&mut part, &frame, 0);
                copied += 1;
            }
        }
        copied
    }
}
