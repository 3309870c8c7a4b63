//! Names of the Elastic Common Schema.

use super::{Column, time};
use crate::EndReason;
use serde_json::json;

const FORMAT: &str = "%Y-%m-%dT%H:%M:%S%.9fZ";

pub(super) const COLUMNS: &[Column] = &[
    ("@timestamp", |row| time(row.record.last_ns(), FORMAT)),
    ("event.kind", |_| "event".into()),
    ("event.category", |_| json!(["network"])),
    ("event.action", |_| "network_flow".into()),
    ("event.start", |row| time(row.record.first_ns(), FORMAT)),
    ("event.end", |row| time(row.record.last_ns(), FORMAT)),
    ("event.duration", |row| row.duration_ns().into()),
    ("event.reason", |row| row.record.end.name().into()),
    ("flow.id", |row| row.record.flow_id.to_string().into()),
    ("flow.final", |row| (row.record.end != EndReason::Active).into()),
    ("source.ip", |row| row.record.source.to_string().into()),
    ("source.port", |row| row.port(row.record.source_port)),
    ("source.packets", |row| row.record.forward.packets.into()),
    ("source.bytes", |row| row.record.forward.octets.into()),
    ("destination.ip", |row| row.record.destination.to_string().into()),
    ("destination.port", |row| row.port(row.record.destination_port)),
    ("destination.packets", |row| row.record.reverse.packets.into()),
    ("destination.bytes", |row| row.record.reverse.octets.into()),
    ("network.type", |row| row.network_type()),
    ("network.transport", |row| row.transport().into()),
    ("network.iana_number", |row| row.record.protocol.0.to_string().into()),
    ("network.protocol", |row| row.application()),
    ("network.packets", |row| row.record.packets().into()),
    ("network.bytes", |row| row.record.octets().into()),
    ("network.community_id", |row| row.community_id()),
    ("network.vlan.id", |row| row.record.vlan.map(|id| id.to_string()).into()),
    ("observer.ingress.interface.name", |row| row.interface()),
];
