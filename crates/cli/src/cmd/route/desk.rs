//! What `route` answers at its control socket.

use ringside_control::{Command, NO_FLOWS, NO_RULES, Reply, Status, StatusParts};
use ringside_report::route as report;
use ringside_route::{Ledger, RouteError, Router};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Answers clients, and keeps whether one has asked for the end.
pub(super) struct RouteDesk {
    parts: StatusParts,
    router: Mutex<Router>,
    is_stopping: AtomicBool,
}

impl RouteDesk {
    pub(super) fn new(parts: StatusParts, router: Router) -> RouteDesk {
        RouteDesk { parts, router: Mutex::new(router), is_stopping: AtomicBool::new(false) }
    }

    /// The router, once no other thread has it.
    pub(super) fn router(&self) -> MutexGuard<'_, Router> {
        self.router.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn answer(&self, command: Command) -> Reply {
        match command {
            Command::Status {} => self.with_ledger(|ledger| Reply::status(self.status(ledger))),
            Command::Ledger {} => self.with_ledger(|ledger| Reply::ledger(report::lanes(ledger))),
            Command::Rotate {} => {
                Reply::refused("this run writes no files that could end and begin")
            }
            Command::Stop {} => {
                self.is_stopping.store(true, Ordering::Release);
                Reply::done()
            }
            Command::Flows { .. } => Reply::refused(NO_FLOWS),
            Command::Rules(_) => Reply::refused(NO_RULES),
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    fn with_ledger(&self, answer: impl FnOnce(&Ledger) -> Reply) -> Reply {
        let ledger: Result<Ledger, RouteError> = self.router().ledger();
        match ledger {
            Ok(ledger) => answer(&ledger),
            Err(error) => Reply::refused(&error.to_string()),
        }
    }

    fn status(&self, ledger: &Ledger) -> Status {
        let route = serde_json::to_value(ledger).ok();
        Status { route, ..self.parts.status(report::lanes(ledger)) }
    }
}
