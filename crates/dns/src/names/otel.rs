//! Names of OpenTelemetry's semantic conventions, as attributes. What they have no name for stands
//! under `ringside.dns`.

use super::*;

pub(super) const COLUMNS: &[Column<Transaction>] = &[
    CLIENT.called("client.address"),
    CLIENT_PORT.called("client.port"),
    SERVER.called("server.address"),
    SERVER_PORT.called("server.port"),
    TRANSPORT.called("network.transport"),
    PROTOCOL.called("network.protocol.name"),
    INTERFACE.called("network.interface.name"),
    QNAME.called("dns.question.name"),
    ANSWERS.called("dns.answers"),
    LATENCY.called("dns.lookup.duration"),
    ID.called("ringside.dns.id"),
    OPCODE.called("ringside.dns.opcode"),
    QTYPE_NAME.called("ringside.dns.type"),
    QCLASS_NAME.called("ringside.dns.class"),
    RCODE_NAME.called("ringside.dns.rcode"),
    RETRANSMISSIONS.called("ringside.dns.retransmissions"),
    COMMUNITY_ID.called("ringside.dns.community_id"),
    VLAN.called("ringside.dns.vlan"),
    FIRST.called("ringside.dns.start_unix_nano"),
    LAST.called("ringside.dns.end_unix_nano"),
    ENDING.called("ringside.dns.ending"),
];
