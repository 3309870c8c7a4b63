//! What a run is to do.

use crate::sink::SinkKind;
use crate::{Error, Shape, Wire};
use ringside_core::OwnedFrame;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// Sending threads of one run; each is a stream of numbers of its own.
pub const SENDERS_MAX: usize = 64;

/// How frames are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SenderKind {
    /// Live frames of an XDP program: fastest, 14 to 3,408 bytes, generated frames only. All
    /// frames of one thread arrive on one receive queue (its CPU modulo the queues).
    Live,
    /// Live frames at an even rate, which [`Job::rate_per_sec`] must say: each leaves when it is
    /// due, where the others send bursts of half a millisecond. Takes its CPUs whole.
    Even,
    /// The af-packet sink, through the queueing discipline: 14 to 65,535 bytes, any frames; the
    /// queue follows the flow's hash.
    Packet,
    /// A [`sink`](crate::sink), each thread on the transmit queue of its place: any frames.
    Sink(SinkKind),
}

impl SenderKind {
    /// True if frames are made inside the kernel.
    pub(crate) fn is_live(self) -> bool {
        matches!(self, SenderKind::Live | SenderKind::Even)
    }
}

/// What is sent.
#[derive(Clone, Debug)]
pub enum Load {
    /// Numbered frames.
    Numbered(Shape),
    /// These frames, in order, again and again, by one thread; no live frames.
    Replay(Arc<[OwnedFrame]>),
}

/// When a run ends; at least one is set.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub(crate) count: Option<u64>,
    pub(crate) duration: Option<Duration>,
}

impl Limits {
    /// After `count` frames of all threads together, or after `duration`, whichever is first.
    ///
    /// # Errors
    /// Neither is given.
    pub fn new(count: Option<u64>, duration: Option<Duration>) -> Result<Limits, Error> {
        if count.is_none() && duration.is_none() {
            return Err(Error::Unbounded);
        }
        Ok(Limits { count, duration })
    }
}

/// A run to be done.
#[derive(Clone, Debug)]
pub struct Job {
    /// How.
    pub sender: SenderKind,
    /// Where.
    pub wire: Wire,
    /// What.
    pub load: Load,
    /// One sending thread on each of these CPUs; for the live sender each is given once. Empty
    /// stands for one thread, which the live sender keeps on the first CPU that it may use.
    pub cpus: Vec<usize>,
    /// Frames a second of all threads together; `None` for as fast as it goes. See
    /// [`PACE_DEPTH_NS`](crate::PACE_DEPTH_NS) for the error.
    pub rate_per_sec: Option<u64>,
    /// When it ends.
    pub limits: Limits,
}
