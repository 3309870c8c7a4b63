//! What the one copy costs: nanoseconds a frame for packing into the capture ring, compared with
//! the same loop that only looks at each frame.
//!
//! `cargo bench -p ringside-capture --bench copy` prints a table. For instruction counts run the
//! binary under callgrind with `--frames N --size B --mode ring|look` at two N and take the
//! difference: `bench/run` does. `ringside bench instructions` counts the whole program's.
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]

use ringside_capture::packer::{Packer, Reading};
use ringside_core::limits::BATCH_FRAMES_MAX;
use ringside_core::{Batch, FrameMeta, FrameSlot, InterfaceId, Timestamp};
use ringside_ring::{CaptureRing, HugePages, LosslessReader, RingLayout};
use std::hint::black_box;
use std::time::Instant;

const BLOCK_BYTES: usize = 1 << 20;
const FRAMES: u64 = 4_000_000;
const ROUNDS: usize = 5;

/// Frames as a kernel ring lends them: spread over 4 MiB, more than the second-level cache.
struct Input {
    memory: Vec<u8>,
    batches: Vec<Vec<FrameSlot>>,
}

impl Input {
    fn new(size: usize) -> Input {
        let stride = (size + 80).next_multiple_of(16);
        let memory = vec![0x5a; 4 << 20];
        let slots: Vec<_> = (0..memory.len() / stride)
            .map(|index| {
                let timestamp = Timestamp(index as u64);
                let meta = FrameMeta { timestamp, wire_bytes: size as u32, ..Default::default() };
                FrameSlot::new(index * stride, size as u32, meta)
            })
            .collect();
        let batches = slots.chunks(BATCH_FRAMES_MAX).map(<[_]>::to_vec).collect();
        Input { memory, batches }
    }

    /// Calls `each` for every batch until `frames` frames were lent.
    fn lend(&self, frames: u64, mut each: impl FnMut(&Batch<'_>)) {
        let mut left = frames;
        for slots in self.batches.iter().cycle() {
            let count = left.min(slots.len() as u64);
            each(&Batch::new(&self.memory, &slots[..count as usize]));
            left -= count;
            if left == 0 {
                break;
            }
        }
    }
}

fn drain(reader: &mut LosslessReader) {
    while reader.peek().is_some_and(|chunk| chunk.closed) {
        reader.consume();
    }
}

fn ring(input: &Input, frames: u64) -> f64 {
    let layout =
        RingLayout { lanes: 1, blocks_per_lane: 64, block_bytes: BLOCK_BYTES, lossless_readers: 1 };
    let ring = CaptureRing::create(layout, HugePages::Try).unwrap();
    let mut reader = ring.lossless_reader(0, 0).unwrap();
    let mut packer = Packer::new(ring.writer(0).unwrap(), InterfaceId(0), 0, BLOCK_BYTES);
    let reading = Reading::default();
    let start = Instant::now();
    input.lend(frames, |batch| {
        let put = packer.put(batch, batch.frame_count(), &reading);
        assert_eq!(put.taken, batch.frame_count() as u64);
        packer.publish(Timestamp(0));
        drain(&mut reader);
    });
    start.elapsed().as_nanos() as f64 / frames as f64
}

fn look(input: &Input, frames: u64) -> f64 {
    let start = Instant::now();
    let mut bytes = 0u64;
    input.lend(frames, |batch| {
        for frame in batch.iter() {
            bytes += black_box(frame.bytes).len() as u64;
        }
    });
    black_box(bytes);
    start.elapsed().as_nanos() as f64 / frames as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn option(name: &str) -> Option<String> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1)
}

fn main() {
    let frames = option("--frames").map_or(FRAMES, |text| text.parse().unwrap());
    if let Some(mode) = option("--mode") {
        let input = Input::new(option("--size").unwrap().parse().unwrap());
        let run = if mode == "ring" { ring } else { look };
        black_box(run(&input, frames));
        return;
    }
    println!("frame_bytes,ns_per_frame_ring,ns_per_frame_look,ns_per_frame_copy");
    for size in [64, 512, 1514] {
        let input = Input::new(size);
        let rounds = |run: fn(&Input, u64) -> f64| {
            median((0..ROUNDS).map(|_| run(&input, frames)).collect())
        };
        let (with, without) = (rounds(ring), rounds(look));
        println!("{size},{with:.1},{without:.1},{:.1}", with - without);
    }
}
