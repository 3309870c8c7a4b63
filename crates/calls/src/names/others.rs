//! Names of other programs, as far as they have some for calls.

use super::*;
use serde_json::json;

/// Zeek's sip.log, a line for each INVITE: what it has of other messages is not set.
pub(super) const ZEEK: &[Column<Call>] = &[
    FIRST.called("ts"),
    Column::new("uid", Kind::Text, |row| format!("C{:x}", row.record.number).into()),
    CALLER_AT.called("id.orig_h"),
    CALLER_PORT.called("id.orig_p"),
    CALLEE_AT.called("id.resp_h"),
    CALLEE_PORT.called("id.resp_p"),
    Column::new("trans_depth", Kind::Count, |_| 0.into()),
    Column::new("method", Kind::Text, |row| said(row.record, |_| "INVITE".into())),
    CALLEE.called("uri"),
    CALLER.called("request_from"),
    CALLEE.called("request_to"),
    CALLER.called("response_from"),
    CALLEE.called("response_to"),
    CALL_ID.called("call_id"),
    CALLER_AGENT.called("user_agent"),
    STATUS.called("status_code"),
];

/// Suricata's eve.json, events of type `sip`.
pub(super) const EVE: &[Column<Call>] = &[
    FIRST.called("timestamp"),
    NUMBER.called("flow_id"),
    INTERFACE.called("in_iface"),
    Column::new("event_type", Kind::Text, |_| "sip".into()),
    CALLER_AT.called("src_ip"),
    CALLER_PORT.called("src_port"),
    CALLEE_AT.called("dest_ip"),
    CALLEE_PORT.called("dest_port"),
    Column::new("proto", Kind::Text, |row| {
        said(row.record, |d| if d.transport == Transport::Tcp { "TCP" } else { "UDP" }.into())
    }),
    COMMUNITY_ID.called("community_id"),
    Column::new("sip.method", Kind::Text, |row| said(row.record, |_| "INVITE".into())),
    CALLEE.called("sip.uri"),
    STATUS.called("sip.code"),
    CALL_ID.called("sip.call_id"),
];

/// Elastic Common Schema. What it has no names for is under `sip`.
pub(super) const ECS: &[Column<Call>] = &[
    FIRST.called("@timestamp"),
    Column::new("event.kind", Kind::Text, |_| "event".into()),
    Column::new("event.category", Kind::List, |_| json!(["network", "session"])),
    Column::new("event.dataset", Kind::Text, |_| "ringside.calls".into()),
    FIRST.called("event.start"),
    END.called("event.end"),
    TALK.called("event.duration"),
    ENDING.called("event.reason"),
    CALLER_AT.called("source.ip"),
    CALLER_PORT.called("source.port"),
    CALLEE_AT.called("destination.ip"),
    CALLEE_PORT.called("destination.port"),
    TRANSPORT.called("network.transport"),
    Column::new("network.protocol", Kind::Text, |row| said(row.record, |_| "sip".into())),
    COMMUNITY_ID.called("network.community_id"),
    CALL_ID.called("sip.call_id"),
    CALLER.called("sip.from"),
    CALLEE.called("sip.to"),
    STATUS.called("sip.status_code"),
    POST_DIAL.called("sip.post_dial_delay"),
    RING.called("sip.ring_time"),
    STREAMS.called("rtp.streams"),
    INTERFACE.called("observer.ingress.interface.name"),
];

/// OpenTelemetry's attributes. What it has no names for is under `sip`.
pub(super) const OTEL: &[Column<Call>] = &[
    FIRST.called("time_unix_nano"),
    CALLER_AT.called("source.address"),
    CALLER_PORT.called("source.port"),
    CALLEE_AT.called("destination.address"),
    CALLEE_PORT.called("destination.port"),
    TRANSPORT.called("network.transport"),
    Column::new("network.protocol.name", Kind::Text, |row| said(row.record, |_| "sip".into())),
    INTERFACE.called("network.interface.name"),
    COMMUNITY_ID.called("network.community_id"),
    CALL_ID.called("sip.call_id"),
    CALLER.called("sip.from"),
    CALLEE.called("sip.to"),
    STATUS.called("sip.status_code"),
    ENDING.called("sip.ending"),
    POST_DIAL.called("sip.post_dial_delay"),
    RING.called("sip.ring_time"),
    TALK.called("sip.talk_time"),
    STREAMS.called("rtp.streams"),
];
