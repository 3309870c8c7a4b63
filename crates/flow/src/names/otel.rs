//! Names of OpenTelemetry's semantic conventions, as attributes: dots are part of a name. What
//! they have no name for stands under `ringside.flow`.

use super::Column;

pub(super) const COLUMNS: &[Column] = &[
    ("source.address", |row| row.record.source.to_string().into()),
    ("source.port", |row| row.port(row.record.source_port)),
    ("destination.address", |row| row.record.destination.to_string().into()),
    ("destination.port", |row| row.port(row.record.destination_port)),
    ("network.transport", |row| row.transport().into()),
    ("network.type", |row| row.network_type()),
    ("network.protocol.name", |row| row.application()),
    ("network.interface.name", |row| row.interface()),
    ("ringside.flow.id", |row| row.record.flow_id.into()),
    ("ringside.flow.community_id", |row| row.community_id()),
    ("ringside.flow.vlan", |row| row.record.vlan.into()),
    ("ringside.flow.end", |row| row.record.end.name().into()),
    ("ringside.flow.start_unix_nano", |row| row.record.first_ns().into()),
    ("ringside.flow.end_unix_nano", |row| row.record.last_ns().into()),
    ("ringside.flow.packets", |row| row.record.forward.packets.into()),
    ("ringside.flow.bytes", |row| row.record.forward.octets.into()),
    ("ringside.flow.reverse.packets", |row| row.record.reverse.packets.into()),
    ("ringside.flow.reverse.bytes", |row| row.record.reverse.octets.into()),
];
