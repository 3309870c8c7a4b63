//! Names of Suricata's eve.json, events of type `dns` in version 3.

use super::*;

pub(super) const COLUMNS: &[Column<Transaction>] = &[
    FIRST.called("timestamp"),
    INTERFACE.called("in_iface"),
    Column::new("event_type", Kind::Text, |_| "dns".into()),
    Column::new("vlan", Kind::List, |row| row.record.vlan.map(|id| vec![id]).into()),
    CLIENT.called("src_ip"),
    CLIENT_PORT.called("src_port"),
    SERVER.called("dest_ip"),
    SERVER_PORT.called("dest_port"),
    Column::new("proto", Kind::Text, |row| row.record.transport.name().to_ascii_uppercase().into()),
    COMMUNITY_ID.called("community_id"),
    Column::new("dns.version", Kind::Count, |_| 3.into()),
    Column::new("dns.type", Kind::Text, |row| {
        if row.record.response.is_some() { "response" } else { "request" }.into()
    }),
    ID.called("dns.id"),
    Column::new("dns.opcode", Kind::Count, |row| row.record.opcode().into()),
    Column::new("dns.flags", Kind::Text, |row| format!("{:x}", row.record.flags()).into()),
    Column::new("dns.qr", Kind::Bool, |row| has(row, RESPONSE).into()),
    Column::new("dns.rd", Kind::Bool, |row| has(row, RECURSION_DESIRED).into()),
    Column::new("dns.ra", Kind::Bool, |row| has(row, RECURSION_AVAILABLE).into()),
    RCODE_NAME.called("dns.rcode"),
    Column::new("dns.queries", Kind::List, |row| {
        asked(row, |question| {
            let (name, kind) = (question.name.to_string(), rtype(question.qtype));
            json!([{ "rrname": name, "rrtype": kind }])
        })
    }),
    Column::new("dns.answers", Kind::List, |row| {
        let object = |answer: &Answer| {
            json!({
                "rrname": answer.name.to_string(),
                "rrtype": rtype(answer.rtype),
                "ttl": answer.ttl,
                "rdata": answer.data,
            })
        };
        answered(row, |response| response.answers.iter().map(object).collect())
    }),
];
