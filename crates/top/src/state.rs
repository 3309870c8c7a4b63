//! What is known and chosen.

use ringside_control::Status;
use ringside_core::ledger::ByCause;
use std::collections::VecDeque;

/// Seconds of the past that are drawn: the width of a screen.
const HISTORY_MAX: usize = 240;

/// A running capture, as last asked.
#[derive(Clone, Debug)]
pub struct Capture {
    /// As its control socket says.
    pub status: Status,
    /// Frames lost in either stage, by cause.
    pub losses: ByCause,
}

/// What was found at one moment.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// By process id.
    pub captures: Vec<Capture>,
    /// Why others could not be asked.
    pub errors: Vec<String>,
}

/// What the past of a capture is drawn from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Of the second before.
    pub frames_per_second: u64,
    /// Of the second before.
    pub bits_per_second: u64,
}

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Look at the capture that stands this far from the present one.
    Move(isize),
    /// Stay as it is, or go on.
    Freeze,
    /// Say what keys there are, or no more.
    Help,
}

/// What is on the screen.
#[derive(Debug, Default)]
pub struct State {
    look: Option<Look>,
    /// Process id of the capture that is shown; the first, if it is gone.
    chosen: Option<u32>,
    history: VecDeque<(u32, Moment)>,
    /// True while looks change nothing.
    pub is_frozen: bool,
    /// True while the keys are shown.
    pub has_help: bool,
}

impl State {
    /// Takes a look, unless it is frozen.
    pub fn see(&mut self, look: Look) {
        if self.is_frozen {
            return;
        }
        for capture in &look.captures {
            let rates = capture.status.rates;
            let moment = rates.map_or_else(Moment::default, |rates| Moment {
                frames_per_second: rates.frames_per_second,
                bits_per_second: rates.bits_per_second,
            });
            self.history.push_back((capture.status.pid, moment));
        }
        let kept = HISTORY_MAX * look.captures.len().max(1);
        self.history.drain(..self.history.len().saturating_sub(kept));
        self.look = Some(look);
    }

    /// Does what a key asks for.
    pub fn obey(&mut self, order: Order) {
        match order {
            Order::Freeze => self.is_frozen = !self.is_frozen,
            Order::Help => self.has_help = !self.has_help,
            Order::Move(by) => {
                let Some(look) = &self.look else { return };
                let count = isize::try_from(look.captures.len()).unwrap_or(isize::MAX).max(1);
                let place = isize::try_from(self.place()).unwrap_or(0);
                let next = usize::try_from((place + by).rem_euclid(count)).unwrap_or(0);
                self.chosen = look.captures.get(next).map(|capture| capture.status.pid);
            }
        }
    }

    /// What was last seen; none before the first look.
    pub fn look(&self) -> Option<&Look> {
        self.look.as_ref()
    }

    /// Which of the captures is shown.
    pub fn place(&self) -> usize {
        let captures = self.look.iter().flat_map(|look| &look.captures);
        let mut pids = captures.map(|capture| Some(capture.status.pid));
        pids.position(|pid| pid == self.chosen).unwrap_or(0)
    }

    /// The capture that is shown.
    pub fn capture(&self) -> Option<&Capture> {
        self.look.as_ref()?.captures.get(self.place())
    }

    /// The past of the capture that is shown, oldest first.
    pub fn past(&self) -> Vec<Moment> {
        let pid = self.capture().map(|capture| capture.status.pid);
        let own = self.history.iter().filter(|(of, _)| Some(*of) == pid);
        own.map(|&(_, moment)| moment).collect()
    }
}
