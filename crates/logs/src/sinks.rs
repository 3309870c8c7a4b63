//! All logs of an observer.

use crate::counts::LogStatus;
use crate::log::{Logged, RecordSink};
use ringside_inspect::{InterfaceNames, Received};

/// Sinks with their names, and the names of interfaces that they want to know.
pub struct Sinks<'s, R> {
    sinks: Vec<(String, Box<dyn RecordSink<R> + 's>)>,
    interfaces: InterfaceNames,
}

impl<'s, R: Logged> Sinks<'s, R> {
    /// These, with what people know them by.
    pub fn new(sinks: Vec<(String, Box<dyn RecordSink<R> + 's>)>) -> Sinks<'s, R> {
        Sinks { sinks, interfaces: InterfaceNames::default() }
    }

    /// Learns the name of the interface that a frame came from.
    #[inline]
    pub fn learn(&mut self, received: &Received<'_>) {
        self.interfaces.learn(received);
    }

    /// Hands a record to each.
    pub fn put(&mut self, record: &R) {
        let name = self.interfaces.of(record.interface());
        for (_, sink) in &mut self.sinks {
            sink.put(record, name);
        }
    }

    /// Time has passed.
    pub fn tick(&mut self) {
        self.sinks.iter_mut().for_each(|(_, sink)| sink.tick());
    }

    /// No record will come again.
    pub fn finish(&mut self) {
        self.sinks.iter_mut().for_each(|(_, sink)| sink.finish());
    }

    /// True if each was given this number of records.
    pub fn were_given(&self, records: u64) -> bool {
        self.sinks.iter().all(|(_, sink)| sink.counts().given() == records)
    }

    /// The account of each.
    pub fn status(&self) -> Vec<LogStatus> {
        let of = |(name, sink): &(String, Box<dyn RecordSink<R> + 's>)| LogStatus {
            name: name.clone(),
            counts: sink.counts(),
            error: sink.error(),
        };
        self.sinks.iter().map(of).collect()
    }
}
