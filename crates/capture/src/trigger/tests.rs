//! Both rings in memory, the trigger between them.

use super::*;
use ringside_core::LinkType;
use ringside_core::bpf::ClassicProgram;
use ringside_core::{FrameMeta, InterfaceId};
use ringside_filter::{Compiler, compile};
use ringside_ring::{HugePages, LosslessReader, RingLayout};
use std::thread::JoinHandle;

const BLOCK_BYTES: usize = 512 << 10;
const HIT: u8 = 0xaa;

fn ring(blocks_per_lane: usize, lanes: usize) -> Arc<CaptureRing> {
    let layout =
        RingLayout { lanes, blocks_per_lane, block_bytes: BLOCK_BYTES, lossless_readers: 1 };
    CaptureRing::create(layout, HugePages::No).unwrap()
}

/// Frames whose first byte is `HIT`.
fn hits() -> Prepared {
    let program: ClassicProgram =
        compile("ether[0] = 0xaa", LinkType::ETHERNET, 0, &Compiler::InProcess { optimise: true })
            .unwrap()
            .program;
    Prepared::new(&program).unwrap()
}

struct Rig {
    packers: Vec<Packer>,
    readers: Vec<LosslessReader>,
    counts: Arc<ConsumerCounts>,
    thread: JoinHandle<TriggerSummary>,
}

impl Rig {
    fn new(lanes: usize, blocks: (usize, usize), before_ns: u64, after_ns: u64) -> Rig {
        let (first, second) = (ring(blocks.0, lanes), ring(blocks.1, lanes));
        let packer = |ring: &Arc<CaptureRing>, lane| {
            Packer::new(ring.writer(lane).unwrap(), InterfaceId(0), 0, BLOCK_BYTES)
        };
        let lane = |lane| {
            let reader = first.block_reader(lane, 0).unwrap();
            let status = Arc::new(LaneStatus::default());
            TriggerLane::new(lane, first.clone(), reader, packer(&second, lane), status)
        };
        let counts = Arc::new(ConsumerCounts::default());
        let trigger = Trigger {
            lanes: (0..lanes).map(lane).collect(),
            config: TriggerConfig {
                filters: vec![hits()],
                before: Duration::from_nanos(before_ns),
                after: Duration::from_nanos(after_ns),
            },
            counts: counts.clone(),
            control: Arc::new(Control::new(None)),
        };
        Rig {
            packers: (0..lanes).map(|lane| packer(&first, lane)).collect(),
            readers: (0..lanes).map(|lane| second.lossless_reader(lane, 0).unwrap()).collect(),
            counts,
            thread: std::thread::spawn(move || trigger.run()),
        }
    }

    /// Puts a frame of `bytes` bytes, and waits for room as no capture would.
    fn put(&mut self, lane: usize, stamp: u64, is_hit: bool, bytes: usize) {
        let mut memory = vec![0; bytes];
        memory[0] = if is_hit { HIT } else { 0 };
        let meta = FrameMeta { timestamp: Timestamp(stamp), ..FrameMeta::default() };
        let slots = [FrameSlot::new(0, bytes as u32, meta)];
        let batch = Batch::new(&memory, &slots);
        while self.packers[lane].put_while_free(
            &Offered::of(&batch),
            0..1,
            &Reading::default(),
            &mut Put::default(),
        ) == 0
        {
            self.packers[lane].publish(Timestamp(stamp));
            std::thread::yield_now();
        }
        self.packers[lane].publish(Timestamp(stamp));
    }

    /// Ends the first ring; gives the stamps that came through, lane by lane, and the summary.
    fn finish(mut self) -> (Vec<Vec<u64>>, TriggerSummary, Arc<ConsumerCounts>) {
        for packer in self.packers.drain(..) {
            packer.finish(&Reading::default());
        }
        let mut kept = vec![Vec::new(); self.readers.len()];
        while !self.readers.iter().all(LosslessReader::is_finished) {
            for (reader, kept) in self.readers.iter_mut().zip(&mut kept) {
                let Some(chunk) = reader.peek() else { continue };
                let frames = blocks(chunk.bytes).filter_map(|(_, block)| packet(block));
                kept.extend(frames.map(|frame| frame.meta.timestamp.0));
                reader.consume();
            }
            std::thread::yield_now();
        }
        (kept, self.thread.join().unwrap(), self.counts)
    }
}

fn outside(counts: &ConsumerCounts) -> u64 {
    counts.missed().get(&Cause::OutsideTrigger).copied().unwrap_or_default()
}

#[test]
fn what_surrounds_a_hit_is_kept_in_every_lane_and_nothing_else() {
    let mut rig = Rig::new(2, (8, 4), 30, 60);
    for stamp in 1..=1000 {
        rig.put(0, stamp, stamp == 100 || stamp == 130 || stamp == 700, 80);
        rig.put(1, stamp, false, 90);
    }
    let (kept, summary, counts) = rig.finish();
    let expected: Vec<u64> = (70..=190).chain(670..=760).collect();
    assert!(kept[0] == expected && kept[1] == expected);
    assert_eq!(summary, TriggerSummary { hits: 3, given_up_early: 0 });
    assert_eq!(outside(&counts), 2000 - 2 * expected.len() as u64);
}

#[test]
fn without_a_hit_nothing_passes_and_memory_goes_round() {
    let mut rig = Rig::new(1, (4, 4), 1_000_000, 0);
    (1..=20_000).for_each(|stamp| rig.put(0, stamp, false, 1000));
    let (kept, summary, counts) = rig.finish();
    assert!(kept[0].is_empty());
    assert_eq!(outside(&counts), 20_000);
    assert!(summary.given_up_early > 10_000, "{summary:?}");
}

#[test]
fn a_hit_reaches_as_far_back_as_memory_does() {
    let mut rig = Rig::new(1, (4, 4), 1_000_000, 0);
    (1..=19_999).for_each(|stamp| rig.put(0, stamp, false, 1000));
    rig.put(0, 20_000, true, 1000);
    let (kept, summary, counts) = rig.finish();
    let first = kept[0][0];
    assert!(kept[0].iter().copied().eq(first..=20_000), "from {first}");
    // Two blocks of half a MiB are held, and what is in the open one.
    assert!((18_000..19_600).contains(&first), "{first}");
    assert_eq!(outside(&counts), first - 1);
    assert_eq!(summary.hits, 1);
}

#[test]
fn everything_passes_when_everything_hits_and_a_slow_recorder_loses_nothing() {
    let mut rig = Rig::new(1, (8, 2), 5, 5);
    (1..=2_000).for_each(|stamp| rig.put(0, stamp, true, 1000));
    let (kept, summary, counts) = rig.finish();
    assert!(kept[0].iter().copied().eq(1..=2_000));
    assert_eq!((summary.hits, outside(&counts)), (2_000, 0));
}

#[test]
fn a_small_memory_at_full_rate_is_no_bottleneck() {
    let mut rig = Rig::new(1, (4, 4), u64::MAX, 0);
    // Waits for room as `put` does: what counts is that it always comes, without a hit.
    (1..=60_000).for_each(|stamp| rig.put(0, stamp, stamp == 60_000, 1000));
    let (kept, _, counts) = rig.finish();
    assert_eq!(kept[0].len() as u64 + outside(&counts), 60_000);
    assert_eq!(kept[0].last(), Some(&60_000));
}
