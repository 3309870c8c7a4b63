//! The program of a pre-filter rejects no frame that a rule matches, whatever the rules, the frame,
//! the snapshot length and the room; and of plain frames it rejects all that no rule can match.

use ringside_core::LinkType;
use ringside_core::limits::FRAME_BYTES_MAX;
use ringside_filter::{Compiler, Prepared};
use ringside_inspect::DissectedFrame;
use ringside_rules::Question;
use ringside_rules::cover::Cover;
use ringside_rules::key::Key;
use ringside_rules::language::{self, AddressSet, Rule, RuleId, RuleSet, Sets, Verdict};
use ringside_rules::pre_filter::{NoPreFilter, PreFilter, QUESTIONS_MAX};
use ringside_testkit::rules::{random_frame, random_rule};
use ringside_testkit::{Random, by_run};
use ringside_wire::{Layer, LayerKind, Layers, Level, Stop, dissect};
use std::fmt::Write;
use std::net::Ipv4Addr;

const COMPILER: Compiler = Compiler::InProcess { optimise: true };

fn set(text: &str) -> RuleSet {
    language::parse(text.as_bytes(), &mut Sets::none()).unwrap_or_else(|e| panic!("{text}\n{e}"))
}

/// Rules, what is asked of them, and the program that stands before them.
struct Guarded {
    set: RuleSet,
    link: LinkType,
    snaplen: u32,
    questions: Vec<Question>,
    pre_filter: PreFilter,
    program: Prepared,
}

impl Guarded {
    fn new(
        set: RuleSet,
        link: LinkType,
        snaplen: u32,
        questions_max: usize,
    ) -> Result<Guarded, NoPreFilter> {
        let pre_filter = PreFilter::new(&set, link, snaplen, questions_max)?;
        assert!(pre_filter.questions() <= questions_max);
        let ask = |rule: &Rule| Question::new(&rule.matches, link, &COMPILER).unwrap();
        let questions = set.rules.iter().map(ask).collect();
        let program = Prepared::new(pre_filter.program()).unwrap();
        Ok(Guarded { set, link, snaplen, questions, pre_filter, program })
    }

    fn whole(text: &str) -> Guarded {
        Guarded::new(set(text), LinkType::ETHERNET, FRAME_BYTES_MAX, QUESTIONS_MAX).unwrap()
    }

    /// What the rules see of a frame.
    fn dissected<'f>(&self, frame: &'f [u8]) -> DissectedFrame<'f> {
        let seen = frame.len().min(self.snaplen as usize);
        DissectedFrame::new(&frame[..seen], frame.len() as u32, self.link)
    }

    fn accepts(&self, frame: &[u8]) -> bool {
        self.program.accepts(frame, frame.len() as u32)
    }

    /// Says whether the program accepts a frame, after a look at whether it may reject it.
    fn check(&self, frame: &[u8]) -> bool {
        let accepted = self.accepts(frame);
        if !accepted {
            let dissected = self.dissected(frame);
            for (rule, question) in self.set.rules.iter().zip(&self.questions) {
                assert!(!question.holds(&dissected), "{rule}\n{frame:02x?}\n{}", self.set);
            }
        }
        accepted
    }

    fn may_match(&self, key: &Key) -> bool {
        let covers = self.set.rules.iter().map(|rule| Cover::of(&rule.matches));
        covers.into_iter().any(|cover| cover.cubes.iter().any(|cube| cube.accepts(key)))
    }
}

/// Frames of which the program knows all that rules ask of addresses, ports and protocol.
fn is_plain(frame: &[u8]) -> bool {
    let layers = dissect(frame, LinkType::ETHERNET);
    let Some((link, network)) = network(&layers) else { return false };
    let tags = match link.split_first() {
        Some((first, tags)) if first.kind == LayerKind::Ethernet => tags,
        _ => return false,
    };
    let is_tag = |layer: &Layer| matches!(layer.kind, LayerKind::Vlan | LayerKind::QinQ);
    if tags.len() > 2 || !tags.iter().all(is_tag) {
        return false;
    }
    let at = network.start();
    let half = |offset: usize| usize::from(u16::from_be_bytes([frame[offset], frame[offset + 1]]));
    let (protocol, end) = match network.kind {
        LayerKind::Arp => return frame.len() >= 34,
        LayerKind::Ipv4 if network.header_bytes == 20 => (frame[at + 9], at + half(at + 2)),
        LayerKind::Ipv6 => (frame[at + 6], at + 40 + half(at + 4)),
        _ => return false,
    };
    let is_later = layers.stop() == Stop::LaterFragment;
    let has_ports = matches!(protocol, 6 | 17 | 132) && !is_later;
    let is_whole = end > network.end() && end <= frame.len();
    let is_extension = matches!(protocol, 51)
        || network.kind == LayerKind::Ipv6 && matches!(protocol, 0 | 43 | 44 | 60);
    is_whole && !is_extension && (!has_ports || layers.transport(Level::Outer).is_some())
}

/// The headers before the outer network header, and that one.
fn network(layers: &Layers) -> Option<(&[Layer], Layer)> {
    let all = layers.as_slice();
    let at = all.iter().position(|layer| layer.kind.is_network())?;
    Some((&all[..at], all[at]))
}

/// Rules that are not each for any frame.
fn random_set(random: &mut Random) -> RuleSet {
    let mut rules = set("default drop");
    for id in 1..2 + random.below(13) {
        let one = set(&(random_rule(random, id, true) + "default drop"));
        let guarded = PreFilter::new(&one, LinkType::ETHERNET, FRAME_BYTES_MAX, QUESTIONS_MAX);
        if guarded.is_ok() {
            rules.rules.extend(one.rules);
        }
    }
    rules
}

#[test]
fn random_pairs() {
    let mut random = Random::new(21);
    let (mut pairs, mut rejected, mut plain, mut useless) = (0u64, 0u64, 0u64, 0);
    for round in 0.. {
        let rules = random_set(&mut random);
        // A program that has room for all questions is exact about plain frames.
        let questions_max = [QUESTIONS_MAX, QUESTIONS_MAX, QUESTIONS_MAX, 16, 3][round % 5];
        let short = [34, 40, 54, 60, 70, 96][round / 20 % 6];
        let snaplen = if round / 5 % 4 == 3 { short } else { FRAME_BYTES_MAX };
        let is_exact = (questions_max, snaplen) == (QUESTIONS_MAX, FRAME_BYTES_MAX);
        let Ok(guarded) = Guarded::new(rules, LinkType::ETHERNET, snaplen, questions_max) else {
            useless += 1;
            continue;
        };
        for rule in &guarded.set.rules {
            assert!(guarded.pre_filter.covers(&rule.matches), "{rule}\n{}", guarded.set);
        }
        for _ in 0..400 {
            let frame = random_frame(&mut random);
            let accepted = guarded.check(&frame);
            if is_exact && is_plain(&frame) {
                let key = Key::of(&guarded.dissected(&frame), Level::Outer);
                let expected = guarded.may_match(&key);
                assert_eq!(accepted, expected, "{key:?}\n{frame:02x?}\n{}", guarded.set);
                plain += 1;
            }
            rejected += u64::from(!accepted);
        }
        pairs += 400;
        if pairs >= by_run(200_000, 1_000_000) {
            break;
        }
    }
    eprintln!("{pairs} pairs, {rejected} rejected, {plain} plain; {useless} sets for any frame");
    assert!(rejected > pairs / 7 && plain > pairs / 5 && useless < 3 * pairs / 1_000);
}

#[test]
fn a_rule_that_is_known_changes_nothing() {
    let mut random = Random::new(22);
    let (mut known, mut unknown) = (0, 0);
    for round in 0..1_500 {
        let rules = random_set(&mut random);
        let questions_max = [QUESTIONS_MAX, 6][round % 2];
        let Ok(guarded) = Guarded::new(rules, LinkType::ETHERNET, FRAME_BYTES_MAX, questions_max)
        else {
            continue;
        };
        for id in 100..110 {
            let more = set(&random_rule(&mut random, id, true)).rules.remove(0);
            if !guarded.pre_filter.covers(&more.matches) {
                unknown += 1;
                continue;
            }
            let question = Question::new(&more.matches, guarded.link, &COMPILER).unwrap();
            for _ in 0..60 {
                let frame = random_frame(&mut random);
                let matches = question.holds(&guarded.dissected(&frame));
                assert!(!matches || guarded.accepts(&frame), "{more}\n{}", guarded.set);
            }
            known += 1;
        }
    }
    assert!(known > 1_000 && unknown > 1_000, "{known} {unknown}");
}

#[test]
fn what_is_known_and_what_not() {
    let guarded = Guarded::whole(
        "1: src ip 10.0.0.0/8 tcp dst port 80,443 => take
         2: udp port 53 => take
         3: ip 2001:db8::/32 => take
         default drop",
    );
    for (text, expected) in [
        ("src ip 10.1.2.3 tcp dst port 443", true),
        ("src ip 10.1.2.3 tcp dst port 80-443", false),
        ("src ip 10.0.0.0/7 tcp dst port 80", false),
        ("udp src port 53", true),
        ("udp port 53 payload \"x\"", true),
        ("port 53", false),
        ("udp not port 53", false),
        ("src ip 2001:db8:5::/48 tcp", true),
        ("src ip 2001:db9::/32", false),
        ("dns.qname example.com", false),
        ("ip4", false),
        ("ethertype arp", false),
        ("tcp not any", true),
    ] {
        let line = format!("{text} => take");
        let rule = language::parse_rule(line.as_bytes(), RuleId(9), &mut Sets::none()).unwrap();
        assert_eq!(guarded.pre_filter.covers(&rule.matches), expected, "{text}");
    }
}

#[test]
fn why_there_is_none() {
    let why = |text: &str, link, snaplen| {
        PreFilter::new(&set(text), link, snaplen, QUESTIONS_MAX).map(drop)
    };
    let ethernet = LinkType::ETHERNET;
    for (text, link, snaplen, expected) in [
        ("udp => take\ndefault drop", ethernet, 96, Ok(())),
        ("udp => take\ndefault drop", LinkType::RAW, 96, Ok(())),
        ("default drop", ethernet, 96, Ok(())),
        ("udp => take", ethernet, 96, Err(NoPreFilter::Default(Verdict::Pass))),
        ("udp => take\ndefault drop", ethernet, 33, Err(NoPreFilter::Snaplen)),
        ("udp => take\ndefault drop", LinkType::NULL, 96, Err(NoPreFilter::LinkType)),
        (
            "udp => take\n7: vlan 5 => take\ndefault drop",
            ethernet,
            96,
            Err(NoPreFilter::Rule(RuleId(7))),
        ),
        ("udp => take\nnot udp => count\ndefault drop", ethernet, 96, Err(NoPreFilter::Rules)),
    ] {
        assert_eq!(why(text, link, snaplen), expected, "{text}");
    }
}

/// More rules than the program has questions, and more pieces than are looked at one by one: frames
/// far from all rules are still rejected.
#[test]
fn many_rules_are_taken_together() {
    for (count, prefix) in [(5_000u32, 32), (100_000, 32)] {
        let mut text = String::from("default drop\n");
        for n in 0..count {
            let [_, b, c, d] = (n * 97).to_be_bytes();
            let _ =
                writeln!(text, "src ip 10.{b}.{c}.{d}/{prefix} tcp dst port {} => take", n % 999);
        }
        let guarded = Guarded::whole(&text);
        let frame = |address: [u8; 4], protocol: u8| {
            let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0];
            frame.extend([0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0]);
            frame.extend(address);
            frame.extend([192, 0, 2, 1, 0, 9, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2]);
            frame.extend([0; 6]);
            frame
        };
        assert!(!guarded.accepts(&frame([192, 0, 2, 2], 6)), "{count}");
        assert!(!guarded.accepts(&frame([9, 255, 255, 255], 6)));
        for n in (0..count).step_by(977) {
            let [_, b, c, d] = (n * 97).to_be_bytes();
            let mut frame = frame([10, b, c, d], 6);
            frame[36..38].copy_from_slice(&((n % 999) as u16).to_be_bytes());
            assert!(guarded.accepts(&frame), "{n} of {count}");
        }
        for rule in guarded.set.rules.iter().step_by(97) {
            assert!(guarded.pre_filter.covers(&rule.matches), "{rule}");
        }
    }
}

/// Rules of which each leaves one port open, so that every cut has most of them on both sides.
#[test]
fn rules_that_no_cut_parts_end_in_bounded_memory() {
    let mut text = String::from("default drop\n");
    for port in 0..8_000 {
        let _ = writeln!(text, "udp src port {} => take\nudp dst port {0} => take", port * 3);
    }
    let guarded = Guarded::whole(&text);
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 0x45, 0, 0, 28];
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 250, 1, 250, 1, 0, 8, 0, 0]);
    for port in [3u16, 300, 23_997] {
        frame[36..38].copy_from_slice(&port.to_be_bytes());
        assert!(guarded.check(&frame));
    }
    frame[23] = 6;
    assert!(!guarded.check(&frame));
}

/// A list of hosts: the program has prefixes that hold them all.
#[test]
fn address_files_are_outlined() {
    let mut random = Random::new(23);
    for (count, net_bits) in [(3u32, 32), (5_000, 20), (100_000, 14)] {
        let mut list = String::from("2001:db8:7::/48\n");
        let mask = u32::MAX >> net_bits.min(31);
        let mut addresses = Vec::new();
        for _ in 0..count {
            let address = Ipv4Addr::from(0x0a40_0000 | random.next_u64() as u32 & mask);
            addresses.push(address);
            let _ = writeln!(list, "{address}");
        }
        let mut sets = Sets::none();
        sets.insert("list", AddressSet::parse(list.as_bytes()).unwrap());
        let text = "1: ip @list,192.0.2.9 tcp => take\ndefault drop";
        let rules = language::parse(text.as_bytes(), &mut sets).unwrap();
        let link = LinkType::ETHERNET;
        let guarded = Guarded::new(rules, link, FRAME_BYTES_MAX, QUESTIONS_MAX).unwrap();
        let frame = |from: Ipv4Addr, protocol: u8| {
            let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0];
            frame.extend([0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0]);
            frame.extend(from.octets());
            frame.extend([198, 51, 100, 1]);
            frame.extend([0; 20]);
            frame
        };
        for address in addresses.iter().step_by(7).chain([&Ipv4Addr::new(192, 0, 2, 9)]) {
            assert!(guarded.check(&frame(*address, 6)), "{address}");
            assert!(!guarded.check(&frame(*address, 17)), "{address}");
        }
        for far in [[11, 0, 0, 1], [10, 63, 0, 1], [172, 16, 0, 1], [192, 0, 3, 9]] {
            assert!(!guarded.check(&frame(far.into(), 6)), "{far:?}");
        }
        assert!(guarded.pre_filter.covers(&guarded.set.rules[0].matches));
        // What is not in a file is nearly everything.
        let text = "1: not ip @list tcp => take\ndefault drop";
        let rules = language::parse(text.as_bytes(), &mut sets).unwrap();
        let guarded = Guarded::new(rules, link, FRAME_BYTES_MAX, QUESTIONS_MAX).unwrap();
        assert!(guarded.check(&frame([11, 0, 0, 1].into(), 6)));
        assert!(guarded.check(&frame(addresses[0], 6)));
    }
}

/// Rules of the kinds that people write, on what was really on wires.
#[test]
fn all_captures() {
    let texts = [
        "tcp dst port 80,443,8080 => take",
        "tls.sni *.com => take\ndns.qname *.org => take",
        "ip 10.0.0.0/8,192.168.0.0/16,fe80::/10 not port 1-1023 => take",
        "not ip 0.0.0.0/1 not ip 8000::/1 => take",
        "proto 1,58,132 => count\n2: udp port 53,5353 bidir => take",
        "src ip 192.168.0.0/16 dst port 0-1023 tcpflags syn => take\n2: icmp => take",
        "not tcp not udp => take",
        "ip6 not port 1-65535 => take",
    ];
    let (mut pairs, mut rejected, mut plain) = (0u64, 0u64, 0u64);
    let files = crate::common::captures("a pre-filter of rules on captures");
    for text in texts {
        for (link, questions_max) in
            [(LinkType::ETHERNET, QUESTIONS_MAX), (LinkType::ETHERNET, 5), (LinkType::RAW, 1_024)]
        {
            let rules = set(&format!("{text}\ndefault drop"));
            let guarded = Guarded::new(rules, link, FRAME_BYTES_MAX, questions_max).unwrap();
            for file in files.iter().filter(|file| file.link_type == link) {
                for frame in &file.frames {
                    let accepted = guarded.check(&frame.bytes);
                    if link == LinkType::ETHERNET && questions_max > 5 && is_plain(&frame.bytes) {
                        let key = Key::of(&guarded.dissected(&frame.bytes), Level::Outer);
                        assert_eq!(accepted, guarded.may_match(&key), "{:02x?}", frame.bytes);
                        plain += 1;
                    }
                    pairs += 1;
                    rejected += u64::from(!accepted);
                }
            }
        }
    }
    eprintln!("{pairs} pairs, {rejected} rejected, {plain} plain");
    assert!(pairs == 0 || rejected > pairs / 3 && plain > pairs / 4, "{pairs} {rejected} {plain}");
}
