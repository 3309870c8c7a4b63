//! A source of numbered frames, and reading back what a run wrote.

#![allow(dead_code, reason = "each test program uses some of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use ringside_capture::run::LaneSource;
use ringside_core::limits::BATCH_FRAMES_MAX;
use ringside_core::{
    Batch, FrameMeta, FrameSlot, InterfaceId, OwnedFrame, Source, SourceCounters, SourceError,
    SourceInterface, Timestamp,
};
use std::path::Path;
use std::time::Duration;

/// A source that gives frames 0, 1, 2, … of mixed sizes, stamped a microsecond apart.
pub struct Numbered {
    interface: u32,
    interfaces: Vec<SourceInterface>,
    count: u64,
    next: u64,
    fails_at: Option<u64>,
    pause: Duration,
    batch: u64,
    memory: Vec<u8>,
    slots: Vec<FrameSlot>,
    detached: bool,
}

const START_NS: u64 = 1_763_700_000_000_000_000;

impl Numbered {
    pub fn new(interface: u32, count: u64) -> Numbered {
        let interfaces = vec![SourceInterface::ethernet(format!("test{interface}"))];
        Numbered {
            interface,
            interfaces,
            count,
            next: 0,
            fails_at: None,
            pause: Duration::ZERO,
            batch: BATCH_FRAMES_MAX as u64,
            memory: Vec::new(),
            slots: Vec::new(),
            detached: false,
        }
    }

    pub fn failing_after(self, frames: u64) -> Numbered {
        Numbered { fails_at: Some(frames), ..self }
    }

    pub fn with_pause(self, pause: Duration) -> Numbered {
        self.in_batches(1, pause)
    }

    /// Gives `batch` frames after each `pause`.
    pub fn in_batches(self, batch: u64, pause: Duration) -> Numbered {
        Numbered { batch, pause, ..self }
    }

    /// Frame `number` of `interface`: 60 to 1,213 bytes.
    pub fn bytes(interface: u32, number: u64) -> Vec<u8> {
        let length = 60 + (number * 7919 % 1154) as usize;
        let mut bytes = vec![number as u8; length];
        bytes[..4].copy_from_slice(&interface.to_be_bytes());
        bytes[4..12].copy_from_slice(&number.to_be_bytes());
        bytes
    }

    fn end(&self) -> u64 {
        self.fails_at.unwrap_or(self.count).min(self.count)
    }
}

impl Source for Numbered {
    fn next_batch(&mut self, _timeout: Duration) -> Result<Option<Batch<'_>>, SourceError> {
        std::thread::sleep(self.pause);
        if self.fails_at == Some(self.next) {
            self.count = self.next;
            let (name, event) = (self.interfaces[0].name.clone(), "was removed".into());
            return Err(SourceError::InterfaceGone { name, event });
        }
        let frames = (self.end() - self.next).min(self.batch);
        if frames == 0 {
            return Ok(None);
        }
        self.memory.clear();
        self.slots.clear();
        for number in self.next..self.next + frames {
            let bytes = Numbered::bytes(self.interface, number);
            let meta = FrameMeta {
                timestamp: Timestamp(START_NS + number * 1000),
                interface: InterfaceId(self.interface),
                ..FrameMeta::default()
            };
            self.slots.push(FrameSlot::new(self.memory.len(), bytes.len() as u32, meta));
            self.memory.extend(bytes);
        }
        self.next += frames;
        Ok(Some(Batch::new(&self.memory, &self.slots)))
    }

    fn is_finished(&self) -> bool {
        self.next == self.count
    }

    fn interfaces(&self) -> &[SourceInterface] {
        &self.interfaces
    }

    fn counters(&mut self) -> SourceCounters {
        SourceCounters { received: Some(self.next), filtered: Some(0), ..Default::default() }
    }

    fn low_water(&self) -> Timestamp {
        Timestamp(START_NS + self.next * 1000)
    }

    fn detach(&mut self) -> Result<(), SourceError> {
        self.detached = true;
        self.count = self.next;
        Ok(())
    }
}

/// A source whose counters were falsified.
pub struct Falsified {
    pub source: Numbered,
    pub by: fn(&mut SourceCounters),
}

impl Source for Falsified {
    fn next_batch(&mut self, timeout: Duration) -> Result<Option<Batch<'_>>, SourceError> {
        self.source.next_batch(timeout)
    }

    fn is_finished(&self) -> bool {
        self.source.is_finished()
    }

    fn interfaces(&self) -> &[SourceInterface] {
        self.source.interfaces()
    }

    fn counters(&mut self) -> SourceCounters {
        let mut counters = self.source.counters();
        (self.by)(&mut counters);
        counters
    }

    fn low_water(&self) -> Timestamp {
        self.source.low_water()
    }

    fn detach(&mut self) -> Result<(), SourceError> {
        self.source.detach()
    }
}

/// Lanes and interfaces of a run over `sources`, whose interface ids are 0, 1, …
pub fn lanes(sources: Vec<Numbered>) -> (Vec<LaneSource>, Vec<SourceInterface>) {
    let interfaces = sources.iter().map(|source| source.interfaces[0].clone()).collect();
    let lane = |source: Numbered| LaneSource {
        interface: source.interfaces[0].name.clone(),
        interface_id: InterfaceId(source.interface),
        queue: 0,
        source: Box::new(source),
    };
    (sources.into_iter().map(lane).collect(), interfaces)
}

/// The frames of a file, by the project's own reader.
pub fn frames_of(path: &Path) -> Vec<OwnedFrame> {
    let mut source = ringside_store::reader::FileSource::open(path).unwrap();
    let mut frames = Vec::new();
    while !source.is_finished() {
        if let Some(batch) = source.next_batch(Duration::ZERO).unwrap() {
            frames.extend(batch.iter().map(|frame| frame.to_owned_frame()));
        }
    }
    frames
}

/// The numbers in the frames.
pub fn numbers(frames: &[OwnedFrame]) -> Vec<u64> {
    let number = |frame: &OwnedFrame| u64::from_be_bytes(*frame.bytes[4..].first_chunk().unwrap());
    frames.iter().map(number).collect()
}
