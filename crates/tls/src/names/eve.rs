//! Names of Suricata's eve.json, events of type `tls`.

use super::*;

pub(super) const COLUMNS: &[Column<Handshake>] = &[
    FIRST.called("timestamp"),
    CONNECTION.called("flow_id"),
    INTERFACE.called("in_iface"),
    Column::new("event_type", Kind::Text, |_| "tls".into()),
    Column::new("vlan", Kind::List, |row| row.record.vlan.map(|id| vec![id]).into()),
    CLIENT.called("src_ip"),
    CLIENT_PORT.called("src_port"),
    SERVER.called("dest_ip"),
    SERVER_PORT.called("dest_port"),
    Column::new("proto", Kind::Text, |_| "TCP".into()),
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
];
