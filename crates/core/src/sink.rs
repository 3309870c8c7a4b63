//! A sink: where frames go.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::time::Duration;
use thiserror::Error;

/// One transmit channel of one interface, for one thread.
///
/// - [`put`](Sink::put) has a frame written where the kernel, or the card, reads it.
///   [`put_chain`](Sink::put_chain) puts a frame whose payload lies in the sink's
///   [payload memory](Sink::write_payload) already; only its header is written.
/// - A frame that was put is *offered*. From then on it is in flight until the driver accepted it,
///   or something refused it; it is never offered twice.
/// - Frames wait until [`flush`](Sink::flush), or until there is no room for another.
/// - [`send`](Sink::send) takes frames that lie somewhere already, many a call, and hands them over
///   at once: what was captured, whether it is sent later, elsewhere or as a copy.
/// - [`drain`](Sink::drain) ends the sink: then nothing is in flight, and
///   `offered = accepted + Σ refused` to the frame.
///
/// The methods that take closures are generic, so that a loop over frames is one piece of code for
/// each backend; a caller that chooses the backend at run time uses an enum of them.
pub trait Sink: Send {
    /// The name of its kind, as `af-xdp`.
    fn name(&self) -> &'static str;

    /// What it can take.
    fn features(&self) -> SinkFeatures;

    /// Puts a frame of `bytes` bytes, all of which `write` writes; what stands there before means
    /// nothing. With `checksum` the kernel or the card fills a checksum in. `Ok(false)` says that
    /// there is no room now: nothing was offered, and `write` was not called.
    ///
    /// # Errors
    /// The frame is none that the sink takes: nothing was offered. Or the interface failed: the
    /// frame may be among those that were refused.
    fn put(
        &mut self,
        bytes: usize,
        checksum: Option<ChecksumRequest>,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<bool, SinkError>;

    /// Puts a frame that begins with `header_bytes` bytes, which `write` writes, and goes on with
    /// the `pieces` of the payload memory. The checksum's field lies in the header.
    ///
    /// # Errors
    /// As [`put`](Sink::put); more parts than the sink chains; pieces beyond its memory; a sink
    /// without chains.
    fn put_chain(
        &mut self,
        _header_bytes: usize,
        _checksum: Option<ChecksumRequest>,
        _write: impl FnOnce(&mut [u8]),
        _pieces: &[Range<usize>],
    ) -> Result<bool, SinkError> {
        Err(SinkError::lacks(self.name(), "chains"))
    }

    /// Has `write` write to `range` of the payload memory, in parts, from its beginning to its end.
    /// `Ok(false)` says that a frame in flight needs what stands there: nothing was written.
    ///
    /// # Errors
    /// It reaches beyond the memory, or there is none.
    fn write_payload(
        &mut self,
        _range: Range<usize>,
        _write: impl FnMut(&mut [u8]),
    ) -> Result<bool, SinkError> {
        Err(SinkError::lacks(self.name(), "payload memory"))
    }

    /// Offers the first of `frames`, in order and behind what was put before, and hands them over
    /// at once; says what became of them as far as that is known. How many it looks at is up to
    /// the sink: 64 at least. Of no frames it does nothing.
    ///
    /// A sink that can reads the frames where they lie (a packet socket); else each is copied once,
    /// as by [`put`](Sink::put).
    ///
    /// # Errors
    /// As [`put`](Sink::put), of the first frame that was not taken. How many were offered is what
    /// [`counters`](Sink::counters) has grown by.
    fn send(&mut self, frames: &[&[u8]]) -> Result<Handed, SinkError> {
        let mut taken = 0;
        for frame in frames {
            if !self.put(frame.len(), None, |slot| slot.copy_from_slice(frame))? {
                break;
            }
            taken += 1;
        }
        self.flush()?;
        Ok(Handed { taken, refused: None })
    }

    /// Hands over what was put, as far as there is room. Waits only where a system call of the
    /// backend does.
    ///
    /// # Errors
    /// The interface failed. What was put stays offered, and counted.
    fn flush(&mut self) -> Result<(), SinkError>;

    /// What was counted since the sink was opened.
    fn counters(&mut self) -> SinkCounters;

    /// Hands over the rest, waits at most `timeout` for what is in flight, and ends the sink. What
    /// could not be handed over by then is refused, and will not be sent. The first call
    /// also returns what went wrong meanwhile.
    fn drain(&mut self, timeout: Duration) -> (SinkCounters, Option<SinkError>);
}

/// What a sink can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkFeatures {
    /// Longest frame, in bytes: the interface's MTU, a link-layer header and a VLAN tag. A frame
    /// without a tag may be 4 bytes shorter at most; the kernel refuses longer ones.
    pub frame_bytes_max: usize,
    /// The pieces of a chain; `None` if the sink takes no chains.
    pub chains: Option<ChainFeatures>,
    /// It can have checksums filled in.
    pub checksums: bool,
}

impl SinkFeatures {
    /// Those of a sink that takes whole frames, as they are.
    pub fn whole_frames(frame_bytes_max: usize) -> SinkFeatures {
        SinkFeatures { frame_bytes_max, chains: None, checksums: false }
    }
}

/// What became of frames that were [sent](Sink::send) together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handed {
    /// This number, from the first on, was taken, or is in flight.
    pub taken: usize,
    /// Why the one behind them was refused, which is in the account. `None`: it was not offered;
    /// if there is one, the sink had no room. A sink whose driver says later what it refuses tells
    /// that in its account only. Where several were given at once the cause may be a guess
    /// (`NoRoom`), and the next call with this frame tells: that offers it once more.
    pub refused: Option<Refusal>,
}

/// What a sink can chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainFeatures {
    /// Most parts behind the header. A piece that crosses a multiple of `part_bytes` of the payload
    /// memory is two parts, or more.
    pub parts_max: usize,
    /// Bytes of a part.
    pub part_bytes: usize,
    /// Bytes of the payload memory.
    pub payload_bytes: usize,
}

/// A checksum that the kernel or the card is to fill in, as a packet of the host's own has it
/// (CHECKSUM_PARTIAL, include/linux/skbuff.h): the Internet checksum from `start` to the end of the
/// frame, over a field that holds the sum of the pseudo-header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecksumRequest {
    /// Where it begins, in bytes from the start of the frame.
    pub start: u16,
    /// Where its field is, in bytes from `start`.
    pub offset: u16,
}

impl ChecksumRequest {
    /// The first byte behind its field.
    pub fn end(self) -> usize {
        usize::from(self.start) + usize::from(self.offset) + 2
    }
}

/// Why frames were refused. Serialised in snake case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The driver, or what it sends to, had no room for it.
    NoRoom,
    /// It is longer than the interface takes.
    TooLong,
    /// The interface was set down or removed.
    InterfaceGone,
    /// It was not handed over before the end.
    NotSent,
    /// The system refused for another reason.
    Other,
}

impl Refusal {
    /// The name in output formats.
    pub fn name(self) -> &'static str {
        match self {
            Refusal::NoRoom => "no_room",
            Refusal::TooLong => "too_long",
            Refusal::InterfaceGone => "interface_gone",
            Refusal::NotSent => "not_sent",
            Refusal::Other => "other",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Every frame that was put.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkCounters {
    /// Frames that were put.
    pub offered: u64,
    /// Bytes of the offered frames.
    pub offered_bytes: u64,
    /// Frames that the driver took.
    pub accepted: u64,
    /// Frames that the driver did not take, by cause.
    pub refused: BTreeMap<Refusal, u64>,
}

impl SinkCounters {
    /// Frames refused, for whatever cause.
    pub fn refused_total(&self) -> u64 {
        self.refused.values().sum()
    }

    /// Frames of which is not known yet what became of them.
    pub fn in_flight(&self) -> u64 {
        self.offered.saturating_sub(self.accepted + self.refused_total())
    }

    /// True if nothing is in flight, and nothing was counted twice.
    pub fn is_balanced(&self) -> bool {
        self.offered == self.accepted + self.refused_total()
    }

    /// Adds frames that were refused.
    pub fn refuse(&mut self, cause: Refusal, frames: u64) {
        if frames > 0 {
            *self.refused.entry(cause).or_default() += frames;
        }
    }
}

/// Why a sink does not take a frame.
#[derive(Debug, Error)]
pub enum SinkError {
    /// The interface was removed or set down.
    #[error("interface {name} {event} while frames were sent; what was sent before is counted")]
    InterfaceGone {
        /// Name of the interface.
        name: String,
        /// What happened, as "was removed".
        event: String,
    },
    /// A value beyond its limit.
    #[error("{what} is {value}, the limit is {limit}")]
    Limit {
        /// What was asked for.
        what: &'static str,
        /// The value that was given.
        value: u64,
        /// What is allowed, as text.
        limit: String,
    },
    /// Something that this sink cannot do.
    #[error("the sink {sink} has no {what} here; af-xdp has, where kernel and driver do")]
    Unsupported {
        /// Kind of sink.
        sink: &'static str,
        /// What it lacks.
        what: &'static str,
    },
    /// The sink was drained.
    #[error("the sink of interface {name} has ended; open another one")]
    Ended {
        /// Name of the interface.
        name: String,
    },
    /// The operating system refused.
    #[error("{context}: {source}")]
    Io {
        /// What was tried, with the value and the fix.
        context: String,
        /// The system's reason.
        source: std::io::Error,
    },
}

impl SinkError {
    /// A sink of the kind `sink` has no `what`.
    pub fn lacks(sink: &'static str, what: &'static str) -> SinkError {
        SinkError::Unsupported { sink, what }
    }

    /// The cause by which a frame is counted that met this error.
    pub fn refusal(&self) -> Refusal {
        match self {
            SinkError::InterfaceGone { .. } => Refusal::InterfaceGone,
            SinkError::Limit { .. } => Refusal::TooLong,
            SinkError::Unsupported { .. } | SinkError::Ended { .. } | SinkError::Io { .. } => {
                Refusal::Other
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_balances_when_nothing_is_in_flight() {
        let mut counters = SinkCounters { offered: 10, accepted: 6, ..SinkCounters::default() };
        counters.refuse(Refusal::NoRoom, 2);
        counters.refuse(Refusal::NoRoom, 1);
        counters.refuse(Refusal::TooLong, 0);
        assert_eq!((counters.refused_total(), counters.in_flight()), (3, 1));
        assert!(!counters.is_balanced() && !counters.refused.contains_key(&Refusal::TooLong));
        counters.refuse(Refusal::NotSent, 1);
        assert!(counters.is_balanced());
        counters.refuse(Refusal::Other, 1);
        assert!(!counters.is_balanced(), "counted twice");
        assert_eq!(ChecksumRequest { start: 34, offset: 6 }.end(), 42);
    }
}
