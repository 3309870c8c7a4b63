//! Any question that can be read, about any frame: an answer, and the right one for its `not`.

use super::{COMPILER, frames, matches};
use crate::common::captures;
use ringside_core::LinkType;
use ringside_inspect::DissectedFrame;
use ringside_rules::Question;
use ringside_rules::key::Key;
use ringside_rules::language::{Expression, Match, RuleId, Sets, parse_rule};
use ringside_testkit::{Random, fuzz};
use ringside_wire::{EtherType, IpProtocol, Level};

/// Rules of all terms. Inputs are a rule, a zero byte, and a frame.
const RULES: [&str; 15] = [
    "tcp port 80 or not udp src port 53 bidir => count",
    "src ip 10.0.0.0/8,2001:db8::/32 dst ip 192.0.2.1-192.0.2.9 bidir => count",
    "vlan 5,7-9 or mpls 16-31 or vlan any => count",
    "src mac 02:00:00:00:00:00/ff:ff:ff:00:00:00 or ethertype arp,0x88cc bidir => count",
    "ip4 or ip6 or proto 6,17,47- => count",
    "tcpflags syn,!ack or length 64-128,1000- => count",
    "bytes net+8 = 40 or bytes transport = 00/00 or bytes payload+9 = 4142/ffdf => count",
    "payload \"GET /\" nocase or payload \"a\" at 5 or payload hex \"00 ff\" => count",
    "http.method GET or http.host *.com|a or http.status 200|500-599 => count",
    "sip.method INVITE or sip.from sip:a@b or sip.to x or sip.via h or sip.call_id c => count",
    "dns.qname *.com|example.com or tls.sni *.com|example.com => count",
    "inner (ip 10.0.0.1 or port 80 or vlan 5 or mac 0:0:0:0:0:0/0) => count",
    "inner (http.method GET or dns.qname *.com or bytes payload = 00/00) bidir => count",
    "not inner (payload \"x\" nocase or not tcpflags !fin or ethertype ip) => count",
    "bytes frame+12 = 0800/ffff and not any or inner (mpls 0- or ip6) => count",
];

const LINKS: [LinkType; 5] =
    [LinkType::ETHERNET, LinkType::RAW, LinkType::LINUX_SLL, LinkType::LINUX_SLL2, LinkType::NULL];

/// Filters cost a compilation each, and have a fuzzing of their own.
fn has_filter(text: &[u8]) -> bool {
    text.windows(6).any(|word| word == b"filter")
}

fn try_one(input: &[u8]) {
    let mut parts = input.splitn(2, |&byte| byte == 0);
    let (Some(text), Some(frame)) = (parts.next(), parts.next()) else { return };
    if has_filter(text) {
        return;
    }
    let Ok(rule) = parse_rule(text, RuleId::FIRST, &mut Sets::none()) else { return };
    let Match { expression, bidirectional } = rule.matches;
    let question = |expression: &Expression, bidirectional| {
        let matches = Match { expression: expression.clone(), bidirectional };
        Question::new(&matches, LinkType::ETHERNET, &COMPILER).unwrap()
    };
    let (there, back) = (question(&expression, false), question(&expression.exchanged(), false));
    let either = question(&expression, bidirectional);
    let negated = question(&expression.clone().negated(), false);
    for link in LINKS {
        let dissected = DissectedFrame::new(frame, frame.len() as u32, link);
        let holds = there.holds(&dissected);
        assert_eq!(negated.holds(&dissected), !holds);
        assert_eq!(either.holds(&dissected), holds || bidirectional && back.holds(&dissected));
        for level in [Level::Outer, Level::Inner] {
            let key = Key::of(&dissected, level);
            assert!(key.ports().is_none() || key.protocol().is_some());
            assert_eq!(key.addresses().is_some(), key.protocol().is_some());
        }
    }
}

#[test]
fn any_question_about_any_frame() {
    let mut messages: Vec<Vec<u8>> = vec![
        frames::plain(
            IpProtocol::UDP,
            &frames::vxlan(&frames::ethernet(EtherType::ARP, &frames::arp())),
        ),
        frames::plain(
            IpProtocol::TCP,
            &frames::tcp(1, 80, 2, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        ),
    ];
    // A few of each file: the first frames of a capture are unlike each other.
    for file in captures("fuzzing of questions") {
        messages.extend(file.frames.into_iter().take(3).map(|frame| frame.bytes));
    }
    let mut random = Random::new(3);
    let seeds: Vec<Vec<u8>> = messages
        .iter()
        .map(|frame| {
            let rule = RULES[random.below(RULES.len())].as_bytes();
            [rule, &[0], frame].concat()
        })
        .collect();
    RULES.iter().for_each(|text| drop(matches(text.strip_suffix(" => count").unwrap())));
    fuzz("questions", 90_000, &seeds, try_one);
}
