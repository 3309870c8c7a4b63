//! A receive ring in memory, as the data path of an AF_XDP socket sees one, without a kernel.
//!
//! Frames lie in chunks of one memory. The side of the kernel costs nothing but what a descriptor
//! does: it takes a free chunk from those that were given back, in whatever order they were, and
//! says which frame lies in it. No byte is written, so that what is measured is the receiver's
//! work. Frame `n` is stamped [`START_NS`]` + n`, and of the chunk's content, which begins with the
//! chunk's number, it has as many of the first bytes as its length says.

use ringside_core::limits::BATCH_FRAMES_MAX;
use ringside_core::{
    Batch, BatchOwner, Cause, FrameMeta, FrameSlot, Padded, Source, SourceCounters, SourceError,
    SourceInterface, Timestamp,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Stamp of frame 0, in nanoseconds of UTC.
pub const START_NS: u64 = 1_763_700_000_000_000_000;
/// Bytes of a chunk: half a page, as for frames of up to 1,514 bytes and their headroom.
pub const CHUNK_BYTES: usize = 2048;
/// Where a frame begins in its chunk (XDP_PACKET_HEADROOM).
pub const HEADROOM: usize = 256;
/// Longest frame.
pub const FRAME_BYTES_MAX: u32 = (CHUNK_BYTES - HEADROOM) as u32;

/// How long frames are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// All the same, in bytes.
    Fixed(u32),
    /// From the first to the second, in bytes, by their number.
    Mixed(u32, u32),
}

impl Sizes {
    /// Bytes of frame `number`, at most [`FRAME_BYTES_MAX`].
    pub fn of(self, number: u64) -> u32 {
        let bytes = match self {
            Sizes::Fixed(bytes) => bytes,
            Sizes::Mixed(least, most) => {
                // Fibonacci hashing: near numbers get sizes that are far apart.
                let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
                least + (mixed % u64::from(most - least + 1)) as u32
            }
        };
        bytes.min(FRAME_BYTES_MAX)
    }
}

/// What the ring receives.
#[derive(Clone, Copy, Debug)]
pub struct MemoryRingConfig {
    /// Chunks, each for one frame.
    pub chunks: u32,
    /// How long frames are.
    pub sizes: Sizes,
    /// Frames until the ring is finished.
    pub frames: u64,
    /// Most frames of a batch, 1 to `BATCH_FRAMES_MAX`.
    pub batch_frames: usize,
    /// Frames a second; as fast as they are taken if there is none.
    pub rate_per_sec: Option<f64>,
}

/// One thread's handle on the ring.
pub struct MemoryRing {
    lane: Arc<Lane>,
    slots: Vec<FrameSlot>,
    lent: Lent,
}

struct Lane {
    config: MemoryRingConfig,
    memory: Vec<u8>,
    interfaces: Vec<SourceInterface>,
    receive: Padded<Mutex<Receive>>,
    free: Padded<Mutex<FreeChunks>>,
}

/// The taking end.
#[derive(Default)]
struct Receive {
    /// Number of the next frame.
    next: u64,
    /// Frames that found no free chunk; they have no number.
    dropped: u64,
    started: Option<Instant>,
    detached: bool,
}

/// The giving end. Chunks are kept as runs of neighbours, so that recycling a batch touches next to
/// no memory.
struct FreeChunks {
    runs: VecDeque<Range<u32>>,
    count: u32,
    /// A bit for each chunk.
    is_lent: Vec<u64>,
}

/// The chunks of a batch that is out.
struct Lent {
    lane: Arc<Lane>,
    runs: RefCell<Vec<Range<u32>>>,
}

impl BatchOwner for Lent {
    fn memory(&self) -> &[u8] {
        &self.lane.memory
    }

    fn give_back(&self) {
        self.lane.free().give_back(&mut self.runs.borrow_mut());
    }
}

impl FreeChunks {
    fn new(chunks: u32) -> FreeChunks {
        let is_lent = vec![0; chunks.div_ceil(u64::BITS) as usize];
        FreeChunks { runs: VecDeque::from_iter(std::iter::once(0..chunks)), count: chunks, is_lent }
    }

    fn give_back(&mut self, runs: &mut Vec<Range<u32>>) {
        for run in runs.drain(..) {
            self.mark(&run, false);
            self.count += run.end - run.start;
            match self.runs.back_mut() {
                Some(last) if last.end == run.start => last.end = run.end,
                _ => self.runs.push_back(run),
            }
        }
    }

    /// Takes up to `count` chunks; returns how many.
    fn take(&mut self, count: u32, taken: &mut Vec<Range<u32>>) -> u32 {
        let mut left = count;
        while left > 0 {
            let Some(first) = self.runs.front_mut() else { break };
            let end = first.end.min(first.start + left);
            let run = first.start..end;
            first.start = end;
            if first.start == first.end {
                self.runs.pop_front();
            }
            left -= run.end - run.start;
            self.mark(&run, true);
            taken.push(run);
        }
        self.count -= count - left;
        count - left
    }

    /// Notes who has the chunks of a run, which the other side had until now.
    fn mark(&mut self, run: &Range<u32>, is_lent: bool) {
        let mut next = run.start;
        while next < run.end {
            let bit = next % u64::BITS;
            let bits = (u64::BITS - bit).min(run.end - next);
            let mask = (u64::MAX >> (u64::BITS - bits)) << bit;
            let word = &mut self.is_lent[(next / u64::BITS) as usize];
            assert_eq!(
                *word & mask,
                if is_lent { 0 } else { mask },
                "chunks {run:?} changed sides"
            );
            *word ^= mask;
            next += bits;
        }
    }
}

impl Lane {
    fn receive(&self) -> MutexGuard<'_, Receive> {
        self.receive.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn free(&self) -> MutexGuard<'_, FreeChunks> {
        self.free.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Frames that are there to be taken. Those that came while all chunks were taken are dropped.
    fn waiting(&self, receive: &mut Receive) -> u64 {
        let left = self.config.frames - receive.next.min(self.config.frames);
        let Some(rate) = self.config.rate_per_sec else { return left };
        let elapsed = receive.started.map_or(0.0, |start| start.elapsed().as_secs_f64());
        let came = ((elapsed * rate) as u64).saturating_sub(receive.next + receive.dropped);
        let room = u64::from(self.free().count);
        if came > room {
            receive.dropped += came - room;
        }
        came.min(room).min(left)
    }
}

impl MemoryRing {
    /// The first handle on a new ring, whose memory is touched.
    ///
    /// # Panics
    /// If there is no chunk, or a batch would be empty or too large.
    pub fn new(config: MemoryRingConfig) -> MemoryRing {
        assert!(config.chunks > 0, "a ring has chunks");
        assert!((1..=BATCH_FRAMES_MAX).contains(&config.batch_frames), "frames of a batch");
        let mut memory = vec![0; config.chunks as usize * CHUNK_BYTES];
        for (number, chunk) in (0..).zip(memory.chunks_exact_mut(CHUNK_BYTES)) {
            write_content(number, &mut chunk[HEADROOM..]);
        }
        let interface = SourceInterface::ethernet("memory0");
        let free = FreeChunks::new(config.chunks);
        let lane = Lane {
            config,
            memory,
            interfaces: vec![interface],
            receive: Padded::default(),
            free: Padded(Mutex::new(free)),
        };
        MemoryRing::handle(Arc::new(lane))
    }

    fn handle(lane: Arc<Lane>) -> MemoryRing {
        let lent = Lent { lane: lane.clone(), runs: RefCell::default() };
        MemoryRing { lane, slots: Vec::with_capacity(BATCH_FRAMES_MAX), lent }
    }

    /// One more handle on the lane.
    pub fn another(&self) -> MemoryRing {
        MemoryRing::handle(self.lane.clone())
    }

    /// Chunks that are free.
    pub fn free_chunks(&self) -> usize {
        self.lane.free().count as usize
    }
}

/// The content of a chunk: its number, then bytes that follow from it.
fn write_content(number: u32, bytes: &mut [u8]) {
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = (number as usize * 31 + at * 7 + at / 256) as u8;
    }
    if let Some(first) = bytes.first_chunk_mut() {
        *first = number.to_be_bytes();
    }
}

/// True if `bytes` are the beginning of some chunk's content.
pub fn is_content(bytes: &[u8]) -> bool {
    let Some(number) = bytes.first_chunk().map(|number| u32::from_be_bytes(*number)) else {
        return false;
    };
    let mut expected = vec![0; bytes.len()];
    write_content(number, &mut expected);
    expected == bytes
}

impl Source for MemoryRing {
    fn start(&mut self) -> Result<(), SourceError> {
        self.lane.receive().started.get_or_insert_with(Instant::now);
        Ok(())
    }

    fn next_batch(&mut self, timeout: Duration) -> Result<Option<Batch<'_>>, SourceError> {
        let mut receive = self.lane.receive();
        let mut waiting = self.lane.waiting(&mut receive);
        if waiting == 0 && self.lane.config.rate_per_sec.is_some() && !receive.detached {
            // As a poll that ends when the next frame has come.
            std::thread::sleep(timeout.min(Duration::from_micros(50)));
            waiting = self.lane.waiting(&mut receive);
        }
        let count = waiting.min(self.lane.config.batch_frames as u64) as u32;
        let mut runs = self.lent.runs.borrow_mut();
        let count = self.lane.free().take(count, &mut runs);
        if count == 0 {
            return Ok(None);
        }
        let sizes = self.lane.config.sizes;
        let slot = |(number, chunk): (u64, u32)| {
            let bytes = sizes.of(number);
            let timestamp = Timestamp(START_NS + number);
            let meta = FrameMeta { timestamp, wire_bytes: bytes, ..FrameMeta::default() };
            FrameSlot::new(chunk as usize * CHUNK_BYTES + HEADROOM, bytes, meta)
        };
        self.slots.clear();
        self.slots.extend((receive.next..).zip(runs.iter().cloned().flatten()).map(slot));
        receive.next += u64::from(count);
        drop((receive, runs));
        Ok(Some(Batch::lent_by(&self.lent, &self.slots)))
    }

    fn is_finished(&self) -> bool {
        let receive = self.lane.receive();
        receive.detached || receive.next >= self.lane.config.frames
    }

    fn interfaces(&self) -> &[SourceInterface] {
        &self.lane.interfaces
    }

    fn counters(&mut self) -> SourceCounters {
        let receive = self.lane.receive();
        SourceCounters {
            received: Some(receive.next + receive.dropped),
            filtered: Some(0),
            dropped: [(Cause::KernelRingFull, receive.dropped)].into(),
            in_flight: Some(0),
            ..SourceCounters::default()
        }
    }

    fn low_water(&self) -> Timestamp {
        Timestamp(START_NS + self.lane.receive().next)
    }

    fn another_handle(&mut self) -> Option<Box<dyn Source>> {
        Some(Box::new(self.another()))
    }

    fn detach(&mut self) -> Result<(), SourceError> {
        self.lane.receive().detached = true;
        Ok(())
    }
}
