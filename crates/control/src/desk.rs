//! What a run answers whose frames stay in the driver: rules, a router, a balancer.

use super::board::StatusParts;
use super::protocol::{Command, Reply, Status};
use super::refusals::not_for_this_run;
use std::sync::atomic::{AtomicBool, Ordering};

/// Such a run, as its clients see it.
pub trait Asked: Sync {
    /// What it is, and how it goes.
    ///
    /// # Errors
    /// Its account cannot be read.
    fn status(&self, parts: &StatusParts) -> anyhow::Result<Status>;

    /// Answers what not every run is asked.
    fn answer(&self, command: Command) -> Reply {
        not_for_this_run(&command)
    }
}

/// Answers clients for a run, and keeps whether one has asked for the end.
pub struct Desk<R> {
    parts: StatusParts,
    run: R,
    is_stopping: AtomicBool,
}

impl<R: Asked> Desk<R> {
    /// Of a run of which this is known.
    pub fn new(parts: StatusParts, run: R) -> Desk<R> {
        Desk { parts, run, is_stopping: AtomicBool::new(false) }
    }

    /// The run.
    pub fn run(&self) -> &R {
        &self.run
    }

    /// Answers a client.
    pub fn answer(&self, command: Command) -> Reply {
        match command {
            Command::Status {} => self.with_status(Reply::status),
            Command::Ledger {} => self.with_status(|status| Reply::ledger(status.ledger)),
            Command::Stop {} => {
                self.is_stopping.store(true, Ordering::Release);
                Reply::done()
            }
            other => self.run.answer(other),
        }
    }

    /// True once a client has asked for the end.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    fn with_status(&self, answer: impl FnOnce(Status) -> Reply) -> Reply {
        match self.run.status(&self.parts) {
            Ok(status) => answer(status),
            Err(error) => Reply::refused(&format!("{error:#}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OutputStatus;
    use ringside_core::{LaneCounters, Ledger};

    struct Idle;

    impl Asked for Idle {
        fn status(&self, parts: &StatusParts) -> anyhow::Result<Status> {
            Ok(parts.status(Ledger::from_lanes(vec![LaneCounters::default()])))
        }
    }

    #[test]
    fn what_every_run_is_asked_is_answered_and_the_rest_refused() {
        let output = OutputStatus { kind: "route".into(), paths: Vec::new() };
        let desk = Desk::new(StatusParts::new("eth1".into(), vec!["eth1".into()], output), Idle);
        assert_eq!(desk.answer(Command::Status {}).status.unwrap().interfaces, ["eth1"]);
        assert_eq!(desk.answer(Command::Ledger {}).ledger.unwrap().lanes.len(), 1);
        for (command, words) in [
            (Command::Rotate {}, "no files"),
            (Command::Flows { idle_ms: None, active_ms: None, cache_entries: None }, "no flows"),
        ] {
            let error = desk.answer(command).error.unwrap();
            assert!(error.contains(words), "{error}");
        }
        assert!(!desk.is_stopping() && desk.answer(Command::Stop {}).ok && desk.is_stopping());
    }
}
