//! A sink that loses frames, so that retransmission has something to do.

use ringside_core::{ChecksumRequest, Sink, SinkCounters, SinkError, SinkFeatures};
use std::ops::Range;
use std::time::Duration;

/// Passes frames on, but for each whose number is a multiple of `every`.
pub struct Lossy<S> {
    pub sink: S,
    /// 0 loses none.
    pub every: u64,
    /// Frames that were taken, lost ones too.
    pub taken: u64,
    pub lost: u64,
}

impl<S> Lossy<S> {
    pub fn new(sink: S, every: u64) -> Lossy<S> {
        Lossy { sink, every, taken: 0, lost: 0 }
    }

    /// Passes a frame on by `put`, or loses it.
    fn pass(
        &mut self,
        put: impl FnOnce(&mut S) -> Result<bool, SinkError>,
    ) -> Result<bool, SinkError> {
        let is_lost = self.every > 0 && (self.taken + 1).is_multiple_of(self.every);
        let is_taken = is_lost || put(&mut self.sink)?;
        self.taken += u64::from(is_taken);
        self.lost += u64::from(is_lost);
        Ok(is_taken)
    }
}

impl<S: Sink> Sink for Lossy<S> {
    fn name(&self) -> &'static str {
        self.sink.name()
    }

    fn features(&self) -> SinkFeatures {
        self.sink.features()
    }

    fn put(
        &mut self,
        bytes: usize,
        checksum: Option<ChecksumRequest>,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<bool, SinkError> {
        self.pass(|sink| sink.put(bytes, checksum, write))
    }

    fn put_chain(
        &mut self,
        header_bytes: usize,
        checksum: Option<ChecksumRequest>,
        write: impl FnOnce(&mut [u8]),
        pieces: &[Range<usize>],
    ) -> Result<bool, SinkError> {
        self.pass(|sink| sink.put_chain(header_bytes, checksum, write, pieces))
    }

    fn write_payload(
        &mut self,
        range: Range<usize>,
        write: impl FnMut(&mut [u8]),
    ) -> Result<bool, SinkError> {
        self.sink.write_payload(range, write)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.sink.flush()
    }

    fn counters(&mut self) -> SinkCounters {
        self.sink.counters()
    }

    fn drain(&mut self, timeout: Duration) -> (SinkCounters, Option<SinkError>) {
        self.sink.drain(timeout)
    }
}
