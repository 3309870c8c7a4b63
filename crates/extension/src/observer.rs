//! From a stream of frames to records in sinks, by way of an extension.

use crate::guest::Guest;
use crate::ledger::Faulted;
use crate::limits::{FAULTS_MAX, FILE_BYTES_MAX};
use crate::{ExtensionError, ExtensionLedger, Fault, Found};
use ringside_core::Timestamp;
use ringside_inspect::{DissectedFrame, Observer, Received};
use ringside_logs::{LogStatus, RecordSink, Sinks};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Reads the file of an extension: a module as bytes (`.wasm`) or as text (`.wat`), or an eBPF
/// object.
///
/// # Errors
/// It cannot be read, or is too long.
pub fn read_extension(path: &Path) -> Result<Vec<u8>, ExtensionError> {
    let mut file = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut file)?;
    if file.len() > FILE_BYTES_MAX { Err(ExtensionError::TooLong) } else { Ok(file) }
}

/// Shows every frame of a stream to an extension.
pub struct ExtensionObserver {
    guest: Guest,
    /// What was said of the first packet with which it did not come to its end.
    first_fault: Option<Faulted>,
    /// Why its last call did not come to its end.
    end_fault: Option<Fault>,
    now: Timestamp,
}

impl ExtensionObserver {
    /// The file of an extension, with what people know it by; its records go to each of `sinks`,
    /// which have names.
    ///
    /// # Errors
    /// It is neither a module nor an object that may run.
    pub fn new(
        name: &str,
        file: &[u8],
        sinks: Vec<(String, Box<dyn RecordSink<Found>>)>,
    ) -> Result<ExtensionObserver, ExtensionError> {
        let guest = Guest::new(name.into(), file, Sinks::new(sinks))?;
        Ok(ExtensionObserver {
            guest,
            first_fault: None,
            end_fault: None,
            now: Timestamp::default(),
        })
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.guest.host().name
    }

    /// The account of packets and records.
    pub fn ledger(&self) -> &ExtensionLedger {
        &self.guest.host().ledger
    }

    /// Its counters.
    pub fn counters(&self) -> &BTreeMap<String, u64> {
        &self.guest.host().counters
    }

    /// The account of each sink.
    pub fn logs(&self) -> Vec<LogStatus> {
        self.guest.host().sinks.status()
    }

    /// The time of the packets.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Bytes of its memory.
    pub fn memory_bytes(&self) -> usize {
        self.guest.memory_bytes()
    }

    /// True if it is shown no packets any more, because it did not come to its end with too many.
    pub fn is_stopped(&self) -> bool {
        self.ledger().faults() >= FAULTS_MAX
    }

    /// What was said of the first packet with which it did not come to its end.
    pub fn first_fault(&self) -> Option<(Fault, &str)> {
        self.first_fault.as_ref().map(|faulted| (faulted.fault, faulted.text.as_str()))
    }

    /// Why it did not come to the end of its last call, behind all packets.
    pub fn end_fault(&self) -> Option<Fault> {
        self.end_fault
    }

    /// True if no packet, no record and no line is missing.
    pub fn balances(&self) -> bool {
        let ledger = self.ledger();
        ledger.balances() && self.guest.host().sinks.were_given(ledger.taken)
    }
}

impl Observer for ExtensionObserver {
    fn see(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) {
        let is_stopped = self.is_stopped();
        let host = self.guest.host_mut();
        host.ledger.packets += 1;
        if is_stopped {
            host.ledger.after_stop += 1;
            return;
        }
        host.sinks.learn(received);
        if received.meta.timestamp != Timestamp::default() {
            self.now = received.meta.timestamp;
        }
        let bytes_max = self.guest.packet_bytes_max();
        let outcome = self.guest.see(frame, received);
        let ledger = &mut self.guest.host_mut().ledger;
        match outcome {
            Ok(()) => {
                ledger.analyzed += 1;
                ledger.cut += u64::from(frame.bytes().len() > bytes_max);
            }
            Err(faulted) => {
                ledger.faults[faulted.fault.index()] += 1;
                self.first_fault.get_or_insert(faulted);
            }
        }
    }

    fn tick(&mut self, low_water: Timestamp) {
        self.now = low_water;
        self.guest.host_mut().sinks.tick();
    }

    fn finish(&mut self) {
        if !self.is_stopped() {
            self.end_fault = self.guest.end().err().map(|faulted| faulted.fault);
        }
        self.guest.host_mut().sinks.finish();
    }

    fn runs_programs(&self) -> bool {
        matches!(self.guest, Guest::Object(_))
    }
}
