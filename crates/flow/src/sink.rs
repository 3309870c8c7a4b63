//! Where records go.

use crate::{Record, Sums};
use ringside_core::Timestamp;

/// Takes records. What becomes of each is counted: records given = delivered + lost + waiting.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SinkCounts {
    /// Handed on.
    pub delivered: RecordSums,
    /// Not yet.
    pub waiting: RecordSums,
    /// Lost because writing failed.
    pub write_failed: RecordSums,
    /// Left out because the format has no way to say it: IPv6 in NetFlow v5.
    pub inexpressible: RecordSums,
}

impl SinkCounts {
    /// All of them, by their names in output formats.
    pub fn named(&self) -> [(&'static str, &RecordSums); 4] {
        let SinkCounts { delivered, waiting, write_failed, inexpressible } = self;
        [
            ("delivered", delivered),
            ("waiting", waiting),
            ("write_failed", write_failed),
            ("inexpressible", inexpressible),
        ]
    }

    /// All that was given.
    pub fn sum(&self) -> RecordSums {
        let mut sum = RecordSums::default();
        for (_, &(mut sums)) in self.named() {
            sum.take(&mut sums);
        }
        sum
    }
}

/// Records, and the packets and octets in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
        let RecordSums { records, held } = std::mem::take(other);
        self.records += records;
        self.held += held;
    }
}
