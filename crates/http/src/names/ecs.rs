//! Names of the Elastic Common Schema.

use super::*;
use serde_json::json;

pub(super) const COLUMNS: &[Column<Transaction>] = &[
    FIRST.called("@timestamp"),
    Column::new("event.kind", Kind::Text, |_| "event".into()),
    Column::new("event.category", Kind::List, |_| json!(["web", "network"])),
    Column::new("event.dataset", Kind::Text, |_| "ringside.http".into()),
    FIRST.called("event.start"),
    LAST.called("event.end"),
    DURATION.called("event.duration"),
    ENDING.called("event.reason"),
    Column::new("event.outcome", Kind::Text, |row| {
        answered(row, |response| match response.status {
            400.. => "failure".into(),
            _ => "success".into(),
        })
    }),
    CLIENT.called("source.ip"),
    CLIENT_PORT.called("source.port"),
    CLIENT.called("client.ip"),
    CLIENT_PORT.called("client.port"),
    SERVER.called("destination.ip"),
    SERVER_PORT.called("destination.port"),
    SERVER.called("server.ip"),
    SERVER_PORT.called("server.port"),
    Column::new("network.transport", Kind::Text, |_| "tcp".into()),
    Column::new("network.protocol", Kind::Text, |_| "http".into()),
    COMMUNITY_ID.called("network.community_id"),
    Column::new("network.vlan.id", Kind::Text, |row| {
        row.record.vlan.map(|id| id.to_string()).into()
    }),
    METHOD.called("http.request.method"),
    REFERRER.called("http.request.referrer"),
    REQUEST_BYTES.called("http.request.body.bytes"),
    REQUEST_TYPE.called("http.request.mime_type"),
    STATUS.called("http.response.status_code"),
    RESPONSE_BYTES.called("http.response.body.bytes"),
    RESPONSE_TYPE.called("http.response.mime_type"),
    VERSION.called("http.version"),
    URL.called("url.original"),
    HOST.called("url.domain"),
    USER_AGENT.called("user_agent.original"),
    USER.called("user.name"),
    INTERFACE.called("observer.ingress.interface.name"),
];
