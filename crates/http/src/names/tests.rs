//! One fixture for all schemes: what each makes of one transaction.

use super::*;
use crate::Ending;
use ringside_core::InterfaceId;
use ringside_record::object;
use serde_json::json;

/// A transaction in which most fields say something.
pub(crate) fn transaction() -> Transaction {
    let text = |text: &str| -> Option<Text> { Some(text.as_bytes().into()) };
    let message = |first_ns, last_ns, content_type| Message {
        content_type,
        head_bytes: 100,
        declared_bytes: Some(9),
        body_bytes: 5,
        missing_bytes: 4,
        first_ns,
        last_ns,
        is_whole: true,
    };
    Transaction {
        connection: 42,
        depth: 2,
        interface: InterfaceId(3),
        vlan: Some(7),
        client: ("128.232.110.120".parse().unwrap(), 34_855),
        server: ("66.35.250.204".parse().unwrap(), 80),
        request: Some(Request {
            method: b"POST".as_slice().into(),
            target: b"/a b?c=\"d\"&e".as_slice().into(),
            minor_version: Some(1),
            host: text("www.example.org"),
            user_agent: text("Agent 1.0 (\"x\")"),
            referrer: text("http://r/"),
            origin: None,
            user: text("me"),
            password: None,
            cookie: None,
            proxied: vec![b"VIA -> proxy".as_slice().into()],
            message: message(1_700_000_000_123_456_789, 1_700_000_000_133_456_789, text("a/b")),
        }),
        response: Some(Response {
            status: 201,
            reason: b"Created".as_slice().into(),
            minor_version: Some(1),
            server: text("nginx"),
            location: text("/new"),
            message: message(
                1_700_000_000_143_456_789,
                1_700_000_001_123_456_789,
                text("text/html; charset=x"),
            ),
        }),
        interim: Some(100),
        ending: Ending::Complete,
        end_ns: 1_700_000_001_123_456_789,
    }
}

#[test]
fn every_scheme_names_the_fixture() {
    let id = "1:LQU9qZlK+B5F3KDmev6m5PMibrg=";
    let target = "/a b?c=\"d\"&e";
    let url = format!("http://www.example.org{target}");
    let expected = [
        json!({
            "connection": 42, "depth": 2, "community_id": id, "interface": "eth1", "vlan": 7,
            "client": "128.232.110.120", "client_port": 34855, "server": "66.35.250.204",
            "server_port": 80, "first_ns": 1_700_000_000_123_456_789_u64,
            "last_ns": 1_700_000_001_123_456_789_u64, "first_byte_ns": 10_000_000,
            "duration_ns": 1_000_000_000, "ending": "complete", "method": "POST",
            "target": target, "version": "1.1", "host": "www.example.org",
            "user_agent": "Agent 1.0 (\"x\")", "referrer": "http://r/", "user": "me",
            "proxied": ["VIA -> proxy"], "request_type": "a/b", "request_head_bytes": 100,
            "request_declared_bytes": 9, "request_body_bytes": 5, "request_missing_bytes": 4,
            "request_last_ns": 1_700_000_000_133_456_789_u64, "status": 201,
            "reason": "Created", "interim_status": 100, "server_software": "nginx",
            "location": "/new", "response_type": "text/html; charset=x",
            "response_head_bytes": 100, "response_declared_bytes": 9, "response_body_bytes": 5,
            "response_missing_bytes": 4, "response_first_ns": 1_700_000_000_143_456_789_u64,
            "response_last_ns": 1_700_000_001_123_456_789_u64
        }),
        json!({
            "ts": 1_700_000_000.123_456, "uid": "C2a", "id.orig_h": "128.232.110.120",
            "id.orig_p": 34855, "id.resp_h": "66.35.250.204", "id.resp_p": 80, "trans_depth": 2,
            "method": "POST", "host": "www.example.org", "uri": target, "referrer": "http://r/",
            "version": "1.1", "user_agent": "Agent 1.0 (\"x\")", "request_body_len": 5,
            "response_body_len": 5, "status_code": 201, "status_msg": "Created",
            "info_code": 100, "tags": [], "username": "me", "proxied": ["VIA -> proxy"]
        }),
        json!({
            "timestamp": "2023-11-14T22:13:20.123456+0000", "flow_id": 42, "in_iface": "eth1",
            "event_type": "http", "vlan": [7], "src_ip": "128.232.110.120", "src_port": 34855,
            "dest_ip": "66.35.250.204", "dest_port": 80, "proto": "TCP", "tx_id": 1,
            "community_id": id,
            "http": {
                "hostname": "www.example.org", "url": target,
                "http_user_agent": "Agent 1.0 (\"x\")",
                "http_content_type": "text/html; charset=x", "http_refer": "http://r/",
                "http_method": "POST", "protocol": "HTTP/1.1", "status": 201,
                "redirect": "/new", "length": 5
            }
        }),
        json!({
            "@timestamp": "2023-11-14T22:13:20.123456789Z",
            "event": {
                "kind": "event", "category": ["web", "network"], "dataset": "ringside.http",
                "start": "2023-11-14T22:13:20.123456789Z",
                "end": "2023-11-14T22:13:21.123456789Z", "duration": 1_000_000_000,
                "reason": "complete", "outcome": "success"
            },
            "source": { "ip": "128.232.110.120", "port": 34855 },
            "client": { "ip": "128.232.110.120", "port": 34855 },
            "destination": { "ip": "66.35.250.204", "port": 80 },
            "server": { "ip": "66.35.250.204", "port": 80 },
            "network": {
                "transport": "tcp", "protocol": "http", "community_id": id,
                "vlan": { "id": "7" }
            },
            "http": {
                "request": {
                    "method": "POST", "referrer": "http://r/", "body": { "bytes": 5 },
                    "mime_type": "a/b"
                },
                "response": {
                    "status_code": 201, "body": { "bytes": 5 },
                    "mime_type": "text/html; charset=x"
                },
                "version": "1.1"
            },
            "url": { "original": url, "domain": "www.example.org" },
            "user_agent": { "original": "Agent 1.0 (\"x\")" }, "user": { "name": "me" },
            "observer": { "ingress": { "interface": { "name": "eth1" } } }
        }),
        json!({
            "client.address": "128.232.110.120", "client.port": 34855,
            "server.address": "66.35.250.204", "server.port": 80, "network.transport": "tcp",
            "network.protocol.name": "http", "network.protocol.version": "1.1",
            "network.interface.name": "eth1", "http.request.method": "POST",
            "http.request.body.size": 5, "http.response.status_code": 201,
            "http.response.body.size": 5, "url.full": url,
            "user_agent.original": "Agent 1.0 (\"x\")", "user.name": "me",
            "http.server.request.duration": 1.0, "ringside.http.connection": 42,
            "ringside.http.depth": 2, "ringside.http.community_id": id,
            "ringside.http.vlan": 7,
            "ringside.http.start_unix_nano": 1_700_000_000_123_456_789_u64,
            "ringside.http.end_unix_nano": 1_700_000_001_123_456_789_u64,
            "ringside.http.first_byte": 0.01, "ringside.http.ending": "complete"
        }),
    ];
    let record = transaction();
    let row = Row { record: &record, interface: "eth1" };
    for (names, expected) in Names::ALL.into_iter().zip(expected) {
        assert_eq!(object(names, &row), expected, "{}", names.name());
    }
}
