use super::*;
use crate::key::Key;
use crate::language::{AddressSet, AddressSpan, Addresses, Ranges, Span};
use proptest::prelude::*;
use ringside_wire::Port;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an expression of the terms that a key answers says, word by word.
fn holds(expression: &Expression, key: &Key) -> bool {
    match expression {
        Expression::Term(term) => term_holds(term, key),
        Expression::Not(inner) => !holds(inner, key),
        Expression::And(parts) => parts.iter().all(|part| holds(part, key)),
        Expression::Or(parts) => parts.iter().any(|part| holds(part, key)),
        Expression::Inner(_) => unreachable!("none is made here"),
    }
}

fn term_holds(term: &Term, key: &Key) -> bool {
    match term {
        Term::Any => true,
        Term::IpVersion(version) => key
            .addresses()
            .is_some_and(|(source, _)| source.is_ipv4() == (*version == IpVersion::V4)),
        Term::Protocol(list) => key.protocol().is_some_and(|p| list.contains(IpProtocol(p))),
        Term::Ip(side, list) => key.addresses().is_some_and(|(source, destination)| {
            on(*side, list.contains(source), list.contains(destination))
        }),
        Term::Port(side, list) => key.ports().is_some_and(|(source, destination)| {
            on(*side, list.contains(Port(source)), list.contains(Port(destination)))
        }),
        _ => unreachable!("none is made here"),
    }
}

fn on(side: Side, source: bool, destination: bool) -> bool {
    match side {
        Side::Source => source,
        Side::Destination => destination,
        Side::Either => source || destination,
    }
}

fn v4() -> impl Strategy<Value = Ipv4Addr> {
    prop_oneof![0u32..12, Just(u32::MAX), Just(u32::MAX - 1)].prop_map(Ipv4Addr::from_bits)
}

fn v6() -> impl Strategy<Value = Ipv6Addr> {
    prop_oneof![0u128..12, Just(u128::MAX), Just(u128::MAX - 3)].prop_map(Ipv6Addr::from_bits)
}

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![Just(Side::Either), Just(Side::Source), Just(Side::Destination)]
}

fn addresses() -> impl Strategy<Value = Addresses> {
    let four =
        (v4(), v4()).prop_map(|(a, b)| AddressSpan::V4(Span::new(a.min(b), a.max(b)).unwrap()));
    let six =
        (v6(), v6()).prop_map(|(a, b)| AddressSpan::V6(Span::new(a.min(b), a.max(b)).unwrap()));
    prop::collection::vec(prop_oneof![four, six], 1..4)
        .prop_map(|spans| Addresses { listed: AddressSet::new(spans), files: Box::default() })
}

fn ports() -> impl Strategy<Value = Ranges<Port>> {
    let span = (prop_oneof![0u16..8, Just(65_530)], 0u16..6)
        .prop_map(|(first, more)| Span::new(Port(first), Port(first + more.min(5))).unwrap());
    prop::collection::vec(span, 1..3).prop_map(Ranges::new)
}

fn term() -> impl Strategy<Value = Term> {
    prop_oneof![
        1 => Just(Term::Any),
        1 => Just(Term::IpVersion(IpVersion::V4)),
        1 => Just(Term::IpVersion(IpVersion::V6)),
        2 => (0u8..3).prop_map(|p| Term::Protocol(Ranges::single(IpProtocol(p)))),
        4 => (side(), addresses()).prop_map(|(side, list)| Term::Ip(side, list)),
        4 => (side(), ports()).prop_map(|(side, list)| Term::Port(side, list)),
    ]
}

fn expression() -> impl Strategy<Value = Expression> {
    term().prop_map(Expression::Term).prop_recursive(4, 16, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(Expression::negated),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Expression::all_of),
            prop::collection::vec(inner, 2..4).prop_map(Expression::one_of),
        ]
    })
}

fn key() -> impl Strategy<Value = Key> {
    let pairs = prop_oneof![
        (v4(), v4()).prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
        (v6(), v6()).prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
    ];
    let port = || prop_oneof![0u16..10, Just(65_533)];
    let ip = (pairs, 0u8..4, prop::option::of((port(), port())));
    prop_oneof![
        1 => Just(Key::NOT_IP),
        4 => ip.prop_map(|((source, destination), protocol, ports)| {
            Key::new(source, destination, protocol, ports)
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn a_cover_holds_every_frame_of_its_match(
        expression in expression(),
        bidirectional: bool,
        keys in prop::collection::vec(key(), 1..30),
    ) {
        let matches = Match { expression, bidirectional };
        let cover = Cover::of(&matches);
        prop_assert!(cover.cubes.len() <= 2 * CELLS_MAX);
        for key in &keys {
            let exchanged = matches.expression.exchanged();
            let expected =
                holds(&matches.expression, key) || bidirectional && holds(&exchanged, key);
            let covered = cover.cubes.iter().any(|cube| cube.accepts(key));
            prop_assert!(covered || !expected, "{:?}\n{:?}", key, cover);
            prop_assert!(expected || !covered || !cover.is_exact, "{:?}\n{:?}", key, cover);
        }
    }

    #[test]
    fn the_lists_of_a_cube_are_disjoint(expression in expression()) {
        for cube in Cover::of(&Match { expression, bidirectional: false }).cubes {
            for prefixes in [&cube.sources, &cube.destinations] {
                let twice = prefixes.iter().enumerate().any(|(at, a)| {
                    prefixes[..at].iter().any(|b| {
                        a.space == b.space && (a.bits ^ b.bits)
                            .checked_shr(128 - u32::from(a.length.min(b.length)))
                            .unwrap_or(0) == 0
                    })
                });
                prop_assert!(!twice, "{:?}", prefixes);
            }
        }
    }
}

/// The cover of a rule's text.
fn cover(text: &str) -> Cover {
    let line = format!("{text} => drop");
    let rule = crate::language::parse_rule(
        line.as_bytes(),
        crate::language::RuleId(1),
        &mut crate::language::Sets::none(),
    );
    Cover::of(&rule.unwrap().matches)
}

#[test]
fn usual_rules_are_covered_exactly_by_few_cubes() {
    for (text, cubes) in [
        ("any", 1),
        ("tcp dst port 80,443", 1),
        ("src ip 10.0.0.0/8 and not dst ip 10.0.0.0/8", 1),
        ("ip 10.0.0.0/8", 2),
        ("port 53", 2),
        ("ip 192.0.2.1 port 53", 4),
        ("src ip 192.0.2.1 dst ip 192.0.2.2 tcp src port 1 dst port 2 bidir", 2),
        ("tcp or udp", 1),
        ("src ip 192.0.2.1-192.0.2.9,2001:db8::/32", 1),
        ("tcp not any", 0),
    ] {
        let cover = cover(text);
        assert_eq!((cover.cubes.len(), cover.is_exact), (cubes, true), "{text}");
    }
    for text in ["tcpflags syn", "vlan 5", "http.method GET", "inner (tcp)", "not payload \"x\""] {
        assert!(!cover(text).is_exact, "{text}");
    }
}
