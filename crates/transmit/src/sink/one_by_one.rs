//! Sinks that hand frames over one by one: a call says of each whether it was taken, and one that
//! found no room was not offered.

use super::SinkKind;
use super::outlet::Outlet;
use crate::interface;
use ringside_core::{ChecksumRequest, Refusal, Sink, SinkCounters, SinkError, SinkFeatures};
use std::io;
use std::time::Duration;

/// What became of a frame.
pub enum Outcome {
    /// It was taken.
    Sent,
    /// There was no room: it may be tried again.
    NoRoom,
    /// It was refused, with the system's reason.
    Refused(io::Error),
}

/// What takes frames.
pub trait Taker: Send {
    /// The kind of sink that it is.
    const KIND: SinkKind;
    /// Hands a frame over.
    fn send(&mut self, frame: &[u8]) -> Outcome;
    /// Has what waits sent, where something may.
    fn flush(&mut self) {}
}

/// A sink over such a taker.
pub struct OneByOne<T> {
    outlet: Outlet,
    taker: T,
    frame: Vec<u8>,
    counters: SinkCounters,
}

impl<T: Taker> OneByOne<T> {
    pub(super) fn new(outlet: Outlet, taker: T) -> OneByOne<T> {
        let frame = vec![0; outlet.frame_bytes_max()];
        OneByOne { outlet, taker, frame, counters: SinkCounters::default() }
    }

    /// False if there was no room yet: then the frame was not offered.
    fn hand_over(&mut self, bytes: usize) -> Result<bool, SinkError> {
        let outcome = self.taker.send(&self.frame[..bytes]);
        if matches!(outcome, Outcome::NoRoom) {
            return Ok(false);
        }
        self.counters.offered += 1;
        self.counters.offered_bytes += bytes as u64;
        let Outcome::Refused(error) = outcome else {
            self.counters.accepted += 1;
            return Ok(true);
        };
        let cause = interface::refusal(&error);
        self.counters.refuse(cause, 1);
        match cause {
            Refusal::InterfaceGone | Refusal::Other => Err(self.outlet.failed(error)),
            _ => Ok(true),
        }
    }
}

impl<T: Taker> Sink for OneByOne<T> {
    fn name(&self) -> &'static str {
        T::KIND.name()
    }

    fn features(&self) -> SinkFeatures {
        SinkFeatures::whole_frames(self.outlet.frame_bytes_max())
    }

    fn put(
        &mut self,
        bytes: usize,
        checksum: Option<ChecksumRequest>,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<bool, SinkError> {
        self.outlet.check(bytes, checksum, false)?;
        write(&mut self.frame[..bytes]);
        self.hand_over(bytes)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.taker.flush();
        Ok(())
    }

    fn counters(&mut self) -> SinkCounters {
        self.counters.clone()
    }

    fn drain(&mut self, _timeout: Duration) -> (SinkCounters, Option<SinkError>) {
        self.taker.flush();
        self.outlet.has_ended = true;
        (self.counters(), None)
    }
}
