//! Names of OpenTelemetry's semantic conventions, as attributes: dots are part of a name. What
//! they have no name for stands under `ringside.flow`.

use super::*;

pub(super) const COLUMNS: &[Column<Record>] = &[
    SOURCE.called("source.address"),
    SOURCE_PORT.called("source.port"),
    DESTINATION.called("destination.address"),
    DESTINATION_PORT.called("destination.port"),
    TRANSPORT.called("network.transport"),
    NETWORK_TYPE.called("network.type"),
    APPLICATION.called("network.protocol.name"),
    INTERFACE.called("network.interface.name"),
    FLOW_ID.called("ringside.flow.id"),
    COMMUNITY_ID.called("ringside.flow.community_id"),
    VLAN.called("ringside.flow.vlan"),
    END.called("ringside.flow.end"),
    FIRST.called("ringside.flow.start_unix_nano"),
    LAST.called("ringside.flow.end_unix_nano"),
    PACKETS.called("ringside.flow.packets"),
    BYTES.called("ringside.flow.bytes"),
    REVERSE_PACKETS.called("ringside.flow.reverse.packets"),
    REVERSE_BYTES.called("ringside.flow.reverse.bytes"),
];
