use super::*;
use crate::language::{self, Next, RuleId, Sets};
use crate::question::{Known, Question};
use proptest::prelude::*;
use ringside_core::LinkType;
use ringside_filter::Compiler;
use ringside_wire::Level;
use std::fmt::Write as _;

mod segments;

const COMPILER: Compiler = Compiler::InProcess { optimise: true };

fn engine(text: &str) -> Engine {
    let set = language::parse(text.as_bytes(), &mut Sets::none()).unwrap();
    Engine::new(set, LinkType::ETHERNET, &COMPILER).unwrap()
}

/// What the rules say, asked one after the other: exact ones, then the others, each by id.
struct Reference {
    rules: Vec<(Rule, Question, u64)>,
    default: Verdict,
}

impl Reference {
    fn new(text: &str) -> Reference {
        let set = language::parse(text.as_bytes(), &mut Sets::none()).unwrap();
        let mut rules = set.rules;
        rules.sort_by_key(|rule| (rule.matches.exact_flow().is_none(), rule.id));
        let ready = |rule: Rule| {
            let question = Question::new(&rule.matches, LinkType::ETHERNET, &COMPILER).unwrap();
            (rule, question, 0)
        };
        Reference { rules: rules.into_iter().map(ready).collect(), default: set.default }
    }

    fn judge(&mut self, frame: &DissectedFrame<'_>) -> Judgement {
        self.judge_with(frame, Known::NOTHING)
    }

    fn judge_with(&mut self, frame: &DissectedFrame<'_>, known: Known<'_>) -> Judgement {
        let mut judgement = Judgement::default();
        for (rule, question, met) in &mut self.rules {
            if !question.holds_with(frame, known) {
                continue;
            }
            *met += 1;
            let sample = rule.actions.sample.as_ref().map_or(1, |sample| sample.0.get().into());
            if (*met - 1) % sample != 0 {
                continue;
            }
            // The tests mirror to one interface.
            judgement.add(rule, u8::from(rule.actions.mirror.is_some()));
            if rule.actions.next == Next::Stop {
                break;
            }
        }
        if judgement.decided_by.is_none() {
            judgement.fate = Fate::Verdict(self.default);
        }
        judgement
    }
}

/// An Ethernet frame with IPv4 from 10.0.0.`from` to 10.0.0.`to`.
fn frame(from: u8, to: u8, protocol: u8, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let transport_bytes = if protocol == 6 { 20 } else { 8 };
    let total = (20 + transport_bytes + payload.len()) as u16;
    let mut bytes = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 0x45, 0];
    bytes.extend(total.to_be_bytes());
    bytes.extend([0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
    bytes.extend(ports.0.to_be_bytes());
    bytes.extend(ports.1.to_be_bytes());
    match protocol {
        6 => bytes.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0]),
        _ => bytes.extend([(8 + payload.len() as u16).to_be_bytes(), [0, 0]].concat()),
    }
    bytes.extend(payload);
    bytes
}

fn term() -> impl Strategy<Value = String> {
    let side = || prop_oneof![Just(""), Just("src "), Just("dst ")];
    prop_oneof![
        2 => Just("any".to_owned()),
        2 => prop::sample::select(vec!["tcp", "udp", "icmp", "ip6"]).prop_map(String::from),
        4 => (side(), 0u8..4, 29u8..=32).prop_map(|(side, last, length)| {
            let host_bits = 0xff_u8.checked_shr(u32::from(length) - 24).unwrap_or(0);
            format!("{side}ip 10.0.0.{}/{length}", last & !host_bits)
        }),
        4 => (side(), 0u16..5, 0u16..3)
            .prop_map(|(side, first, more)| format!("{side}port {first}-{}", first + more)),
        3 => (prop::sample::select(vec!["x", "abc", "cdefgh", "X", "hijk", "ABCDEFGH", "mno"]),
            prop::sample::select(vec!["", " nocase", " at 3", " nocase at 2"]))
            .prop_map(|(text, how)| format!("payload \"{text}\"{how}")),
        1 => Just("tcpflags syn".to_owned()),
        1 => (42u32..60).prop_map(|bytes| format!("length -{bytes}")),
    ]
}

fn matches() -> impl Strategy<Value = String> {
    let exact = (0u8..4, 0u8..4, 0u16..5, 0u16..5, any::<bool>()).prop_map(|(a, b, p, q, both)| {
        let bidir = if both { " bidir" } else { "" };
        format!("src ip 10.0.0.{a} dst ip 10.0.0.{b} udp src port {p} dst port {q}{bidir}")
    });
    let nested = term().prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|term| format!("not ({term})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) and ({b})")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("({a}) or ({b})")),
        ]
    });
    prop_oneof![1 => exact, 4 => nested]
}

fn actions() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("drop"),
        Just("take"),
        Just("pass, continue"),
        Just("count"),
        Just("mirror m0"),
        Just("take, cap 64"),
        Just("drop, sample 1/3"),
        Just("count, stop"),
        Just("redirect cpu 1"),
        Just("digest"),
        Just("pass, digest, continue"),
    ]
    .prop_map(String::from)
}

fn rules() -> impl Strategy<Value = String> {
    let rule = (matches(), actions());
    (prop::collection::vec(rule, 0..12), prop::sample::select(vec!["pass", "drop", "take"]))
        .prop_map(|(rules, default)| {
            let lines =
                rules.into_iter().map(|(matches, actions)| format!("{matches} => {actions}\n"));
            // Enough that all patterns are looked for at once.
            let others = (0..20).map(|n| format!("payload \"other {n}\" => count\n"));
            lines.chain(others).collect::<String>() + &format!("default {default}\n")
        })
}

fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let protocol = prop::sample::select(vec![6u8, 17, 1]);
    let payload = prop::sample::select(vec![&b""[..], b"x", b"abcdefghijklmn"]);
    (0u8..4, 0u8..4, protocol, (0u16..6, 0u16..6), payload)
        .prop_map(|(from, to, protocol, ports, payload)| frame(from, to, protocol, ports, payload))
}

proptest! {
    #[test]
    fn tables_and_memory_change_nothing(
        text in rules(),
        frames in prop::collection::vec(any_frame(), 1..60),
    ) {
        let (mut engine, mut reference) = (engine(&text), Reference::new(&text));
        prop_assert!(engine.judge.has_findings());
        for bytes in &frames {
            let dissected = DissectedFrame::new(bytes, bytes.len() as u32, LinkType::ETHERNET);
            prop_assert_eq!(engine.judge(&dissected), reference.judge(&dissected), "{}", text);
        }
        let (_, undecided) = engine.default_counts();
        prop_assert!(undecided.frames <= frames.len() as u64);
    }
}

#[test]
fn each_rule_counts_what_it_was_for() {
    let mut engine = engine(
        "1: udp => count
         2: src ip 10.0.0.1 => drop, sample 1/2
         3: port 5 => take, cap 60
         default drop",
    );
    for from in [1, 1, 1, 2] {
        let bytes = frame(from, 3, 17, (5, 53), b"");
        engine.judge(&DissectedFrame::new(&bytes, 42, LinkType::ETHERNET));
    }
    let counts: Vec<u64> = engine.counts().map(|(_, counts)| counts.frames).collect();
    assert_eq!(counts, [4, 2, 2]);
    assert_eq!(engine.default_counts(), (Verdict::Drop, Counts::default()));
    assert_eq!(engine.counts().next().map(|(_, counts)| counts.bytes), Some(4 * 42));
}

#[test]
fn more_rules_than_are_remembered_are_asked_all_the_same() {
    let lines = (1..50).map(|id| format!("{id}: any => count\n")).collect::<String>();
    let mut engine = engine(&(lines + "50: udp => drop\n51: any => take"));
    let bytes = frame(1, 2, 17, (1, 2), b"");
    let dissected = DissectedFrame::new(&bytes, 42, LinkType::ETHERNET);
    for _ in 0..3 {
        assert_eq!(engine.judge(&dissected).decided_by, Some(RuleId(50)));
    }
    let counts: Vec<u64> = engine.counts().map(|(_, counts)| counts.frames).collect();
    assert_eq!(counts, [vec![3; 50], vec![0]].concat());
}

#[test]
fn too_many_wildcards_are_refused_with_the_fix() {
    let lines = (0..20_000).map(|n| format!("src ip 10.0.{}.{} => drop\n", n / 256, n % 256));
    let text: String = lines.collect();
    let set = language::parse(text.as_bytes(), &mut Sets::none()).unwrap();
    let error = Engine::new(set, LinkType::ETHERNET, &COMPILER).unwrap_err().to_string();
    assert!(error.contains("rule 16385 and later") && error.contains("@FILE"), "{error}");
}

/// Rules that would make tables of gigabytes are refused, or asked without tables.
#[test]
fn hostile_lists_are_refused_or_load() {
    let build = |text: &str| {
        let set = language::parse(text.as_bytes(), &mut Sets::none()).unwrap();
        Engine::new(set, LinkType::ETHERNET, &COMPILER).map(|_| ())
    };
    // 254 prefixes in each of two fields, all different.
    let range = |n: u32, side: &str| {
        let (low, high) = (n % 60_000 + 1, 0xfffe - n % 60_000);
        format!("{side} ip 2001:db8:{low:x}::1-fffe:{high:x}:ffff:ffff:ffff:ffff:ffff:fffe")
    };
    let wide: String =
        (0..8000).map(|n| format!("{} {} => drop\n", range(n, "src"), range(n, "dst"))).collect();
    let error = build(&wide).unwrap_err().to_string();
    assert!(error.contains("@FILE"), "{error}");
    // Few prefixes each, but each of a path of its own.
    let deep: String = (0..16_000u32)
        .map(|n| format!("src ip {:x}:{n:x}::1 => drop\n", 0x2000 + n % 0x1000))
        .collect();
    let error = build(&deep).unwrap_err().to_string();
    assert!(error.contains("different") && error.contains("@FILE"), "{error}");
    // Terms that make one huge list together.
    let terms: Vec<String> = (0..1000u32)
        .map(|n| format!("src ip 10.{}.{}.1-10.{}.{}.254", n / 250, n % 250, n / 250, n % 250))
        .collect();
    let ports: Vec<String> = (0..1000).map(|n| format!("dst port {}", n * 7)).collect();
    let lists = format!("{} => drop\n{} => take\n", terms.join(" or "), ports.join(" or "));
    build(&lists).unwrap();
}

/// Patterns of all rules are looked for at once, in outer and inner payloads; judged by questions
/// that are asked one by one.
#[test]
fn payloads_of_tunnels_and_many_patterns_change_nothing() {
    let words = ["alpha", "beta", "gamma", "delta", "x", "ab", "Content-Length: 12", "mma", "ETA"];
    let mut text = String::new();
    for (id, word) in words.iter().enumerate() {
        let _ = writeln!(text, "{}: payload \"{word}\" nocase => count", 10 * id);
        let _ = writeln!(text, "{}: inner (payload \"{word}\") => count", 10 * id + 1);
        let _ = writeln!(text, "{}: udp not payload \"{word}\" => count", 10 * id + 2);
        let _ = writeln!(text, "{}: payload \"{word}\" at 36 bidir => count", 10 * id + 3);
    }
    let (mut engine, mut reference) = (engine(&text), Reference::new(&text));
    assert!(engine.judge.has_findings());
    let mut random = ringside_testkit::Random::new(6);
    for _ in 0..400 {
        let mut payload = Vec::new();
        for _ in 0..random.below(6) {
            let word = words[random.below(words.len())];
            payload.extend_from_slice(word.as_bytes());
            if random.below(3) == 0 {
                payload.make_ascii_uppercase();
            }
        }
        let inner = frame(1, 2, 17, (1, 2), &payload);
        // VXLAN, with a word in front of it or without.
        let header = [8, 0, 0, 0, 0, 0, 1, 0];
        let outer = frame(3, 4, 17, (5, 4789), &[&header[..], &inner].concat());
        for bytes in [inner, outer] {
            let dissected = DissectedFrame::new(&bytes, bytes.len() as u32, LinkType::ETHERNET);
            assert_eq!(engine.judge(&dissected), reference.judge(&dissected));
        }
    }
    let counted = engine.counts().map(|(_, counts)| counts.frames);
    let expected = reference.rules.iter().map(|(_, _, met)| *met);
    assert_eq!(counted.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    assert!(engine.counts().filter(|(_, counts)| counts.frames > 0).count() > 20);
}
