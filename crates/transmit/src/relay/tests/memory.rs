//! A source and a sink in memory.

use ringside_core::{
    Batch, ChecksumRequest, FrameMeta, FrameSlot, Refusal, Sink, SinkCounters, SinkError,
    SinkFeatures, Source, SourceCounters, SourceError, SourceInterface, Timestamp,
};
use ringside_wire::checksum;
use std::time::{Duration, Instant};

/// Lends frames in batches of 7.
pub struct MemorySource {
    memory: Vec<u8>,
    slots: Vec<FrameSlot>,
    at: usize,
    pub interfaces: Vec<SourceInterface>,
    pub is_file: bool,
}

impl MemorySource {
    pub fn new<'f>(frames: impl IntoIterator<Item = &'f [u8]>) -> MemorySource {
        let (mut memory, mut slots) = (Vec::new(), Vec::new());
        for frame in frames {
            slots.push(FrameSlot::new(memory.len(), frame.len() as u32, FrameMeta::default()));
            memory.extend(frame);
        }
        let interfaces = vec![SourceInterface::ethernet("in0")];
        MemorySource { memory, slots, at: 0, interfaces, is_file: false }
    }

    /// Keeps `bytes` of each frame.
    pub fn cut_to(mut self, bytes: u32) -> MemorySource {
        self.slots.iter_mut().for_each(|slot| *slot = slot.cut_to(bytes));
        self
    }
}

impl Source for MemorySource {
    fn next_batch(&mut self, _timeout: Duration) -> Result<Option<Batch<'_>>, SourceError> {
        let slots = &self.slots[self.at..self.slots.len().min(self.at + 7)];
        self.at += slots.len();
        Ok((!slots.is_empty()).then(|| Batch::new(&self.memory, slots)))
    }

    fn is_finished(&self) -> bool {
        self.at == self.slots.len()
    }

    fn interfaces(&self) -> &[SourceInterface] {
        &self.interfaces
    }

    fn counters(&mut self) -> SourceCounters {
        let received = Some(self.at as u64);
        SourceCounters { received, filtered: Some(0), ..SourceCounters::default() }
    }

    fn low_water(&self) -> Timestamp {
        Timestamp(0)
    }

    fn can_wait(&self) -> bool {
        self.is_file
    }

    fn detach(&mut self) -> Result<(), SourceError> {
        Ok(())
    }
}

/// Keeps what is put; finishes checksums as a card does.
pub struct MemorySink {
    pub features: SinkFeatures,
    pub frames: Vec<Vec<u8>>,
    pub counters: SinkCounters,
    /// Puts that find no room, each before one that does.
    pub full: usize,
    /// The time between two puts that find room.
    pub pause: Duration,
    last: Option<Instant>,
    /// It fails at the put with this number, once it has the frame.
    pub fails_at: Option<u64>,
    turns: usize,
}

impl MemorySink {
    /// As an interface of this MTU.
    pub fn new(mtu_bytes: usize) -> MemorySink {
        let features = SinkFeatures::whole_frames(mtu_bytes + 18);
        let (frames, counters) = (Vec::new(), SinkCounters::default());
        MemorySink {
            features,
            frames,
            counters,
            full: 0,
            pause: Duration::ZERO,
            last: None,
            fails_at: None,
            turns: 0,
        }
    }
}

impl Sink for MemorySink {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn features(&self) -> SinkFeatures {
        self.features
    }

    fn put(
        &mut self,
        bytes: usize,
        request: Option<ChecksumRequest>,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<bool, SinkError> {
        assert!((14..=self.features.frame_bytes_max).contains(&bytes), "{bytes} bytes");
        assert!(request.is_none() || self.features.checksums);
        self.turns += 1;
        let is_early = self.last.is_some_and(|last| last.elapsed() < self.pause);
        if is_early || !self.turns.is_multiple_of(self.full + 1) {
            return Ok(false);
        }
        self.last = Some(Instant::now());
        let mut frame = vec![0xee; bytes];
        write(&mut frame);
        if let Some(request) = request {
            let sum = checksum::checksum(&frame[usize::from(request.start)..]);
            // As all cards do for UDP, and none needs for TCP.
            let sum = if sum == 0 && request.offset == 6 { 0xffff } else { sum };
            frame[request.end() - 2..request.end()].copy_from_slice(&sum.to_be_bytes());
        }
        self.counters.offered += 1;
        self.counters.offered_bytes += bytes as u64;
        if self.fails_at == Some(self.counters.offered) {
            self.counters.refuse(Refusal::InterfaceGone, 1);
            let (name, event) = ("out0".to_owned(), "was removed".to_owned());
            return Err(SinkError::InterfaceGone { name, event });
        }
        self.counters.accepted += 1;
        self.frames.push(frame);
        Ok(true)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn counters(&mut self) -> SinkCounters {
        self.counters.clone()
    }

    fn drain(&mut self, _timeout: Duration) -> (SinkCounters, Option<SinkError>) {
        (self.counters(), None)
    }
}
