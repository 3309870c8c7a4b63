//! The ways of sending of one thread, as a run drives them.

use crate::Error;
use crate::live::{self, LiveSender};
use crate::sink_sender::{self, SinkSender};
use ringside_core::SinkCounters;

/// One thread's way of sending: frames that user space hands to a sink, or frames that the kernel
/// makes.
pub(crate) enum FrameSender<'l> {
    Sink(Box<SinkSender>),
    Live(Box<LiveSender<'l>>),
}

impl FrameSender<'_> {
    /// Most frames of one call of [`FrameSender::send`].
    pub fn call_frames_max(&self) -> u64 {
        match self {
            FrameSender::Sink(_) => sink_sender::CALL_FRAMES_MAX,
            FrameSender::Live(_) => live::CALL_FRAMES_MAX,
        }
    }

    /// Offers up to `frames` frames and returns how many it offered; fewer after a signal.
    pub fn send(&mut self, frames: u64) -> Result<u64, Error> {
        match self {
            FrameSender::Sink(sender) => sender.send(frames),
            FrameSender::Live(sender) => sender.send(frames),
        }
    }

    /// Ends what is under way; nothing is sent after it. The account has the frames of a call that
    /// failed too, and what went wrong at the end stands next to it. Of live frames no call says
    /// what became of them: all are in flight.
    pub fn finish(&mut self) -> (SinkCounters, Option<Error>) {
        match self {
            FrameSender::Sink(sender) => sender.finish(),
            FrameSender::Live(sender) => (sender.counters(), None),
        }
    }
}
