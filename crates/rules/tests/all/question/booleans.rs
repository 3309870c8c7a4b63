//! Terms are joined as booleans are.

use super::frames::*;
use super::{COMPILER, dissected, matches};
use proptest::prelude::*;
use proptest::sample::select;
use ringside_core::LinkType;
use ringside_inspect::DissectedFrame;
use ringside_rules::Question;
use ringside_rules::language::{Expression, Match};
use ringside_wire::{EtherType, IpProtocol, Tcp};

const TERMS: [&str; 26] = [
    "any",
    "ip4",
    "ip6",
    "tcp",
    "udp",
    "src ip 10.0.0.1",
    "dst ip 10.0.0.1",
    "ip 172.16.0.0/12",
    "src port 1025",
    "dst port 1025",
    "port 80",
    "src mac 02:00:5e:10:00:01",
    "dst mac 04:00:00:00:00:09",
    "vlan 5",
    "mpls 16-",
    "ethertype arp",
    "tcpflags syn,!ack",
    "length -80",
    "bytes transport = 0401",
    "payload \"get\" nocase",
    "payload \"Host\" at 16",
    "http.host a.example",
    "filter \"src port 1025\"",
    "inner (src ip 172.16.0.1)",
    "inner (dst port 1025 or not tcp)",
    "inner (http.method GET)",
];

fn frames() -> Vec<Vec<u8>> {
    let request = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let there = ip4("172.16.0.1", "10.0.0.1", IpProtocol::TCP, &tcp(1025, 80, Tcp::SYN, request));
    let back = ip4("10.0.0.1", "172.16.0.1", IpProtocol::TCP, &tcp(80, 1025, Tcp::ACK, b"ok"));
    let mut frames = Vec::new();
    for packet in [there, back] {
        let plain_frame = ethernet(EtherType::IPV4, &packet);
        frames.push(plain(IpProtocol::UDP, &vxlan(&plain_frame)));
        frames.push(plain(IpProtocol::IPV4, &packet));
        frames.push(ethernet(EtherType::VLAN, &tag(5, EtherType::IPV4, &packet)));
        frames.push(ethernet(EtherType::MPLS, &mpls(&[16], &packet)));
        frames.push(plain_frame[..50].to_vec());
        frames.push(plain_frame);
    }
    let v6 = ip6("2001:db8::1", "2001:db8::2", IpProtocol::UDP, &udp(1025, 80, b"get"));
    frames.push(ethernet(EtherType::IPV6, &v6));
    frames.push(ethernet(EtherType::ARP, &arp()));
    frames.push(Vec::new());
    frames
}

fn expression() -> BoxedStrategy<Expression> {
    let leaf = select(&TERMS[..]).prop_map(|text| matches(text).expression);
    leaf.prop_recursive(3, 12, 3, |part| {
        prop_oneof![
            part.clone().prop_map(Expression::negated),
            prop::collection::vec(part.clone(), 1..4).prop_map(Expression::all_of),
            prop::collection::vec(part, 1..4).prop_map(Expression::one_of),
        ]
    })
    .boxed()
}

/// Answers for every frame.
fn answers(expression: &Expression, bidirectional: bool) -> Vec<bool> {
    let matches = Match { expression: expression.clone(), bidirectional };
    let question = Question::new(&matches, LinkType::ETHERNET, &COMPILER).unwrap();
    let frames = frames();
    let dissected_frames: Vec<DissectedFrame<'_>> =
        frames.iter().map(|frame| dissected(frame)).collect();
    let found: Vec<bool> =
        dissected_frames.iter().map(|dissected| question.holds(dissected)).collect();
    let again: Vec<bool> =
        dissected_frames.iter().map(|dissected| question.holds(dissected)).collect();
    assert_eq!(found, again, "a frame that was asked before answers alike");
    found
}

fn both(a: &[bool], b: &[bool], join: impl Fn(bool, bool) -> bool) -> Vec<bool> {
    a.iter().zip(b).map(|(&a, &b)| join(a, b)).collect()
}

#[test]
fn every_term_has_both_answers() {
    for text in &TERMS[1..] {
        let found = answers(&matches(text).expression, false);
        assert!(found.contains(&true) && found.contains(&false), "{text}: {found:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn not_and_or(a in expression(), b in expression()) {
        let (of_a, of_b) = (answers(&a, false), answers(&b, false));
        let negated: Vec<bool> = of_a.iter().map(|answer| !answer).collect();
        prop_assert_eq!(answers(&a.clone().negated(), false), negated);
        let all = answers(&Expression::all_of(vec![a.clone(), b.clone()]), false);
        prop_assert_eq!(all, both(&of_a, &of_b, |a, b| a && b));
        let one = answers(&Expression::one_of(vec![a, b]), false);
        prop_assert_eq!(one, both(&of_a, &of_b, |a, b| a || b));
    }

    #[test]
    fn both_ways(a in expression()) {
        let (there, back) = (answers(&a, false), answers(&a.exchanged(), false));
        prop_assert_eq!(answers(&a.exchanged().exchanged(), false), there.clone());
        let either = both(&there, &back, |there, back| there || back);
        prop_assert_eq!(answers(&a, true), either.clone());
        prop_assert_eq!(answers(&a.exchanged(), true), either);
    }
}
