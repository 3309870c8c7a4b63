//! Our own names: all that a transaction has.

use super::*;

pub(super) const COLUMNS: &[Column<Transaction>] = &[
    COMMUNITY_ID.called("community_id"),
    INTERFACE.called("interface"),
    VLAN.called("vlan"),
    PROTOCOL.called("protocol"),
    TRANSPORT.called("transport"),
    CLIENT.called("client"),
    CLIENT_PORT.called("client_port"),
    SERVER.called("server"),
    SERVER_PORT.called("server_port"),
    FIRST.called("first_ns"),
    LAST.called("last_ns"),
    LATENCY.called("latency_ns"),
    ENDING.called("ending"),
    ID.called("id"),
    OPCODE.called("opcode"),
    Column::new("flags", Kind::List, flags),
    QUESTIONS.called("questions"),
    QNAME.called("name"),
    QTYPE_NAME.called("type"),
    QCLASS_NAME.called("class"),
    Column::new("query_bytes", Kind::Bytes, |row| {
        row.record.query.map_or(Value::Null, |query| query.bytes.into())
    }),
    RETRANSMISSIONS.called("retransmissions"),
    RCODE_NAME.called("rcode"),
    Column::new("response_bytes", Kind::Bytes, |row| answered(row, |r| r.bytes.into())),
    Column::new("answers_count", Kind::Count, |row| answered(row, |r| r.counts[0].into())),
    Column::new("authority_count", Kind::Count, |row| answered(row, |r| r.counts[1].into())),
    Column::new("additional_count", Kind::Count, |row| answered(row, |r| r.counts[2].into())),
    Column::new("is_whole", Kind::Bool, |row| answered(row, |r| r.is_whole.into())),
    Column::new("answers", Kind::List, records),
];
