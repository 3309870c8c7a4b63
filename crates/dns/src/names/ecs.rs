//! Names of the Elastic Common Schema.

use super::*;

pub(super) const COLUMNS: &[Column<Transaction>] = &[
    FIRST.called("@timestamp"),
    Column::new("event.kind", Kind::Text, |_| "event".into()),
    Column::new("event.category", Kind::List, |_| json!(["network"])),
    Column::new("event.dataset", Kind::Text, |_| "ringside.dns".into()),
    FIRST.called("event.start"),
    LAST.called("event.end"),
    LATENCY.called("event.duration"),
    ENDING.called("event.reason"),
    Column::new("event.outcome", Kind::Text, |row| {
        answered(row, |response| if response.rcode == 0 { "success" } else { "failure" }.into())
    }),
    CLIENT.called("source.ip"),
    CLIENT_PORT.called("source.port"),
    CLIENT.called("client.ip"),
    CLIENT_PORT.called("client.port"),
    SERVER.called("destination.ip"),
    SERVER_PORT.called("destination.port"),
    SERVER.called("server.ip"),
    SERVER_PORT.called("server.port"),
    TRANSPORT.called("network.transport"),
    PROTOCOL.called("network.protocol"),
    COMMUNITY_ID.called("network.community_id"),
    Column::new("network.vlan.id", Kind::Text, |row| {
        row.record.vlan.map(|id| id.to_string()).into()
    }),
    Column::new("dns.type", Kind::Text, |row| {
        if row.record.response.is_some() { "answer" } else { "query" }.into()
    }),
    Column::new("dns.id", Kind::Text, |row| row.record.id.to_string().into()),
    OPCODE.called("dns.op_code"),
    Column::new("dns.header_flags", Kind::List, flags),
    QNAME.called("dns.question.name"),
    QTYPE_NAME.called("dns.question.type"),
    QCLASS_NAME.called("dns.question.class"),
    RCODE_NAME.called("dns.response_code"),
    Column::new("dns.answers", Kind::List, records),
    Column::new("dns.resolved_ip", Kind::List, addresses),
    INTERFACE.called("observer.ingress.interface.name"),
];
