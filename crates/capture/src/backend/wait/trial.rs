//! Whether busy polling helps here: tried at the start, and kept only if it does.
//!
//! On some drivers it makes a core receive a quarter more, on others it makes no difference, and on
//! a veth pair it costs (docs/af-xdp.md). So both ways take turns for half a second of traffic, and
//! the one that brought more frames stays.

use std::time::{Duration, Instant};

/// How long each way is used before the other has its turn.
const TURN: Duration = Duration::from_millis(50);
/// Turns of a trial, of both ways together.
const TURNS: u32 = 10;
/// Frames of a trial that says something.
const FRAMES_MIN: u64 = 50_000;
/// Busy polling must bring this percentage of what sleeping brings: a core that it keeps busy must
/// pay.
const PERCENT_MIN: u64 = 105;

/// A trial of busy polling against sleeping.
#[derive(Debug)]
pub(super) struct Trial {
    turn_ends: Instant,
    turns: u32,
    /// Frames of the turns of busy polling, and of those of sleeping.
    frames: [u64; 2],
}

impl Trial {
    pub(super) fn new(now: Instant) -> Trial {
        Trial { turn_ends: now + TURN, turns: 0, frames: [0; 2] }
    }

    /// True while it is the turn of busy polling.
    pub(super) fn is_busy_turn(&self) -> bool {
        self.turns.is_multiple_of(2)
    }

    /// Notes that `frames` frames came.
    #[inline]
    pub(super) fn note_frames(&mut self, frames: u32) {
        self.frames[(self.turns % 2) as usize] += u64::from(frames);
    }

    /// Time has come to `now`. Whether busy polling is to be kept, once that is known.
    pub(super) fn note_time(&mut self, now: Instant) -> Option<bool> {
        if now < self.turn_ends {
            return None;
        }
        self.turn_ends = now + TURN;
        self.turns += 1;
        if self.turns < TURNS {
            return None;
        }
        let [busy, sleeping] = self.frames;
        if busy + sleeping < FRAMES_MIN {
            // Too little traffic to tell: again.
            *self = Trial::new(now);
            return None;
        }
        Some(busy * 100 >= sleeping * PERCENT_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The outcome of a trial with these numbers of frames in each turn.
    fn outcome(busy: u32, sleeping: u32) -> Option<bool> {
        let mut now = Instant::now();
        let mut trial = Trial::new(now);
        for _ in 0..TURNS {
            trial.note_frames(if trial.is_busy_turn() { busy } else { sleeping });
            assert_eq!(trial.note_time(now), None, "in the middle of a turn");
            now += TURN;
            if let Some(kept) = trial.note_time(now) {
                return Some(kept);
            }
        }
        None
    }

    #[test]
    fn what_brings_more_stays() {
        assert_eq!(outcome(100_000, 90_000), Some(true));
        assert_eq!(outcome(100_000, 100_000), Some(false));
        assert_eq!(outcome(90_000, 100_000), Some(false));
        assert_eq!(outcome(10, 1), None, "so few say nothing");
    }
}
