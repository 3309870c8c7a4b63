//! Names of the Elastic Common Schema.

use super::*;

pub(super) const COLUMNS: &[Column<Handshake>] = &[
    FIRST.called("@timestamp"),
    Column::new("event.kind", Kind::Text, |_| "event".into()),
    Column::new("event.category", Kind::List, |_| json!(["network"])),
    Column::new("event.dataset", Kind::Text, |_| "ringside.tls".into()),
    FIRST.called("event.start"),
    END.called("event.end"),
    ENDING.called("event.reason"),
    CLIENT.called("source.ip"),
    CLIENT_PORT.called("source.port"),
    CLIENT.called("client.ip"),
    CLIENT_PORT.called("client.port"),
    SERVER.called("destination.ip"),
    SERVER_PORT.called("destination.port"),
    SERVER.called("server.ip"),
    SERVER_PORT.called("server.port"),
    Column::new("network.transport", Kind::Text, |row| carried(row, "tcp", "udp")),
    Column::new("network.protocol", Kind::Text, |row| carried(row, "tls", "quic")),
    COMMUNITY_ID.called("network.community_id"),
    Column::new("network.vlan.id", Kind::Text, |row| {
        row.record.vlan.map(|id| id.to_string()).into()
    }),
    Column::new("tls.version", Kind::Text, |row| {
        let name = row.record.version().map(version);
        name.and_then(|name| name.split_once(' ').map(|(_, number)| number.to_owned())).into()
    }),
    CIPHER.called("tls.cipher"),
    RESUMED.called("tls.resumed"),
    Column::new("tls.established", Kind::Bool, |row| {
        (row.record.ending == Ending::Complete).into()
    }),
    PROTOCOL.called("tls.next_protocol"),
    NAME.called("tls.client.server_name"),
    JA3.called("tls.client.ja3"),
    JA4.called("tls.client.ja4"),
    JA3S.called("tls.server.ja3s"),
    SUBJECT.called("tls.server.subject"),
    ISSUER.called("tls.server.issuer"),
    NOT_BEFORE.called("tls.server.not_before"),
    NOT_AFTER.called("tls.server.not_after"),
    SERIAL.called("tls.server.x509.serial_number"),
    INTERFACE.called("observer.ingress.interface.name"),
];
