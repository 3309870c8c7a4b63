//! Random rules: their text reads back as the same rule, and a text's canonical form is final.

use super::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use ringside_core::QueueId;
use ringside_wire::{EtherType, IpProtocol, MacAddr, Port};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

fn ranges<T: Ordinal + std::fmt::Debug>(
    value: impl Strategy<Value = T>,
) -> impl Strategy<Value = Ranges<T>> {
    let value = prop_oneof![8 => value, 1 => Just(T::FIRST), 1 => Just(T::LAST)];
    let span = vec(value, 1..3).prop_map(|values| {
        let (first, last) = (values[0], values[values.len() - 1]);
        Span::new(first.min(last), first.max(last)).unwrap()
    });
    vec(span, 1..5).prop_map(Ranges::new)
}

/// One of the values that have names.
fn known<T: Copy + std::fmt::Debug + 'static>(table: &[(&str, T)]) -> impl Strategy<Value = T> {
    select(table.iter().map(|&(_, value)| value).collect::<Vec<T>>())
}

fn side() -> impl Strategy<Value = Side> {
    select(&[Side::Either, Side::Source, Side::Destination][..])
}

fn addresses() -> impl Strategy<Value = Addresses> {
    let v4 = ranges(any::<u32>().prop_map(|bits| Ipv4Addr::from_bits(bits & 0x0300_00ff)));
    let v6 = any::<u128>().prop_map(|bits| Ipv6Addr::from_bits(bits & ((0xffff << 112) | 0xff)));
    let file = select(&["bad", "my list"][..]).prop_map(|path| {
        let addresses = known_sets().into_iter().find(|(known, _)| *known == path).unwrap().1;
        Arc::new(AddressFile { path: path.into(), addresses })
    });
    (option::of(v4), option::of(ranges(v6)), option::of(file)).prop_map(|(v4, v6, file)| {
        let is_empty = v4.is_none() && v6.is_none() && file.is_none();
        let v4 = if is_empty { Ranges::all() } else { v4.unwrap_or_default() };
        let listed = AddressSet { v4, v6: v6.unwrap_or_default() };
        Addresses { listed, files: file.into_iter().collect() }
    })
}

fn text() -> impl Strategy<Value = Box<str>> {
    prop_oneof!["[a-z0-9.@:*-]{1,12}", "\\PC{1,8}", "[ -~\u{80}-\u{a0}\r\n\t\u{202e}\"\\\\]{1,8}"]
        .prop_map(Box::from)
}

fn texts() -> impl Strategy<Value = Box<[Box<str>]>> {
    vec(text(), 1..4).prop_map(normal)
}

fn hosts() -> impl Strategy<Value = Box<[HostPattern]>> {
    let name = "[a-z0-9=|(#!,:-]{1,8}(\\.[a-z0-9_]{1,5}){0,3}".prop_map(Box::<str>::from);
    let host = (name, any::<bool>()).prop_map(|(name, is_below)| match is_below {
        true => HostPattern::Below(name),
        false => HostPattern::Exact(name),
    });
    vec(host, 1..4).prop_map(normal)
}

fn normal<T: Ord>(mut items: Vec<T>) -> Box<[T]> {
    items.sort();
    items.dedup();
    items.into()
}

fn mac() -> impl Strategy<Value = MacPattern> {
    (any::<[u8; 6]>(), prop_oneof![Just([0xff; 6]), any::<[u8; 6]>()]).prop_map(|(bytes, mask)| {
        let address = MacAddr(std::array::from_fn(|i| bytes[i] & mask[i]));
        MacPattern { address, mask: MacAddr(mask) }
    })
}

fn byte_pattern() -> impl Strategy<Value = BytePattern> {
    let mask = prop_oneof![Just(0xff), any::<u8>()];
    (known(&names::BASES), 0u32..262_144, vec((any::<u8>(), mask), 1..9)).prop_map(
        |(base, offset, bytes)| BytePattern {
            base,
            offset,
            value: bytes.iter().map(|(value, mask)| value & mask).collect(),
            mask: bytes.iter().map(|&(_, mask)| mask).collect(),
        },
    )
}

fn payload() -> impl Strategy<Value = PayloadPattern> {
    let bytes =
        prop_oneof![vec(any::<u8>(), 1..9), text().prop_map(|text| text.as_bytes().to_vec()),];
    (bytes, any::<bool>(), option::of(0u32..262_144)).prop_map(|(mut bytes, ignore_case, at)| {
        if ignore_case {
            bytes.make_ascii_lowercase();
        }
        PayloadPattern { bytes: bytes.into(), ignore_case, at }
    })
}

/// Terms that have a place within `inner` too.
fn inner_term() -> BoxedStrategy<Term> {
    let flags = (any::<u8>(), any::<u8>()).prop_filter_map("a flag", |(some, set)| {
        let pattern = FlagPattern { set: TcpFlags(some & set), clear: TcpFlags(some & !set) };
        (some != 0).then_some(Term::TcpFlags(pattern))
    });
    let simple = prop_oneof![
        Just(Term::Any),
        Just(Term::IpVersion(IpVersion::V4)),
        Just(Term::IpVersion(IpVersion::V6)),
        ranges((0u16..4096).prop_map(VlanId)).prop_map(Term::Vlan),
        ranges((0u32..1 << 20).prop_map(MplsLabel)).prop_map(Term::Mpls),
        ranges(any::<u16>().prop_map(EtherType)).prop_map(Term::EtherType),
        ranges(any::<u8>().prop_map(IpProtocol)).prop_map(Term::Protocol),
        ranges((100u16..1000).prop_map(HttpStatus)).prop_map(Term::HttpStatus),
    ];
    prop_oneof![
        simple,
        (side(), mac()).prop_map(|(side, pattern)| Term::Mac(side, pattern)),
        (side(), addresses()).prop_map(|(side, addresses)| Term::Ip(side, addresses)),
        (side(), ranges(any::<u16>().prop_map(Port)))
            .prop_map(|(side, list)| Term::Port(side, list)),
        flags,
        byte_pattern()
            .prop_filter("inner has no frame", |pattern| pattern.base != BytesBase::Frame)
            .prop_map(Term::Bytes),
        payload().prop_map(Term::Payload),
        (known(&names::TEXT_FIELDS), texts()).prop_map(|(field, list)| Term::Text(field, list)),
        (known(&names::HOST_FIELDS), hosts()).prop_map(|(field, list)| Term::Host(field, list)),
    ]
    .boxed()
}

fn outer_term() -> impl Strategy<Value = Term> {
    prop_oneof![
        4 => inner_term(),
        1 => ranges(any::<u32>()).prop_map(Term::WireBytes),
        1 => byte_pattern().prop_map(Term::Bytes),
        1 => text().prop_filter_map("a filter", |text| {
            (!text.trim().is_empty()).then_some(Term::Filter(text))
        }),
    ]
}

fn expression(leaf: BoxedStrategy<Expression>) -> BoxedStrategy<Expression> {
    leaf.prop_recursive(4, 24, 4, |part| {
        prop_oneof![
            part.clone().prop_map(Expression::negated),
            vec(part.clone(), 1..4).prop_map(Expression::all_of),
            vec(part, 1..4).prop_map(Expression::one_of),
        ]
    })
    .boxed()
}

fn matches() -> impl Strategy<Value = Match> {
    let inner = expression(inner_term().prop_map(Expression::Term).boxed())
        .prop_map(|inside| Expression::Inner(Box::new(inside)));
    let leaf = prop_oneof![5 => outer_term().prop_map(Expression::Term), 1 => inner].boxed();
    (expression(leaf), any::<bool>())
        .prop_map(|(expression, bidirectional)| Match { expression, bidirectional })
}

fn interface() -> impl Strategy<Value = InterfaceName> {
    prop_oneof![
        select(&["queue", "cpu", "eth0", "drop"][..]).prop_map(String::from),
        "[!-~]{1,15}",
        "\\PC{1,4}",
    ]
    .prop_filter_map("an interface", |name| InterfaceName::new(&name))
}

fn actions() -> impl Strategy<Value = Actions> {
    let verdict = option::of(select(&[Verdict::Pass, Verdict::Take, Verdict::Drop][..]));
    let redirect = option::of(prop_oneof![
        interface().prop_map(Redirect::Interface),
        any::<u16>().prop_map(|queue| Redirect::Queue(QueueId(queue))),
        (0..=limits::CPU_MAX).prop_map(|cpu| Redirect::Cpu(CpuId(cpu))),
    ]);
    let trim = option::of(prop_oneof![
        (1u32..=262_144).prop_map(Trim::Cap),
        ranges(any::<u32>()).prop_map(|ranges| Trim::Keep(ranges.into())),
    ]);
    let sample = option::of((1u32..).prop_map(|n| Sample(n.try_into().unwrap())));
    let flags =
        (any::<bool>(), any::<bool>(), any::<bool>(), select(&[Next::Stop, Next::Continue][..]));
    (verdict, redirect, option::of(interface()), trim, sample, flags).prop_map(
        |(verdict, redirect, mirror, trim, sample, (count, digest, pin, next))| {
            // Contradictions are no rules; the fields that come first win.
            let redirect = redirect.filter(|_| verdict.is_none());
            let is_taken = verdict.is_none_or(|verdict| verdict == Verdict::Take);
            let trim = trim.filter(|_| is_taken && redirect.is_none());
            let digest = digest && verdict != Some(Verdict::Take) && trim.is_none();
            let pin = pin && is_taken && redirect.is_none() && !digest;
            Actions { verdict, redirect, mirror, trim, sample, count, digest, pin, next }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_rule_reads_back_as_it_was(id: u32, matches in matches(), actions in actions()) {
        let made = Rule { id: RuleId(id), matches, actions };
        let shown = made.to_string();
        let read = rule(&shown);
        prop_assert_eq!(read.as_ref(), Ok(&made), "{}", shown);
        prop_assert_eq!(read.unwrap().to_string(), shown);
    }

    #[test]
    fn exchanging_twice_changes_nothing(matches in matches()) {
        let twice = matches.expression.exchanged().exchanged();
        prop_assert_eq!(twice, matches.expression);
    }
}
