//! Names of Zeek's http.log.

use super::*;

pub(super) const COLUMNS: &[Column<Transaction>] = &[
    FIRST.called("ts"),
    Column::new("uid", Kind::Text, |row| format!("C{:x}", row.record.connection).into()),
    CLIENT.called("id.orig_h"),
    CLIENT_PORT.called("id.orig_p"),
    SERVER.called("id.resp_h"),
    SERVER_PORT.called("id.resp_p"),
    DEPTH.called("trans_depth"),
    METHOD.called("method"),
    HOST.called("host"),
    TARGET.called("uri"),
    REFERRER.called("referrer"),
    VERSION.called("version"),
    USER_AGENT.called("user_agent"),
    ORIGIN.called("origin"),
    REQUEST_BYTES.called("request_body_len"),
    RESPONSE_BYTES.called("response_body_len"),
    STATUS.called("status_code"),
    REASON.called("status_msg"),
    INTERIM.called("info_code"),
    Column::new("info_msg", Kind::Text, |_| Value::Null),
    Column::new("tags", Kind::List, |_| Value::Array(Vec::new())),
    USER.called("username"),
    PASSWORD.called("password"),
    PROXIED.called("proxied"),
];
