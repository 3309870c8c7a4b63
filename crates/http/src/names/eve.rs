//! Names of Suricata's eve.json, events of type `http`.

use super::*;

pub(super) const COLUMNS: &[Column<Transaction>] = &[
    FIRST.called("timestamp"),
    CONNECTION.called("flow_id"),
    INTERFACE.called("in_iface"),
    Column::new("event_type", Kind::Text, |_| "http".into()),
    Column::new("vlan", Kind::List, |row| row.record.vlan.map(|id| vec![id]).into()),
    CLIENT.called("src_ip"),
    CLIENT_PORT.called("src_port"),
    SERVER.called("dest_ip"),
    SERVER_PORT.called("dest_port"),
    Column::new("proto", Kind::Text, |_| "TCP".into()),
    // Suricata counts from 0.
    Column::new("tx_id", Kind::Count, |row| (row.record.depth - 1).into()),
    COMMUNITY_ID.called("community_id"),
    HOST.called("http.hostname"),
    TARGET.called("http.url"),
    USER_AGENT.called("http.http_user_agent"),
    RESPONSE_TYPE.called("http.http_content_type"),
    REFERRER.called("http.http_refer"),
    METHOD.called("http.http_method"),
    Column::new("http.protocol", Kind::Text, |row| format!("HTTP/{}", version(row.record)).into()),
    STATUS.called("http.status"),
    LOCATION.called("http.redirect"),
    RESPONSE_BYTES.called("http.length"),
];
