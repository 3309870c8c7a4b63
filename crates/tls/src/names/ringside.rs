//! Our own names: all that a handshake has.

use super::*;

pub(super) const COLUMNS: &[Column<Handshake>] = &[
    CONNECTION.called("connection"),
    COMMUNITY_ID.called("community_id"),
    INTERFACE.called("interface"),
    VLAN.called("vlan"),
    CLIENT.called("client"),
    CLIENT_PORT.called("client_port"),
    SERVER.called("server"),
    SERVER_PORT.called("server_port"),
    FIRST.called("first_ns"),
    END.called("end_ns"),
    SERVER_HELLO.called("server_hello_ns"),
    ENDING.called("ending"),
    VERSION.called("version"),
    CIPHER.called("cipher"),
    NAME.called("server_name"),
    OFFERED.called("alpn_offered"),
    PROTOCOL.called("alpn"),
    JA3.called("ja3"),
    JA3S.called("ja3s"),
    JA4.called("ja4"),
    RESUMED.called("resumed"),
    Column::new("retried", Kind::Bool, |row| row.record.is_retried.into()),
    ALERT.called("alert"),
    SUBJECT.called("subject"),
    ISSUER.called("issuer"),
    SERIAL.called("serial"),
    NOT_BEFORE.called("not_before"),
    NOT_AFTER.called("not_after"),
];
