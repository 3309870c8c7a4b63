//! Names of OpenTelemetry's semantic conventions, as attributes. What they have no name for stands
//! under `ringside.http`.

use super::*;

pub(super) const COLUMNS: &[Column<Transaction>] = &[
    CLIENT.called("client.address"),
    CLIENT_PORT.called("client.port"),
    SERVER.called("server.address"),
    SERVER_PORT.called("server.port"),
    Column::new("network.transport", Kind::Text, |_| "tcp".into()),
    Column::new("network.protocol.name", Kind::Text, |_| "http".into()),
    VERSION.called("network.protocol.version"),
    INTERFACE.called("network.interface.name"),
    METHOD.called("http.request.method"),
    REQUEST_BYTES.called("http.request.body.size"),
    STATUS.called("http.response.status_code"),
    RESPONSE_BYTES.called("http.response.body.size"),
    URL.called("url.full"),
    USER_AGENT.called("user_agent.original"),
    USER.called("user.name"),
    DURATION.called("http.server.request.duration"),
    CONNECTION.called("ringside.http.connection"),
    DEPTH.called("ringside.http.depth"),
    COMMUNITY_ID.called("ringside.http.community_id"),
    VLAN.called("ringside.http.vlan"),
    FIRST.called("ringside.http.start_unix_nano"),
    LAST.called("ringside.http.end_unix_nano"),
    FIRST_BYTE.called("ringside.http.first_byte"),
    ENDING.called("ringside.http.ending"),
];
