//! The outlet's threads: one puts batches from memory into the spool, the other one delivers them.

use crate::batch::Batch;
use crate::desk::Desk;
use crate::engine::{Engine, Outcome};
use crate::spool::Spool;
use crate::status::{State, Status};
use ringside_flow::{RecordSums, SinkCounts};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// While the end waits, tries follow each other at most so far apart.
const PAUSE_AT_END: Duration = Duration::from_millis(200);

/// Puts batches from memory into the spool, until none will come.
pub(crate) fn spool_all(desk: &Desk, spool: &Mutex<Spool>) {
    while let Some(batch) = desk.next_batch() {
        // Held until it is in the account too: the other thread may deliver it at once.
        let mut spool = lock(spool);
        let appended = spool.append(&batch);
        let is_kept = matches!(appended.is_kept, Ok(true));
        if !desk.appended(&batch, appended, spool.bytes()) && is_kept {
            // The account was given, and has it as lost.
            spool.take_back();
        }
    }
    desk.spooling_over();
}

/// Delivers batches, in order.
pub(crate) struct Courier {
    pub desk: Arc<Desk>,
    pub engine: Box<dyn Engine>,
    /// Where batches are; without one in memory.
    pub spool: Option<Arc<Mutex<Spool>>>,
}

impl Courier {
    /// Until no batch will come, or the time is over.
    pub fn run(mut self) {
        let options = self.desk.options();
        let (first, longest) = (options.pause, options.pause_max);
        let mut pause = first;
        while let Some(batch) = self.next() {
            // The end gives one more try.
            let is_closing = self.desk.is_closing();
            let Some(time) = self.desk.time_for_try() else { return };
            match self.engine.deliver(&batch, time) {
                Outcome::Failed(why) => {
                    self.desk.change_status(|status| {
                        status.error = Some(why);
                        status.state = State::Away;
                        status.vain_tries += 1;
                    });
                    if is_closing && self.spool.is_some() {
                        return;
                    }
                    let wait = if is_closing { pause.min(PAUSE_AT_END) } else { pause };
                    self.desk.pause(wait, is_closing);
                    pause = (pause * 2).min(longest);
                }
                outcome => {
                    pause = first;
                    self.settle(&batch, outcome);
                }
            }
        }
    }

    /// The oldest batch, which stays where it is until it is settled.
    fn next(&self) -> Option<Arc<Batch>> {
        let Some(spool) = &self.spool else { return self.desk.next_batch() };
        loop {
            let mut held = lock(spool);
            match held.first() {
                Ok(Some(batch)) => return Some(Arc::new(batch)),
                Ok(None) => drop(held),
                Err(error) => {
                    self.give_up(&mut held, &error);
                    continue;
                }
            }
            if !self.desk.wait_for_spool() {
                return None;
            }
        }
    }

    /// The oldest batch of the spool cannot be read.
    fn give_up(&self, spool: &mut Spool, error: &io::Error) {
        let (held, _) = spool.settled();
        self.desk.settle(|status| {
            status.spool_error = Some(error.to_string());
            status.counts.spooled -= held;
            status.counts.write_failed += held;
        });
    }

    /// The server has a batch, or will not take it.
    fn settle(&self, batch: &Batch, outcome: Outcome) {
        let change = |status: &mut Status| note(status, batch.held, outcome);
        let Some(spool) = &self.spool else {
            self.desk.taken(batch, change);
            return;
        };
        let mut spool = lock(spool);
        let counts = self.desk.settle(|status| {
            status.counts.spooled -= batch.held;
            change(status);
        });
        if !counts {
            // The account was given: the next start delivers it, under the same token.
            return;
        }
        let (_, removed) = spool.settled();
        let bytes = spool.bytes();
        self.desk.change_status(|status| {
            status.spool_bytes = bytes;
            if let Err(error) = removed {
                status.spool_error = Some(error.to_string());
            }
        });
    }
}

/// Puts a batch into the account.
fn note(status: &mut Status, held: RecordSums, outcome: Outcome) {
    let SinkCounts { delivered, refused, .. } = &mut status.counts;
    match outcome {
        Outcome::Acknowledged { refused: count, reason } => {
            // Which of them it refused is not said: what they hold stays with the others.
            let part = RecordSums { records: count.min(held.records), ..RecordSums::default() };
            *delivered += held;
            *delivered -= part;
            *refused += part;
            status.batches += 1;
            status.state = if count > 0 { State::Refused } else { State::Open };
            match reason {
                Some(why) if count > 0 => status.error = Some(why),
                Some(why) => status.notice = Some(why),
                None => {}
            }
        }
        Outcome::Refused(why) | Outcome::Failed(why) => {
            *refused += held;
            status.state = State::Refused;
            status.error = Some(why);
        }
    }
}

fn lock(spool: &Mutex<Spool>) -> MutexGuard<'_, Spool> {
    spool.lock().unwrap_or_else(PoisonError::into_inner)
}
