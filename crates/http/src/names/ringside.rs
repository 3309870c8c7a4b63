//! Our own names: all that a transaction has.

use super::*;

pub(super) const COLUMNS: &[Column<Transaction>] = &[
    CONNECTION.called("connection"),
    DEPTH.called("depth"),
    COMMUNITY_ID.called("community_id"),
    INTERFACE.called("interface"),
    VLAN.called("vlan"),
    CLIENT.called("client"),
    CLIENT_PORT.called("client_port"),
    SERVER.called("server"),
    SERVER_PORT.called("server_port"),
    FIRST.called("first_ns"),
    LAST.called("last_ns"),
    FIRST_BYTE.called("first_byte_ns"),
    DURATION.called("duration_ns"),
    ENDING.called("ending"),
    METHOD.called("method"),
    TARGET.called("target"),
    VERSION.called("version"),
    HOST.called("host"),
    USER_AGENT.called("user_agent"),
    REFERRER.called("referrer"),
    ORIGIN.called("origin"),
    USER.called("user"),
    PASSWORD.called("password"),
    COOKIE.called("cookie"),
    PROXIED.called("proxied"),
    REQUEST_TYPE.called("request_type"),
    Column::new("request_head_bytes", Kind::Bytes, |row| {
        asked(row, |request| request.message.head_bytes.into())
    }),
    Column::new("request_declared_bytes", Kind::Bytes, |row| {
        asked(row, |request| declared(&request.message))
    }),
    REQUEST_BYTES.called("request_body_bytes"),
    Column::new("request_missing_bytes", Kind::Bytes, |row| {
        asked(row, |request| request.message.missing_bytes.into())
    }),
    Column::new("request_last_ns", Kind::Time, |row| {
        asked(row, |request| request.message.last_ns.into())
    }),
    STATUS.called("status"),
    REASON.called("reason"),
    INTERIM.called("interim_status"),
    Column::new("server_software", Kind::Text, |row| {
        answered(row, |response| optional(&response.server))
    }),
    LOCATION.called("location"),
    RESPONSE_TYPE.called("response_type"),
    Column::new("response_head_bytes", Kind::Bytes, |row| {
        answered(row, |response| response.message.head_bytes.into())
    }),
    Column::new("response_declared_bytes", Kind::Bytes, |row| {
        answered(row, |response| declared(&response.message))
    }),
    RESPONSE_BYTES.called("response_body_bytes"),
    Column::new("response_missing_bytes", Kind::Bytes, |row| {
        answered(row, |response| response.message.missing_bytes.into())
    }),
    Column::new("response_first_ns", Kind::Time, |row| {
        answered(row, |response| response.message.first_ns.into())
    }),
    Column::new("response_last_ns", Kind::Time, |row| {
        answered(row, |response| response.message.last_ns.into())
    }),
];
