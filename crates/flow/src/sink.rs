//! Where records go.

use crate::{Record, Sums};
use ringside_core::Timestamp;
use serde::Serialize;
use std::ops::{AddAssign, SubAssign};

/// Takes records. What becomes of each is counted: records given = delivered + waiting + spooled +
/// lost, by cause.
pub trait RecordSink: Send {
    /// The next record, of a flow on the interface of this name.
    fn put(&mut self, record: &Record, interface: &str, now: Timestamp);

    /// Time has come so far: what waits for company need not wait any more.
    fn tick(&mut self, now: Timestamp) {
        let _ = now;
    }

    /// No record will come again.
    fn finish(&mut self, now: Timestamp);

    /// What became of the records.
    fn counts(&self) -> SinkCounts;
}

/// What became of the records that a sink was given, in records and in what they hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SinkCounts {
    /// Handed on.
    pub delivered: RecordSums,
    /// Not yet, in memory.
    pub waiting: RecordSums,
    /// Not yet, on disk.
    pub spooled: RecordSums,
    /// Left out because the format has no way to say it: IPv6 in NetFlow v5.
    pub inexpressible: RecordSums,
    /// Lost because writing or sending failed.
    pub write_failed: RecordSums,
    /// Lost because what waited in memory was at its limit.
    pub queue_full: RecordSums,
    /// Lost because the spool was at its limit: the oldest of it.
    pub spool_full: RecordSums,
    /// Lost because the collector's host said that no program takes them there, or the server
    /// refused them.
    pub refused: RecordSums,
    /// Lost because they were not delivered when the time for that was over.
    pub undelivered: RecordSums,
    /// Of all these: found in the spool of an earlier run.
    pub inherited: RecordSums,
}

impl SinkCounts {
    /// All of them that are apart from each other, by their names in output formats.
    pub fn named(&self) -> [(&'static str, &RecordSums); 9] {
        [
            ("delivered", &self.delivered),
            ("waiting", &self.waiting),
            ("spooled", &self.spooled),
            ("inexpressible", &self.inexpressible),
            ("write_failed", &self.write_failed),
            ("queue_full", &self.queue_full),
            ("spool_full", &self.spool_full),
            ("refused", &self.refused),
            ("undelivered", &self.undelivered),
        ]
    }

    /// Everything that this is the account of: the records that were given, and those inherited.
    pub fn total(&self) -> RecordSums {
        let mut total = RecordSums::default();
        self.named().into_iter().for_each(|(_, sums)| total += *sums);
        total
    }

    /// The records that were given: where each is, or why it is lost.
    pub fn given(&self) -> RecordSums {
        let mut given = self.total();
        given -= self.inherited;
        given
    }

    /// What will not be delivered, by whatever cause; not what the format cannot say.
    pub fn lost(&self) -> RecordSums {
        let causes =
            [self.write_failed, self.queue_full, self.spool_full, self.refused, self.undelivered];
        let mut lost = RecordSums::default();
        causes.into_iter().for_each(|sums| lost += sums);
        lost
    }
}

/// Records, and the packets and octets in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecordSums {
    /// Records.
    pub records: u64,
    /// What they hold.
    pub held: Sums,
}

impl RecordSums {
    /// Adds a record.
    pub fn add(&mut self, record: &Record) {
        self.records += 1;
        self.held += Sums { packets: record.packets(), octets: record.octets() };
    }

    /// Adds what another holds, and leaves nothing there.
    pub fn take(&mut self, other: &mut RecordSums) {
        *self += std::mem::take(other);
    }
}

impl AddAssign for RecordSums {
    fn add_assign(&mut self, other: RecordSums) {
        self.records = self.records.saturating_add(other.records);
        self.held += other.held;
    }
}

/// Takes out a part.
impl SubAssign for RecordSums {
    fn sub_assign(&mut self, part: RecordSums) {
        self.records = self.records.saturating_sub(part.records);
        self.held -= part.held;
    }
}
