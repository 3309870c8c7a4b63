//! Every scheme names one transaction, and every time is in its unit.

use super::*;
use crate::domain_name::DomainName;
use crate::transaction::{Ending, Protocol, Query, Response};
use ringside_record::object;

fn name(message: &[u8]) -> DomainName {
    let message = [&[0; 12], message, &[0, 0, 1, 0, 1]].concat();
    let mut entries = ringside_proto::dns::Message::new(&message).unwrap().entries();
    DomainName::read(entries.question().unwrap().name).unwrap()
}

fn transaction() -> Transaction {
    let host = name(b"\x03wWw\x01a");
    Transaction {
        protocol: Protocol::Dns,
        transport: Transport::Udp,
        interface: InterfaceId(0),
        vlan: Some(7),
        client: ("10.0.0.1".parse().unwrap(), 1_000),
        server: ("10.0.0.2".parse().unwrap(), 53),
        id: 4_711,
        question: Some(Question { name: host.clone(), qtype: 28, class: 1 }),
        questions: 1,
        query: Some(Query {
            first_ns: 1_700_000_000_123_456_789,
            last_ns: 1_700_000_005_123_456_789,
            retransmissions: 1,
            flags: 0x0100,
            bytes: 23,
        }),
        response: Some(Response {
            stamp_ns: 1_700_000_005_623_456_789,
            flags: 0x8583,
            rcode: 3,
            counts: [1, 0, 0],
            answers: vec![Answer {
                name: host,
                rtype: 28,
                class: 1,
                ttl: 60,
                data: "2001:db8::1".into(),
            }],
            bytes: 51,
            is_whole: true,
        }),
        ending: Ending::Answered,
        end_ns: 1_700_000_005_623_456_789,
    }
}

#[test]
fn every_scheme_names_the_fixture() {
    let record = transaction();
    let row = Row { record: &record, interface: "eth1" };
    let of = |names: Names| object(names, &row);
    let ours = of(Names::Ringside);
    assert_eq!(ours["latency_ns"], 5_500_000_000_u64);
    assert_eq!(ours["name"], "wWw.a");
    assert_eq!(ours["flags"], json!(["QR", "AA", "RD", "RA"]));
    assert_eq!((&ours["rcode"], &ours["retransmissions"]), (&json!("NXDOMAIN"), &json!(1)));
    let zeek = of(Names::Zeek);
    assert_eq!(
        (&zeek["rtt"], &zeek["AA"], &zeek["TC"]),
        (&json!(5.5), &json!(true), &json!(false))
    );
    assert_eq!((&zeek["qtype_name"], &zeek["TTLs"]), (&json!("AAAA"), &json!(["60.000000"])));
    let eve = of(Names::Eve);
    assert_eq!(eve["dns"]["queries"], json!([{ "rrname": "wWw.a", "rrtype": "AAAA" }]));
    assert_eq!((&eve["dns"]["flags"], &eve["proto"]), (&json!("8583"), &json!("UDP")));
    let ecs = of(Names::Ecs);
    assert_eq!(ecs["dns"]["resolved_ip"], json!(["2001:db8::1"]));
    assert_eq!(ecs["event"]["outcome"], "failure");
    assert_eq!(of(Names::Otel)["dns.lookup.duration"], 5.5);
}
