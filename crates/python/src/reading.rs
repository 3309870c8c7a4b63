//! A reading: packets up to the end that is asked for.

use crate::frames::{Each, Frames, Step};
use serde_json::Value;
use std::time::{Duration, Instant};

/// When a reading ends before its input does.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Packets that match.
    pub packets: u64,
    /// Time on the clock.
    pub time: Option<Duration>,
}

impl Default for Limit {
    fn default() -> Limit {
        Limit { packets: u64::MAX, time: None }
    }
}

/// Packets that are being read.
pub struct Reading {
    frames: Box<dyn Frames>,
    left: u64,
    until: Option<Instant>,
    has_ended: bool,
}

impl Reading {
    /// Of these packets, up to a limit.
    pub fn new(frames: Box<dyn Frames>, limit: Limit) -> Reading {
        let until = limit.time.map(|time| Instant::now() + time);
        Reading { frames, left: limit.packets, until, has_ended: false }
    }

    /// Hands some packets to `each`.
    ///
    /// # Errors
    /// An input cannot be read; then it ended.
    pub fn show(&mut self, each: Each<'_>) -> anyhow::Result<Step> {
        let is_late = self.until.is_some_and(|until| Instant::now() >= until);
        if self.has_ended || is_late || self.left == 0 {
            return Ok(Step::End);
        }
        let mut shown = 0;
        let step = self.frames.show(self.left, &mut |frame, interfaces| {
            shown += 1;
            each(frame, interfaces);
        });
        self.left -= shown;
        self.has_ended = !matches!(step, Ok(Step::Some | Step::Idle));
        step
    }

    /// Where every packet is.
    pub fn ledger(&self) -> Value {
        self.frames.ledger(!self.has_ended)
    }

    /// What is missing, that the program should know.
    pub fn missing(&self) -> Vec<String> {
        self.frames.missing()
    }
}
