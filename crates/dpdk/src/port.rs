//! A port that is open.

use crate::error::DpdkError;
use crate::table::{Counted, RawQueue, RawSender, Table};
use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The ports that this process has. What takes, opens or closes a device holds it: DPDK wants
/// one thread at a time for that.
static TAKEN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

pub(crate) fn taken() -> MutexGuard<'static, BTreeSet<u32>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a port has counted since it was opened, in frames, by its driver's understanding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Received (`ipackets`).
    pub received: u64,
    /// Lost for want of a descriptor (`imissed`).
    pub missed: u64,
    /// Received with errors (`ierrors`).
    pub damaged: u64,
    /// Failed allocations, which may be no frames (`rx_nombuf`).
    pub no_memory: u64,
    /// Sent (`opackets`).
    pub sent: u64,
    /// Not sent (`oerrors`).
    pub refused: u64,
}

/// A port that is open, and what it is closed with: the last of its queues and senders closes it.
pub struct Port {
    pub(crate) table: &'static Table,
    pub(crate) number: u32,
    /// A driver's counters are read by one thread at a time.
    pub(crate) counting: Mutex<()>,
    pub(crate) queues: Vec<NonNull<RawQueue>>,
    pub(crate) senders: Vec<NonNull<RawSender>>,
}

// SAFETY: the pointers are only freed here, when there is no queue and no sender any more; what
// else is asked of a port is asked under its lock.
unsafe impl Send for Port {}
// SAFETY: as above.
unsafe impl Sync for Port {}

impl Port {
    /// What it has counted since it was opened.
    ///
    /// # Errors
    /// The driver does not say.
    pub fn counters(&self) -> Result<Counters, DpdkError> {
        let _one = self.counting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counted = Counted::default();
        // SAFETY: room for the answer; the port is open as long as this is there.
        let done = unsafe { (self.table.counters)(self.number, &raw mut counted) };
        self.table.check("the counters of a port", done)?;
        Ok(Counters {
            received: counted.received,
            missed: counted.missed,
            damaged: counted.damaged,
            no_memory: counted.no_memory,
            sent: counted.sent,
            refused: counted.refused,
        })
    }

    /// True if its link is up.
    ///
    /// # Errors
    /// The driver does not say.
    pub fn link_is_up(&self) -> Result<bool, DpdkError> {
        let _one = self.counting.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the port is open as long as this is there.
        let done = unsafe { (self.table.link_is_up)(self.number) };
        Ok(self.table.check("the link of a port", done)? > 0)
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let mut taken = taken();
        taken.remove(&self.number);
        // SAFETY: there is no queue and no sender of it any more, for each holds the port. The port
        // is closed first: its driver holds frames of the queues' memory until then.
        unsafe {
            (self.table.close)(self.number);
            for queue in &self.queues {
                (self.table.free_queue)(queue.as_ptr());
            }
            for sender in &self.senders {
                (self.table.free_sender)(sender.as_ptr());
            }
        }
    }
}
