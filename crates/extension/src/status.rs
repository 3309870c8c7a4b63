//! What an extension's observer says meanwhile of what was found.

use crate::limits::FAULTS_MAX;
use crate::{ExtensionLedger, ExtensionObserver, Fault, Refusal};
use ringside_core::Timestamp;
use ringside_logs::{LogStatus, Status, Watched, logs_json, object};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What was found so far, and where everything is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtensionStatus {
    /// What the extension is called.
    pub name: String,
    /// The time of the packets.
    pub now: Timestamp,
    /// The account of packets and records.
    pub ledger: ExtensionLedger,
    /// Its counters.
    pub counters: BTreeMap<String, u64>,
    /// Bytes of its memory.
    pub memory_bytes: usize,
    /// What the interpreter said of the first packet with which it did not come to its end.
    pub first_fault: Option<String>,
    /// It is shown no packets any more.
    pub is_stopped: bool,
    /// Why it did not come to its end behind all packets.
    pub end_fault: Option<Fault>,
    /// The account of each log.
    pub logs: Vec<LogStatus>,
    /// No packet, no record and no line is missing.
    pub balances: bool,
    /// No frame will come again.
    pub is_finished: bool,
}

impl ExtensionStatus {
    /// The account as JSON.
    pub fn json(&self) -> Value {
        let counted = self.ledger.faults;
        let faults = Fault::ALL.map(|fault| (fault.name(), counted[fault.index()].into()));
        let counted = self.ledger.refused;
        let refused = Refusal::ALL.map(|why| (why.name(), counted[why.index()].into()));
        let mut ledger = json!(self.ledger);
        ledger["faults"] = object(faults);
        ledger["refused"] = object(refused);
        json!({
            "extension": self.name,
            "packets": ledger,
            "counters": self.counters,
            "memory_bytes": self.memory_bytes,
            "first_fault": self.first_fault,
            "is_stopped": self.is_stopped,
            "end_fault": self.end_fault.map(Fault::name),
            "logs": logs_json(&self.logs),
            "balances": self.balances,
        })
    }

    /// What is wrong with what was found, if something is.
    pub fn problem(&self) -> Option<String> {
        let name = self.name.escape_debug();
        if self.is_stopped {
            let first = self.first_fault.as_deref().unwrap_or_default();
            return Some(format!(
                "the extension {name} is stopped: it did not come to its end with {FAULTS_MAX} \
                 packets, with the first because of: {first}"
            ));
        }
        let fault = self.end_fault?.name();
        Some(format!("the extension {name} did not come to its end behind all packets: {fault}"))
    }
}

impl Status for ExtensionStatus {
    fn logs(&self) -> &[LogStatus] {
        &self.logs
    }
}

impl Watched for ExtensionObserver {
    type Status = ExtensionStatus;

    fn status(&self, is_finished: bool) -> ExtensionStatus {
        ExtensionStatus {
            name: self.name().to_owned(),
            now: self.now(),
            ledger: self.ledger().clone(),
            counters: self.counters().clone(),
            memory_bytes: self.memory_bytes(),
            first_fault: self
                .first_fault()
                .map(|(fault, text)| format!("{}: {text}", fault.name())),
            is_stopped: self.is_stopped(),
            end_fault: self.end_fault(),
            logs: self.logs(),
            balances: self.balances(),
            is_finished,
        }
    }
}
