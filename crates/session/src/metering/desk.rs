//! What a run of flow caches answers at its control socket.

use super::report::{self, MeterReport};
use ringside_control::{
    Command, Rates, Reply, Status, StatusParts, answer_flows, flow_status, not_for_this_run,
};
use ringside_flow::MonitorHandle;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Answers clients, and keeps what they ask for.
pub(super) struct Desk {
    parts: StatusParts,
    flows: MonitorHandle,
    shown: Mutex<Shown>,
    entries_max: Mutex<Option<usize>>,
    is_stopping: AtomicBool,
}

/// As last read.
#[derive(Default)]
struct Shown {
    caches: Vec<MeterReport>,
    rates: Option<Rates>,
}

impl Desk {
    pub(super) fn new(parts: StatusParts, flows: MonitorHandle) -> Desk {
        let is_stopping = AtomicBool::new(false);
        Desk { parts, flows, shown: Mutex::default(), entries_max: Mutex::default(), is_stopping }
    }

    pub(super) fn publish(&self, caches: Vec<MeterReport>, rates: Option<Rates>) {
        *lock(&self.shown) = Shown { caches, rates };
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// The entries of each cache that a client lets be used, once.
    pub(super) fn take_entries_max(&self) -> Option<usize> {
        lock(&self.entries_max).take()
    }

    pub(super) fn answer(&self, command: Command) -> Reply {
        match command {
            Command::Status {} => Reply::status(self.status()),
            Command::Ledger {} => Reply::ledger(report::ledger(&lock(&self.shown).caches)),
            Command::Stop {} => {
                self.is_stopping.store(true, Ordering::Release);
                Reply::done()
            }
            Command::Flows { idle_ms, active_ms, cache_entries } => {
                let mut reply = answer_flows(&self.flows, idle_ms, active_ms);
                let Some(flows) = &mut reply.flows else { return reply };
                if let Some(entries) = cache_entries {
                    *lock(&self.entries_max) = Some(entries.try_into().unwrap_or(usize::MAX));
                }
                flows["caches"] = report::json(&lock(&self.shown).caches);
                reply
            }
            other => not_for_this_run(&other),
        }
    }

    fn status(&self) -> Status {
        let shown = lock(&self.shown);
        let mut flows = flow_status(&self.flows);
        flows["caches"] = report::json(&shown.caches);
        Status {
            rates: shown.rates,
            flows: Some(flows),
            ..self.parts.status(report::ledger(&shown.caches))
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
