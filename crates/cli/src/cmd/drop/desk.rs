//! What `drop` answers at its control socket.

use super::report;
use ringside_control::{Command, NO_FLOWS, Reply, RuleDesk, Status, StatusParts};
use ringside_core::Ledger;
use ringside_session::driver_rules::Shared;
use ringside_xdp::DriverRules;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, Ordering};

/// Answers clients, and keeps whether one has asked for the end.
pub(super) struct DropDesk {
    parts: StatusParts,
    interface: String,
    is_dry: bool,
    shared: Shared,
    rules: RuleDesk,
    is_stopping: AtomicBool,
}

impl DropDesk {
    pub(super) fn new(
        parts: StatusParts,
        interface: &str,
        is_dry: bool,
        shared: Shared,
    ) -> DropDesk {
        let rules = RuleDesk::new(Box::new(shared.clone()));
        let (interface, is_stopping) = (interface.to_owned(), AtomicBool::new(false));
        DropDesk { parts, interface, is_dry, shared, rules, is_stopping }
    }

    pub(super) fn answer(&self, command: Command) -> Reply {
        match command {
            Command::Status {} => Reply::status(self.status()),
            Command::Ledger {} => Reply::ledger(self.ledger()),
            Command::Rotate {} => {
                Reply::refused("this run writes no files that could end and begin")
            }
            Command::Stop {} => {
                self.is_stopping.store(true, Ordering::Release);
                Reply::done()
            }
            Command::Flows { .. } => Reply::refused(NO_FLOWS),
            Command::Rules(command) => self.rules.answer(command),
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    pub(super) fn rules(&self) -> MutexGuard<'_, DriverRules> {
        self.shared.lock()
    }

    /// Every frame that the program saw.
    pub(super) fn ledger(&self) -> Ledger {
        report::ledger(&self.interface, &self.rules().totals(), self.is_dry)
    }

    fn status(&self) -> Status {
        self.parts.status(self.ledger())
    }
}
