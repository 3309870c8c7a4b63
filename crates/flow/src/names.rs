//! What the fields of a record are called: each field once, and the columns of five schemes.

mod ecs;
mod eve;
mod otel;
mod ringside;
mod zeek;

use crate::{EndReason, Record, Side};
use ringside_record::{Column, Kind, Names, Row, community_id};
use ringside_wire::{IpProtocol, Tcp};
use serde_json::Value;

type Field = ringside_record::Field<Record>;

impl ringside_record::Record for Record {
    const LOG: &'static str = "conn";

    fn columns(names: Names) -> &'static [Column<Record>] {
        match names {
            Names::Ringside => ringside::COLUMNS,
            Names::Zeek => zeek::COLUMNS,
            Names::Eve => eve::COLUMNS,
            Names::Ecs => ecs::COLUMNS,
            Names::Otel => otel::COLUMNS,
        }
    }
}

const FLOW_ID: Field = Field::new(Kind::Count, |row| row.record.flow_id.into());
const COMMUNITY_ID: Field = Field::new(Kind::Text, |row| row.record.community_id(0).into());
const INTERFACE: Field = Field::new(Kind::Text, |row| row.interface());
const VLAN: Field = Field::new(Kind::Count, |row| row.record.vlan.into());
const SOURCE: Field = Field::new(Kind::Address, |row| row.record.source.to_string().into());
const DESTINATION: Field =
    Field::new(Kind::Address, |row| row.record.destination.to_string().into());
const SOURCE_PORT: Field = Field::new(Kind::Port, |row| port(row, row.record.source_port));
const DESTINATION_PORT: Field =
    Field::new(Kind::Port, |row| port(row, row.record.destination_port));
const ICMP_TYPE: Field =
    Field::new(Kind::Count, |row| row.record.icmp().map(|(kind, _)| kind).into());
const ICMP_CODE: Field =
    Field::new(Kind::Count, |row| row.record.icmp().map(|(_, code)| code).into());
const APPLICATION: Field = Field::new(Kind::Text, |row| {
    row.record.application.map(|application| application.name()).into()
});
const TRANSPORT: Field = Field::new(Kind::Text, |row| transport(row.record).into());
const NETWORK_TYPE: Field = Field::new(Kind::Text, |row| match row.record.source.is_ipv6() {
    true => "ipv6".into(),
    false => "ipv4".into(),
});
const END: Field = Field::new(Kind::Text, |row| row.record.end.name().into());
const FIRST: Field = Field::new(Kind::Time, |row| row.record.first_ns().into());
const LAST: Field = Field::new(Kind::Time, |row| row.record.last_ns().into());
const DURATION: Field = Field::new(Kind::Duration, |row| duration_ns(row.record).into());
const PACKETS: Field = Field::new(Kind::Count, |row| row.record.forward.packets.into());
const BYTES: Field = Field::new(Kind::Bytes, |row| row.record.forward.octets.into());
const IP_BYTES: Field = Field::new(Kind::Bytes, |row| row.record.forward.ip_octets.into());
const REVERSE_PACKETS: Field = Field::new(Kind::Count, |row| row.record.reverse.packets.into());
const REVERSE_BYTES: Field = Field::new(Kind::Bytes, |row| row.record.reverse.octets.into());
const REVERSE_IP_BYTES: Field = Field::new(Kind::Bytes, |row| row.record.reverse.ip_octets.into());

impl Record {
    /// The [Community ID](community_id()) of the flow.
    pub fn community_id(&self, seed: u16) -> String {
        let source = (self.source, self.source_port);
        let destination = (self.destination, self.destination_port);
        community_id(source, destination, self.protocol, self.is_one_way, seed)
    }
}

/// A port of TCP, UDP or SCTP.
fn port(row: &Row<'_, Record>, port: u16) -> Value {
    if row.record.has_ports() { port.into() } else { Value::Null }
}

/// The protocol's short name in lower case; its number where it has none here.
fn transport(record: &Record) -> String {
    record.protocol_name().map_or_else(|| record.protocol.0.to_string(), String::from)
}

fn duration_ns(record: &Record) -> u64 {
    record.last_ns() - record.first_ns()
}

/// True if a side had all of these flags in some segments.
fn has(side: &Side, flags: u16) -> bool {
    side.tcp_flags & flags == flags
}

/// True if the end was seen, in whichever record.
fn is_closed(record: &Record) -> bool {
    let Record { forward, reverse, end, .. } = record;
    *end == EndReason::End || has(forward, Tcp::FIN) && has(reverse, Tcp::FIN)
}

/// What TCP alone has.
fn of_tcp(record: &Record, value: impl Into<Value>) -> Value {
    if record.protocol == IpProtocol::TCP { value.into() } else { Value::Null }
}

#[cfg(test)]
pub(crate) mod tests;
