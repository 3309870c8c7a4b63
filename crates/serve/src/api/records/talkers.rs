//! Addresses, with what they sent and received.

use super::kept::{Cause, Kept, lock};
use crate::limits::TALKERS_MAX;
use ringside_core::Timestamp;
use ringside_flow::{Record, RecordSink, Side, SinkCounts};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::AddAssign;
use std::sync::Mutex;

/// Adds flows up by address, and puts what they came to into an answer at the end.
pub struct Talkers<'k> {
    sums: BTreeMap<IpAddr, Sums>,
    kept: &'k Mutex<Kept>,
    counts: SinkCounts,
    addresses_max: usize,
}

/// Of an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Sums {
    bytes: u64,
    packets: u64,
    sent_bytes: u64,
    sent_packets: u64,
    received_bytes: u64,
    received_packets: u64,
    flows: u64,
}

#[derive(Serialize)]
struct Talker {
    address: IpAddr,
    #[serde(flatten)]
    sums: Sums,
}

impl Sums {
    /// Of one end of a flow, which sent and received these.
    fn of(record: &Record, sent: &Side, received: &Side) -> Sums {
        Sums {
            bytes: record.octets(),
            packets: record.packets(),
            sent_bytes: sent.octets,
            sent_packets: sent.packets,
            received_bytes: received.octets,
            received_packets: received.packets,
            // A flow with several records is one.
            flows: u64::from(record.part == 1),
        }
    }
}

impl AddAssign for Sums {
    fn add_assign(&mut self, other: Sums) {
        self.bytes += other.bytes;
        self.packets += other.packets;
        self.sent_bytes += other.sent_bytes;
        self.sent_packets += other.sent_packets;
        self.received_bytes += other.received_bytes;
        self.received_packets += other.received_packets;
        self.flows += other.flows;
    }
}

impl<'k> Talkers<'k> {
    /// Into `kept`.
    pub fn new(kept: &'k Mutex<Kept>) -> Talkers<'k> {
        let (sums, counts) = (BTreeMap::new(), SinkCounts::default());
        Talkers { sums, kept, counts, addresses_max: TALKERS_MAX }
    }

    fn add(&mut self, address: IpAddr, sums: Sums) {
        let is_full = self.sums.len() >= self.addresses_max;
        match self.sums.get_mut(&address) {
            Some(known) => *known += sums,
            None if is_full => lock(self.kept).miss(Cause::Addresses),
            None => drop(self.sums.insert(address, sums)),
        }
    }
}

impl RecordSink for Talkers<'_> {
    fn put(&mut self, record: &Record, _interface: &str, _now: Timestamp) {
        let Record { source, destination, forward, reverse, .. } = record;
        self.add(*source, Sums::of(record, forward, reverse));
        // What a host sends to itself is one flow, and counts once.
        if source != destination {
            self.add(*destination, Sums::of(record, reverse, forward));
        }
        self.counts.delivered.add(record);
    }

    fn finish(&mut self, _now: Timestamp) {
        let mut kept = lock(self.kept);
        for (address, sums) in std::mem::take(&mut self.sums) {
            kept.put(sums.bytes, |line| {
                let written = serde_json::to_writer(line, &Talker { address, sums });
                written.expect("memory takes every line");
            });
        }
    }

    fn counts(&self) -> SinkCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_without_a_place_are_left_out_and_that_is_said() {
        let kept = Mutex::new(Kept::new(10, 1000));
        let mut talkers = Talkers { addresses_max: 1, ..Talkers::new(&kept) };
        let [first, second] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap());
        let sums = Sums { bytes: 7, flows: 1, ..Sums::default() };
        talkers.add(first, sums);
        talkers.add(first, sums);
        assert_eq!(lock(&kept).missing().count(), 0);
        talkers.add(second, sums);
        talkers.finish(Timestamp::default());
        drop(talkers);
        let kept = kept.into_inner().unwrap();
        assert_eq!(kept.missing().collect::<Vec<_>>(), [Cause::Addresses]);
        let records = kept.into_records().unwrap();
        assert_eq!(records.len(), 1);
        let talker: serde_json::Value = serde_json::from_str(records[0].get()).unwrap();
        assert_eq!((&talker["address"], &talker["bytes"]), (&"10.0.0.1".into(), &14.into()));
    }
}
