//! One fixture for all schemes: what each makes of one record.

use super::*;
use crate::{Application, Lines, RecordSink};
use ringside_core::{InterfaceId, Timestamp};
use ringside_record::{LineFormat, object};
use serde_json::json;

/// A record in which every field says something.
pub(crate) fn record() -> Record {
    let side = |packets: u64, first_ns: u64| Side {
        packets,
        octets: packets * 114,
        ip_octets: packets * 100,
        first_ns,
        last_ns: first_ns + 1_500_000_000,
        tcp_flags: Tcp::SYN | Tcp::ACK | Tcp::FIN,
        tos: 8,
        mpls_label: Some(77),
        retransmissions: 1,
        out_of_order: 2,
        zero_windows: 3,
    };
    Record {
        flow_id: 42,
        part: 2,
        end: EndReason::End,
        interface: InterfaceId(3),
        source: "128.232.110.120".parse().unwrap(),
        destination: "66.35.250.204".parse().unwrap(),
        source_port: 34_855,
        destination_port: 80,
        is_initiator_known: true,
        is_one_way: false,
        is_followed: true,
        protocol: IpProtocol::TCP,
        vlan: Some(7),
        tunnel: None,
        forward: side(10, 1_700_000_000_123_456_789),
        reverse: side(5, 1_700_000_000_223_456_789),
        application: Some(Application::Http),
        rtt_responder_ns: Some(100_000_000),
        rtt_initiator_ns: None,
    }
}

#[test]
fn every_scheme_names_the_fixture() {
    let id = "1:LQU9qZlK+B5F3KDmev6m5PMibrg=";
    let expected = [
        json!({
            "flow_id": 42, "part": 2, "community_id": id, "interface": "eth1", "vlan": 7,
            "protocol": 6, "src": "128.232.110.120", "dst": "66.35.250.204", "src_port": 34855,
            "dst_port": 80,
            "initiator_known": true, "application": "http", "end": "end",
            "first_ns": 1_700_000_000_123_456_789_u64, "last_ns": 1_700_000_001_723_456_789_u64,
            "rtt_responder_ns": 100_000_000, "packets": 10, "bytes": 1140, "ip_bytes": 1000,
            "forward_first_ns": 1_700_000_000_123_456_789_u64,
            "forward_last_ns": 1_700_000_001_623_456_789_u64, "tos": 8, "mpls_label": 77,
            "tcp_flags": 19, "retransmissions": 1, "out_of_order": 2, "zero_windows": 3,
            "reverse_packets": 5, "reverse_bytes": 570, "reverse_ip_bytes": 500,
            "reverse_first_ns": 1_700_000_000_223_456_789_u64,
            "reverse_last_ns": 1_700_000_001_723_456_789_u64, "reverse_tos": 8,
            "reverse_mpls_label": 77, "reverse_tcp_flags": 19, "reverse_retransmissions": 1,
            "reverse_out_of_order": 2, "reverse_zero_windows": 3
        }),
        json!({
            "ts": 1_700_000_000.123_456, "uid": "C2a", "id.orig_h": "128.232.110.120",
            "id.orig_p": 34855, "id.resp_h": "66.35.250.204", "id.resp_p": 80, "proto": "tcp",
            "service": "http", "duration": 1.6, "conn_state": "SF", "orig_pkts": 10,
            "orig_ip_bytes": 1000, "resp_pkts": 5, "resp_ip_bytes": 500, "vlan": 7,
            "community_id": id
        }),
        json!({
            "timestamp": "2023-11-14T22:13:21.723456+0000", "flow_id": 42, "in_iface": "eth1",
            "event_type": "flow", "vlan": [7], "src_ip": "128.232.110.120", "src_port": 34855,
            "dest_ip": "66.35.250.204", "dest_port": 80, "proto": "TCP", "app_proto": "http",
            "community_id": id,
            "flow": {
                "pkts_toserver": 10, "pkts_toclient": 5, "bytes_toserver": 1140,
                "bytes_toclient": 570, "start": "2023-11-14T22:13:20.123456+0000",
                "end": "2023-11-14T22:13:21.723456+0000", "age": 1, "state": "closed",
                "reason": "timeout"
            },
            "tcp": { "tcp_flags": "13", "tcp_flags_ts": "13", "tcp_flags_tc": "13" }
        }),
        json!({
            "@timestamp": "2023-11-14T22:13:21.723456789Z",
            "event": {
                "kind": "event", "category": ["network"], "action": "network_flow",
                "start": "2023-11-14T22:13:20.123456789Z",
                "end": "2023-11-14T22:13:21.723456789Z", "duration": 1_600_000_000,
                "reason": "end"
            },
            "flow": { "id": "42", "final": true },
            "source": { "ip": "128.232.110.120", "port": 34855, "packets": 10, "bytes": 1140 },
            "destination": { "ip": "66.35.250.204", "port": 80, "packets": 5, "bytes": 570 },
            "network": {
                "type": "ipv4", "transport": "tcp", "iana_number": "6", "protocol": "http",
                "packets": 15, "bytes": 1710, "community_id": id, "vlan": { "id": "7" }
            },
            "observer": { "ingress": { "interface": { "name": "eth1" } } }
        }),
        json!({
            "source.address": "128.232.110.120", "source.port": 34855,
            "destination.address": "66.35.250.204", "destination.port": 80,
            "network.transport": "tcp", "network.type": "ipv4", "network.protocol.name": "http",
            "network.interface.name": "eth1", "ringside.flow.id": 42,
            "ringside.flow.community_id": id, "ringside.flow.vlan": 7,
            "ringside.flow.end": "end",
            "ringside.flow.start_unix_nano": 1_700_000_000_123_456_789_u64,
            "ringside.flow.end_unix_nano": 1_700_000_001_723_456_789_u64,
            "ringside.flow.packets": 10, "ringside.flow.bytes": 1140,
            "ringside.flow.reverse.packets": 5, "ringside.flow.reverse.bytes": 570
        }),
    ];
    for (names, expected) in Names::ALL.into_iter().zip(expected) {
        let (record, interface) = (record(), "eth1");
        let row = Row { record: &record, interface };
        assert_eq!(object(names, &row), expected, "{}", names.name());
        assert_eq!(names.name().parse::<Names>().unwrap(), names);
        let mut csv = Lines::new(Vec::new(), LineFormat::Csv, names);
        csv.put(&record, "a,\"b", Timestamp(0));
        csv.put(&record, "", Timestamp(0));
        csv.finish(Timestamp(0));
        assert_eq!(csv.counts().delivered.held.packets, 30);
        let text = csv.into_output();
        let mut table = csv::Reader::from_reader(text.as_slice());
        let paths: Vec<String> = table.headers().unwrap().iter().map(Into::into).collect();
        assert_eq!(paths, names.paths::<Record>().collect::<Vec<_>>());
        let lines: Vec<_> = table.records().collect::<Result<_, _>>().unwrap();
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| line.len() == paths.len()));
    }
}

/// The specification's own examples.
#[test]
fn community_ids_are_those_of_the_specification() {
    let flow = |source: &str, destination: &str, protocol: u8, ports: (u16, u16)| {
        let record = Record {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            protocol: IpProtocol(protocol),
            source_port: ports.0,
            destination_port: ports.1,
            ..record()
        };
        assert_eq!(record.community_id(0), record.reversed().community_id(0));
        record.community_id(0)
    };
    let udp = flow("192.168.1.52", "8.8.8.8", 17, (54_585, 53));
    assert_eq!(udp, "1:d/FP5EW3wiY1vCndhwleRRKHowQ=");
    let icmp = flow("192.168.0.89", "192.168.0.1", 1, (8, 0));
    assert_eq!(icmp, "1:X0snYXpgwiv9TZtqg64sgzUn6Dk=");
    let sctp = flow("192.168.170.8", "192.168.170.56", 132, (7, 80));
    assert_eq!(sctp, "1:jQgCxbku+pNGw8WPbEc/TS/uTpQ=");
}
