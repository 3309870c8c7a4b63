//! Sinks that put frames into places of a ring, of which the kernel says later what became.

use super::SinkKind;
use super::outlet::Outlet;
use ringside_core::{ChecksumRequest, Refusal, Sink, SinkCounters, SinkError, SinkFeatures};
use std::io;
use std::time::{Duration, Instant};

/// Frames after which they are handed over unasked: beyond that the call does not show.
const FLUSH_FRAMES: u32 = 64;

/// How often is looked whether the driver takes more.
const LOOK_INTERVAL: Duration = Duration::from_micros(100);

/// Such a ring.
pub trait Places: Send {
    /// The kind of sink that it is.
    const KIND: SinkKind;
    /// True if a frame of this length has room.
    fn has_room(&mut self, bytes: usize) -> bool;
    /// Puts a frame, for which there is room, if `write` says that it is to be sent: whether it is.
    ///
    /// # Errors
    /// The ring is damaged.
    fn put(
        &mut self,
        bytes: usize,
        write: impl FnOnce(&mut [u8]) -> bool,
    ) -> Result<bool, SinkError>;
    /// Hands over what was put, and counts what became of frames.
    ///
    /// # Errors
    /// The system refused.
    fn hand_over(&mut self, counters: &mut SinkCounters) -> io::Result<()>;
    /// Frames of which is not known yet what became of them.
    fn waiting(&self) -> u64;
}

/// A sink over such a ring.
pub struct RingSink<R> {
    outlet: Outlet,
    ring: R,
    unflushed: u32,
    counters: SinkCounters,
}

impl<R: Places> RingSink<R> {
    pub(super) fn new(outlet: Outlet, ring: R) -> RingSink<R> {
        RingSink { outlet, ring, unflushed: 0, counters: SinkCounters::default() }
    }

    fn has_room(&mut self, bytes: usize) -> Result<bool, SinkError> {
        if self.ring.has_room(bytes) {
            return Ok(true);
        }
        self.flush()?;
        let has_room = self.ring.has_room(bytes);
        if !has_room {
            // Some rings of an interface that is gone stay full without a word.
            self.outlet.check_up()?;
        }
        Ok(has_room)
    }
}

impl<R: Places> Sink for RingSink<R> {
    fn name(&self) -> &'static str {
        R::KIND.name()
    }

    fn features(&self) -> SinkFeatures {
        SinkFeatures::whole_frames(self.outlet.frame_bytes_max())
    }

    #[inline]
    fn put(
        &mut self,
        bytes: usize,
        checksum: Option<ChecksumRequest>,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<bool, SinkError> {
        self.outlet.check(bytes, checksum, false)?;
        if !self.has_room(bytes)? {
            return Ok(false);
        }
        let outlet = &self.outlet;
        let was_put = self.ring.put(bytes, |place| {
            write(place);
            // The kernel would pass over it without a word.
            outlet.is_short_enough(place)
        })?;
        self.counters.offered += 1;
        self.counters.offered_bytes += bytes as u64;
        self.counters.refuse(Refusal::TooLong, u64::from(!was_put));
        self.unflushed += 1;
        if self.unflushed >= FLUSH_FRAMES {
            self.flush()?;
        }
        Ok(true)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.unflushed = 0;
        let done = self.ring.hand_over(&mut self.counters);
        done.map_err(|error| self.outlet.failed(error))
    }

    fn counters(&mut self) -> SinkCounters {
        self.counters.clone()
    }

    fn drain(&mut self, timeout: Duration) -> (SinkCounters, Option<SinkError>) {
        if self.outlet.has_ended {
            return (self.counters(), None);
        }
        let start = Instant::now();
        // What is sent at once comes back with the next call, at the earliest.
        let mut has_looked = false;
        let (rest, failure) = loop {
            let done = self.flush().and_then(|()| match self.ring.waiting() {
                0 => Ok(()),
                _ => self.outlet.check_up(),
            });
            match done {
                Ok(()) if self.ring.waiting() == 0 => break (Refusal::NotSent, None),
                Ok(()) if has_looked && start.elapsed() >= timeout => {
                    break (Refusal::NotSent, None);
                }
                Ok(()) => std::thread::sleep(LOOK_INTERVAL),
                Err(e @ SinkError::InterfaceGone { .. }) => {
                    break (Refusal::InterfaceGone, Some(e));
                }
                Err(e) => break (Refusal::Other, Some(e)),
            }
            has_looked = true;
        };
        self.counters.refuse(rest, self.ring.waiting());
        self.outlet.has_ended = true;
        (self.counters(), failure)
    }
}
