//! What a table and its sinks have done so far.

use crate::ledger::NoFlow;
use crate::sink::RecordSums;
use crate::{EndReason, FlowLedger, SinkCounts, Sums, Top};
use ringside_core::Timestamp;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// What was found so far, and where every packet is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowStatus {
    /// The time of the packets.
    pub now: Timestamp,
    /// Flows in the table.
    pub flows: usize,
    /// The most flows that there is room for.
    pub flows_max: usize,
    /// Idle time-out.
    pub idle: Duration,
    /// Active time-out.
    pub active: Duration,
    /// The account of the table.
    pub ledger: FlowLedger,
    /// What the flows in the table hold.
    pub held: Sums,
    /// The account of each sink, by its name.
    pub sinks: Vec<(String, SinkCounts)>,
    /// The largest groups, if some were asked for; with what the table holds.
    pub top: Option<Top>,
    /// Names of interfaces by their numbers, for the groups.
    pub interfaces: Vec<String>,
    /// No frame will come again.
    pub is_finished: bool,
}

impl FlowStatus {
    /// True if no packet and no octet is missing or counted twice, in the table and in each sink.
    pub fn balances(&self) -> bool {
        let is_whole =
            |(_, counts): &(String, SinkCounts)| counts.given() == self.ledger.handed_out();
        self.ledger.balances(self.held) && self.sinks.iter().all(is_whole)
    }

    /// The account as JSON: `received`, `exported`, `held`, what is in no flow by cause, each as
    /// `{"packets":…,"bytes":…}`; `records` by why they ended; `sinks` by name.
    pub fn json(&self) -> Value {
        let ledger = &self.ledger;
        let reasons = EndReason::ALL.map(|end| (end.name(), ledger.records[end.index()].into()));
        let no_flow = NoFlow::ALL.map(|why| (why.name(), sums(&ledger.no_flow[why as usize])));
        let sinks = self.sinks.iter().map(|(name, counts)| (name.as_str(), sink(counts)));
        json!({
            "flows": self.flows,
            "flows_max": self.flows_max,
            "idle_ms": self.idle.as_millis() as u64,
            "active_ms": self.active.as_millis() as u64,
            "received": sums(&ledger.received),
            "exported": sums(&ledger.exported),
            "held": sums(&self.held),
            "no_flow": object(no_flow),
            "records": object(reasons),
            "fragments_without_ports": ledger.fragments_without_ports,
            "clock_steps": ledger.clock_steps,
            "sinks": object(sinks),
            "balances": self.balances(),
        })
    }
}

fn object<'a>(fields: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
    fields.collect::<Map<_, _>>().into()
}

fn sums(sums: &Sums) -> Value {
    json!({ "packets": sums.packets, "bytes": sums.octets })
}

fn sink(counts: &SinkCounts) -> Value {
    let records = |sums: &RecordSums| {
        json!({
            "records": sums.records, "packets": sums.held.packets, "bytes": sums.held.octets,
        })
    };
    let inherited = ("inherited", &counts.inherited);
    object(counts.named().into_iter().chain([inherited]).map(|(name, sums)| (name, records(sums))))
}
