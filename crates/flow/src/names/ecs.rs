//! Names of the Elastic Common Schema.

use super::*;
use serde_json::json;

pub(super) const COLUMNS: &[Column<Record>] = &[
    LAST.called("@timestamp"),
    Column::new("event.kind", Kind::Text, |_| "event".into()),
    Column::new("event.category", Kind::List, |_| json!(["network"])),
    Column::new("event.action", Kind::Text, |_| "network_flow".into()),
    FIRST.called("event.start"),
    LAST.called("event.end"),
    DURATION.called("event.duration"),
    END.called("event.reason"),
    Column::new("flow.id", Kind::Text, |row| row.record.flow_id.to_string().into()),
    Column::new("flow.final", Kind::Bool, |row| (row.record.end != EndReason::Active).into()),
    SOURCE.called("source.ip"),
    SOURCE_PORT.called("source.port"),
    PACKETS.called("source.packets"),
    BYTES.called("source.bytes"),
    DESTINATION.called("destination.ip"),
    DESTINATION_PORT.called("destination.port"),
    REVERSE_PACKETS.called("destination.packets"),
    REVERSE_BYTES.called("destination.bytes"),
    NETWORK_TYPE.called("network.type"),
    TRANSPORT.called("network.transport"),
    Column::new("network.iana_number", Kind::Text, |row| row.record.protocol.0.to_string().into()),
    APPLICATION.called("network.protocol"),
    Column::new("network.packets", Kind::Count, |row| row.record.packets().into()),
    Column::new("network.bytes", Kind::Bytes, |row| row.record.octets().into()),
    COMMUNITY_ID.called("network.community_id"),
    Column::new("network.vlan.id", Kind::Text, |row| {
        row.record.vlan.map(|id| id.to_string()).into()
    }),
    INTERFACE.called("observer.ingress.interface.name"),
];
