//! A reading: packets up to the end that is asked for.

use crate::frames::{Each, Frames, Step};
use ringside_core::{SourceInterface, Timestamp};
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
    has_failed: bool,
}

impl Reading {
    /// Of these packets, up to a limit.
    pub fn new(frames: Box<dyn Frames>, limit: Limit) -> Reading {
        // A time beyond what a clock counts is no limit.
        let until = limit.time.and_then(|time| Instant::now().checked_add(time));
        Reading { frames, left: limit.packets, until, has_ended: false, has_failed: false }
    }

    /// Hands some packets to `each`.
    ///
    /// # Errors
    /// An input cannot be read; then it ended.
    pub fn show(&mut self, each: Each<'_>) -> anyhow::Result<Step> {
        let is_late = self.until.is_some_and(|until| Instant::now() >= until);
        if self.has_ended || self.has_failed || is_late || self.left == 0 {
            return Ok(Step::End);
        }
        let mut shown = 0;
        let step = self.frames.show(self.left, &mut |frame, interfaces| {
            shown += 1;
            each(frame, interfaces);
        });
        self.left -= shown;
        self.has_ended = matches!(step, Ok(Step::End));
        self.has_failed = step.is_err();
        step
    }

    /// Where every packet is.
    pub fn ledger(&self) -> Value {
        let mut ledger = self.frames.ledger(!self.has_ended);
        if self.has_failed {
            ledger["end"] = "failed".into();
        }
        ledger
    }

    /// True if packets come as they are received, so that a batch waits for others.
    pub fn is_live(&self) -> bool {
        self.frames.is_live()
    }

    /// No later packet is older than this.
    pub fn low_water(&self) -> Timestamp {
        self.frames.low_water()
    }

    /// The interfaces that are known.
    pub fn interfaces(&self) -> &[SourceInterface] {
        self.frames.interfaces()
    }

    /// What is missing, that the program should know.
    pub fn missing(&self) -> Vec<String> {
        self.frames.missing()
    }
}
