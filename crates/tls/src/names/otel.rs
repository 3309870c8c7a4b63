//! Names of OpenTelemetry's semantic conventions, as attributes. What they have no name for stands
//! under `ringside.tls`.

use super::*;

pub(super) const COLUMNS: &[Column<Handshake>] = &[
    CLIENT.called("client.address"),
    CLIENT_PORT.called("client.port"),
    SERVER.called("server.address"),
    SERVER_PORT.called("server.port"),
    TRANSPORT.called("network.transport"),
    INTERFACE.called("network.interface.name"),
    CIPHER.called("tls.cipher"),
    RESUMED.called("tls.resumed"),
    PROTOCOL.called("tls.next_protocol"),
    NAME.called("server.name"),
    JA3.called("tls.client.ja3"),
    JA3S.called("tls.server.ja3s"),
    SUBJECT.called("tls.server.subject"),
    ISSUER.called("tls.server.issuer"),
    NOT_BEFORE.called("tls.server.not_before"),
    NOT_AFTER.called("tls.server.not_after"),
    VERSION.called("ringside.tls.version"),
    QUIC_VERSION.called("ringside.tls.quic_version"),
    JA4.called("ringside.tls.ja4"),
    CONNECTION.called("ringside.tls.connection"),
    COMMUNITY_ID.called("ringside.tls.community_id"),
    VLAN.called("ringside.tls.vlan"),
    FIRST.called("ringside.tls.start_unix_nano"),
    SERVER_HELLO.called("ringside.tls.server_hello"),
    ENDING.called("ringside.tls.ending"),
];
