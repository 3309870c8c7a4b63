//! What tables make of flows, to compare.

use ringside_flow::{Record, Sums};
use ringside_wire::{IpProtocol, TunnelId};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A flow's ends, lower one first, and what is around them.
pub type Name = ((IpAddr, u16), (IpAddr, u16), IpProtocol, Option<u16>, Option<TunnelId>);

/// Of one direction: packets, octets on the wire and of IP, flags.
type Way = (u64, u64, u64, u16);

/// Records added up by flow: from the lower end, and from the higher.
#[derive(Debug, Default, PartialEq)]
pub struct ByFlow(pub BTreeMap<String, [Way; 2]>);

impl ByFlow {
    pub fn add(&mut self, record: &Record) {
        let from = (record.source, record.source_port);
        let to = (record.destination, record.destination_port);
        let is_turned = !record.is_one_way && from > to;
        let record = if is_turned { record.reversed() } else { record.clone() };
        let Record { source, destination, source_port, destination_port, .. } = record;
        let name: Name = (
            (source, source_port),
            (destination, destination_port),
            record.protocol,
            record.vlan,
            record.tunnel,
        );
        let ways = self.0.entry(format!("{name:?}")).or_default();
        for (way, side) in ways.iter_mut().zip([&record.forward, &record.reverse]) {
            way.0 += side.packets;
            way.1 += side.octets;
            way.2 += side.ip_octets;
            way.3 |= side.tcp_flags;
        }
    }

    /// Packets and octets on the wire of all.
    pub fn sums(&self) -> Sums {
        let ways = || self.0.values().flatten();
        let (packets, octets) = (ways().map(|way| way.0).sum(), ways().map(|way| way.1).sum());
        Sums { packets, octets }
    }
}
