//! Names of Zeek's dns.log.

use super::*;

pub(super) const COLUMNS: &[Column<Transaction>] = &[
    FIRST.called("ts"),
    Column::new("uid", Kind::Text, |row| row.record.community_id().into()),
    CLIENT.called("id.orig_h"),
    CLIENT_PORT.called("id.orig_p"),
    SERVER.called("id.resp_h"),
    SERVER_PORT.called("id.resp_p"),
    TRANSPORT.called("proto"),
    ID.called("trans_id"),
    LATENCY.called("rtt"),
    QNAME.called("query"),
    QCLASS.called("qclass"),
    Column::new("qclass_name", Kind::Text, |row| {
        asked(row, |question| match question.class {
            1 => "C_INTERNET".into(),
            other => class(other).into(),
        })
    }),
    QTYPE.called("qtype"),
    QTYPE_NAME.called("qtype_name"),
    RCODE.called("rcode"),
    RCODE_NAME.called("rcode_name"),
    Column::new("AA", Kind::Bool, |row| has(row, AUTHORITATIVE).into()),
    Column::new("TC", Kind::Bool, |row| has(row, TRUNCATED).into()),
    Column::new("RD", Kind::Bool, |row| has(row, RECURSION_DESIRED).into()),
    Column::new("RA", Kind::Bool, |row| has(row, RECURSION_AVAILABLE).into()),
    Column::new("Z", Kind::Count, |row| (row.record.flags() >> 4 & 7).into()),
    ANSWERS.called("answers"),
    Column::new("TTLs", Kind::List, |row| {
        answered(row, |response| {
            response.answers.iter().map(|answer| format!("{}.000000", answer.ttl)).collect()
        })
    }),
    Column::new("rejected", Kind::Bool, |row| {
        answered(row, |response| (response.rcode == 5).into())
    }),
];
