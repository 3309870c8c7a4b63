//! Names of Suricata's eve.json: events of type `tls`, and `quic` with the same fields and those of
//! that type.

use super::*;

pub(super) const COLUMNS: &[Column<Handshake>] = &[
    FIRST.called("timestamp"),
    Column::new("flow_id", Kind::Count, |row| {
        // Connections over QUIC have numbers of their own, and one log has both.
        (row.record.connection | u64::from(row.record.quic.is_some()) << 48).into()
    }),
    INTERFACE.called("in_iface"),
    Column::new("event_type", Kind::Text, |row| carried(row, "tls", "quic")),
    Column::new("vlan", Kind::List, |row| row.record.vlan.map(|id| vec![id]).into()),
    CLIENT.called("src_ip"),
    CLIENT_PORT.called("src_port"),
    SERVER.called("dest_ip"),
    SERVER_PORT.called("dest_port"),
    Column::new("proto", Kind::Text, |row| carried(row, "TCP", "UDP")),
    COMMUNITY_ID.called("community_id"),
    SUBJECT.called("tls.subject"),
    ISSUER.called("tls.issuerdn"),
    SERIAL.called("tls.serial"),
    NOT_BEFORE.called("tls.notbefore"),
    NOT_AFTER.called("tls.notafter"),
    NAME.called("tls.sni"),
    VERSION.called("tls.version"),
    RESUMED.called("tls.session_resumed"),
    OFFERED.called("tls.client_alpns"),
    JA3.called("tls.ja3.hash"),
    JA3S.called("tls.ja3s.hash"),
    JA4.called("tls.ja4"),
    QUIC_VERSION.called("quic.version"),
    Column::new("quic.sni", Kind::Text, |row| over_quic(row, NAME)),
    Column::new("quic.ja3.hash", Kind::Text, |row| over_quic(row, JA3)),
    Column::new("quic.ja3s.hash", Kind::Text, |row| over_quic(row, JA3S)),
    Column::new("quic.ja4", Kind::Text, |row| over_quic(row, JA4)),
];

/// A field of a handshake over QUIC.
fn over_quic(row: &Row<'_, Handshake>, field: Field) -> Value {
    row.record.quic.map_or(Value::Null, |_| (field.value)(row))
}
