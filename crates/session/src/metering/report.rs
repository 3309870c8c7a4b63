//! What flow caches did: as the ledger of a run, for programs, and for a worker that died.

use anyhow::Context;
use ringside_core::ledger::{ByCause, add_frames};
use ringside_core::{Cause, Consumer, InterfaceId, LaneCounters, Ledger};
use ringside_flow::{FlowStatus, FlowTable, Limits, NoFlow, Sums};
use ringside_keeper::{Kept, Link};
use ringside_meter::{FlowLayout, Meter, Meters, Status};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Who has what was taken, in the ledger.
const FLOW_TABLE: &str = "flow table";

/// What a run of flow caches did.
pub struct MeteringReport {
    /// Every packet: taken are those that were given to the flow table.
    pub ledger: Ledger,
    /// Each cache, in packets and octets.
    pub caches: Vec<MeterReport>,
    /// The flow table and its sinks.
    pub flows: FlowStatus,
    /// What went wrong.
    pub errors: Vec<String>,
}

/// A cache.
#[derive(Clone, Debug)]
pub struct MeterReport {
    /// Its interface.
    pub interface: String,
    /// Where every packet and octet is.
    pub ledger: ringside_meter::Ledger,
    /// How it does.
    pub status: Status,
}

/// Of all meters.
pub(super) fn of(meters: &Meters) -> Vec<MeterReport> {
    let report = |meter: &Meter| MeterReport {
        interface: meter.interface().to_owned(),
        ledger: meter.ledger(),
        status: meter.status(),
    };
    meters.iter().map(report).collect()
}

/// As JSON: see docs/flows.md.
pub(super) fn json(caches: &[MeterReport]) -> Value {
    caches.iter().map(MeterReport::json).collect()
}

impl MeterReport {
    /// One object: the account, then how the cache does.
    pub fn json(&self) -> Value {
        let MeterReport { interface, ledger, status } = self;
        let mut object = json!({
            "interface": interface,
            "received": sums(ledger.received),
            "sent": sums(ledger.sent),
            "in_flows": sums(ledger.in_flows),
            "no_room": sums(ledger.no_room),
            "interface_received": ledger.interface.map(|counted| sums(counted.received)),
            "interface_sent": ledger.interface.map(|counted| sums(counted.sent)),
            "status": status,
        });
        for why in NoFlow::ALL {
            object[why.name()] = sums(ledger.no_flow[why as usize]);
        }
        object
    }

    /// The same of a cache whose worker died, with what that had exported and what is lost with it.
    pub fn json_of_dead(&self) -> Value {
        let mut object = self.json();
        object["exported_before"] = sums(self.exported_before());
        object["lost_with_worker"] = sums(self.lost_with_worker());
        object
    }

    /// What the program met.
    pub fn seen(&self) -> Sums {
        let mut seen = self.ledger.received;
        seen += self.ledger.sent;
        seen
    }

    /// What a worker that died had exported, or found unreadable, before it did.
    pub fn exported_before(&self) -> Sums {
        let mut exported = self.ledger.taken_before;
        exported -= self.ledger.lost_before;
        exported
    }

    /// What is lost with a worker that died: it had no record yet.
    pub fn lost_with_worker(&self) -> Sums {
        let mut lost = self.ledger.lost_before;
        lost += self.ledger.in_flows;
        lost
    }

    /// Packets in no flow, by whatever cause.
    pub fn in_no_flow(&self) -> Sums {
        let mut all = Sums::default();
        self.ledger.no_flow.into_iter().for_each(|sums| all += sums);
        all
    }

    /// Packets that were given to the flow table.
    fn taken(&self) -> Sums {
        let mut taken = self.ledger.in_flows;
        taken += self.in_no_flow();
        taken
    }
}

fn sums(sums: Sums) -> Value {
    json!({ "packets": sums.packets, "bytes": sums.octets })
}

/// The ledger of a run: a lane for each cache.
pub(super) fn ledger(caches: &[MeterReport]) -> Ledger {
    let lanes = caches.iter().map(|cache| {
        let seen = cache.seen().packets;
        let (taken, lost) = (cache.taken(), cache.ledger.no_room.packets);
        let mut dropped = ByCause::new();
        add_frames(&mut dropped, Cause::KernelRingFull, lost);
        LaneCounters {
            interface: cache.interface.clone(),
            received: Some(seen),
            taken: taken.packets,
            taken_bytes: taken.octets,
            filtered: Some(0),
            // What is in the cache and was not read.
            in_flight: Some(seen.saturating_sub(taken.packets + lost)),
            dropped,
            ..LaneCounters::default()
        }
    });
    let mut ledger = Ledger::from_lanes(lanes.collect());
    let (name, delivered, missed) = (FLOW_TABLE.to_owned(), ledger.taken, ByCause::new());
    ledger.consumers = vec![Consumer { name, delivered, late: 0, missed }];
    ledger
}

/// What a worker says of a cache to its keeper.
#[derive(Serialize, Deserialize)]
struct Facts {
    interface: String,
    cpus: u32,
    sets: u32,
    ring_bytes: u32,
}

/// Has the keeper keep a cache.
pub(super) fn keep(meter: &Meter, link: &Link) {
    let FlowLayout { cpus, sets, ring_bytes } = meter.layout();
    let facts = Facts { interface: meter.interface().to_owned(), cpus, sets, ring_bytes };
    let facts = serde_json::to_string(&facts).expect("facts have text keys only");
    link.keep(facts, &meter.descriptors());
}

/// Takes the caches that a dead worker left off their interfaces, and says where every packet is:
/// exported, lost with the worker (it had read it, or it was still in the cache), or lost before.
/// For its keeper.
///
/// # Errors
/// They are not what they should be, or the kernel refused.
pub fn finish_for_dead(kept: Vec<Kept>) -> anyhow::Result<Vec<MeterReport>> {
    let limits = Limits { memory_bytes: Limits::MEMORY_BYTES_MIN, ..Limits::default() };
    let mut table = FlowTable::new(limits)?;
    let mut reports = Vec::new();
    for Kept { facts, descriptors } in kept {
        let facts: Facts = serde_json::from_str(&facts).context("the facts of a flow cache")?;
        let Facts { interface, cpus, sets, ring_bytes } = facts;
        let layout = FlowLayout { cpus, sets, ring_bytes };
        let mut meter = Meter::take_over(&interface, InterfaceId(0), layout, descriptors)?;
        let ledger = meter.finish(&mut table, &mut |_| {})?;
        reports.push(MeterReport { interface, ledger, status: meter.status() });
    }
    Ok(reports)
}
