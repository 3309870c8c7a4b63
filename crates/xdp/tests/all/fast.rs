//! The fast path means what the general program means, and both what user space means: on random
//! rules and frames, on captures, and on what is made of these.

use crate::random::{is_for_a_driver, random_frame, random_rules};
use crate::support::corpus;
use ringside_core::LinkType;
use ringside_ebpf::Verdict as Ending;
use ringside_filter::Compiler;
use ringside_inspect::DissectedFrame;
use ringside_rules::engine::{Counts, Engine, Fate};
use ringside_rules::language::{self, RuleId, RuleSet, Sets, Verdict};
use ringside_sys::thread::{allowed_cpus, pin_to_cpu};
use ringside_testkit::{Random, by_run, need_root};
use ringside_xdp::{DriverRules, Options, Totals};
use std::path::Path;

/// Longest frame that a test run takes.
const FRAME_BYTES_MAX: usize = 9_000;

fn set(text: &str, folder: &Path) -> RuleSet {
    let mut sets = Sets::in_folder(folder);
    language::parse(text.as_bytes(), &mut sets).unwrap_or_else(|e| panic!("{text}\n{e}"))
}

/// One set of rules three times: with a fast path, without one, and in user space.
struct Judges {
    fast: DriverRules,
    general: DriverRules,
    engine: Engine,
    /// What the drivers had counted before.
    before: [Totals; 2],
}

impl Judges {
    fn new(set: &RuleSet) -> Judges {
        let open = |reports: bool| {
            let options = Options { reports, ..Options::default() };
            DriverRules::unattached(set.clone(), &options).unwrap()
        };
        Judges {
            before: [Totals::default(); 2],
            fast: open(false),
            general: open(true),
            engine: engine(set),
        }
    }

    /// Replaces all rules, one by one; the default stays.
    fn exchange(&mut self, set: &RuleSet) {
        for driver in [&mut self.fast, &mut self.general] {
            let ids: Vec<RuleId> = driver.rules().map(|(rule, ..)| rule.id).collect();
            ids.into_iter().for_each(|id| assert!(driver.remove(id).unwrap()));
            set.rules.iter().for_each(|rule| driver.add(rule.clone()).unwrap());
            // Once more after the last change.
            driver.settle().unwrap();
            driver.settle().unwrap();
        }
        self.engine = engine(set);
        self.before = [self.fast.totals(), self.general.totals()];
    }

    /// True if it is dropped.
    fn judge(&mut self, frame: &[u8]) -> bool {
        let dissected = DissectedFrame::new(frame, frame.len() as u32, LinkType::ETHERNET);
        let judgement = self.engine.judge(&dissected);
        let expected = match judgement.fate {
            Fate::Verdict(Verdict::Drop) => Ending::Drop,
            Fate::Verdict(_) => Ending::Pass,
            Fate::Redirect(_) => Ending::Redirect,
        };
        let found = [&self.fast, &self.general].map(|driver| driver.test_run(frame).unwrap());
        let endings = found.each_ref().map(|run| run.verdict);
        assert_eq!(endings, [expected; 2], "{:?}\n{frame:02x?}", judgement.decided_by);
        assert_eq!(found[0].frame, found[1].frame);
        expected == Ending::Drop
    }

    /// What each rule counted, and all together; but not which way a frame took: where rules ask
    /// about addresses alone, the fast path does not look behind them.
    fn compare(&self) {
        let counts = |driver: &DriverRules| -> Vec<(RuleId, Counts)> {
            driver.rules().map(|(rule, counts, _)| (rule.id, counts)).collect()
        };
        let expected: Vec<(RuleId, Counts)> =
            self.engine.counts().map(|(rule, counts)| (rule.id, counts)).collect();
        assert_eq!(counts(&self.fast), expected);
        assert_eq!(counts(&self.general), expected);
        let since = |driver: &DriverRules, before: &Totals| {
            let now = driver.totals();
            [
                now.passed - before.passed,
                now.taken - before.taken,
                now.dropped - before.dropped,
                now.redirected - before.redirected,
                now.unjudged - before.unjudged,
                now.undecided - before.undecided,
                now.undecided_bytes - before.undecided_bytes,
            ]
        };
        assert_eq!(since(&self.fast, &self.before[0]), since(&self.general, &self.before[1]));
    }
}

fn engine(set: &RuleSet) -> Engine {
    let compiler = Compiler::InProcess { optimise: true };
    Engine::new(set.clone(), LinkType::ETHERNET, &compiler).unwrap()
}

fn one_of<'t>(random: &mut Random, list: &[&'t str]) -> &'t str {
    list[random.below(list.len())]
}

/// A rule that asks one thing, or nearly so.
fn simple_rule(random: &mut Random, id: usize) -> String {
    let side = one_of(random, &["", "src ", "dst "]);
    let not = one_of(random, &["", "", "", "not "]);
    let protocol = one_of(random, &["", "", "tcp ", "udp ", "proto 6-17 "]);
    let ports = one_of(random, &["1", "0-3", "2,4,6-70", "1-65535", "0-65535"]);
    let addresses = [
        "10.0.0.1",
        "10.0.0.2-10.0.0.4",
        "10.0.0.0/30",
        "10.0.0.4/30,192.0.2.0/24",
        "10.0.0.0/8",
        "8.0.0.0/5",
        "0.0.0.0/0",
        "2001:db8::1",
        "2001:db8::/126,10.0.0.3",
        "::/0",
    ];
    let alternative = one_of(random, &addresses);
    let address =
        one_of(random, &[alternative, alternative, alternative, "@list", "@list,10.0.0.5"]);
    let matches = match random.below(10) {
        0..=2 => format!("{protocol}{not}({side}port {ports})"),
        3..=6 => format!("{not}({side}ip {address})"),
        7 => one_of(random, &["tcp", "udp", "icmp", "not udp", "proto 1,58", "ip6", "ip4 tcp"])
            .into(),
        8 => format!("{side}ip {alternative} or {protocol}{side}port {ports}"),
        _ => format!("{protocol}{side}ip {address}"),
    };
    let bidir = one_of(random, &["", "", "", " bidir"]);
    let action = one_of(random, &["drop", "drop", "drop", "take", "pass"]);
    format!("{id}: {matches}{bidir} => {action}\n")
}

fn some_rules(random: &mut Random) -> String {
    let mut text = String::new();
    for at in 0..1 + random.below(8) {
        text += &simple_rule(random, 1 + 2 * at);
    }
    // Others behind them, or among them.
    if random.below(3) == 0 {
        let others = [
            "tcpflags syn => drop",
            "any => count",
            "length 60 => pass",
            "src ip \
            10.0.0.1 dst ip 10.0.0.2 udp src port 1 dst port 2 => drop",
        ];
        let id = 2 * (1 + random.below(10));
        text += &format!("{id}: {}\n", one_of(random, &others));
    }
    text
}

#[test]
fn random_rules_and_frames() {
    if !need_root("the fast path of rules against both others") {
        return;
    }
    pin_to_cpu(allowed_cpus().unwrap()[0]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("list"), "10.0.0.2\n10.0.0.4/31\n2001:db8::2\n").unwrap();
    let mut random = Random::new(31);
    let (mut pairs, mut dropped, mut rounds_fast, mut part) = (0u64, 0u64, 0, 0);
    for default in ["pass", "drop", "take"] {
        let mut judges = Judges::new(&set(&format!("default {default}"), folder.path()));
        for _ in 0..by_run(6, 240) {
            let text = match random.below(8) {
                0 => random_rules(&mut random, false),
                _ => some_rules(&mut random),
            };
            let mut rules = set(&format!("{text}default {default}\n"), folder.path());
            rules.rules.retain(|rule| is_for_a_driver(rule.clone()));
            judges.exchange(&rules);
            let count = judges.fast.fast_rules();
            rounds_fast += u32::from(count > 0);
            part += u32::from(count > 0 && count < rules.rules.len());
            for _ in 0..1500 {
                dropped += u64::from(judges.judge(&random_frame(&mut random)));
                pairs += 1;
            }
            judges.compare();
        }
    }
    let rounds = 3 * by_run(6, 240) as u32;
    assert!(pairs >= by_run(15_000, 1_000_000) && dropped > pairs / 10, "{pairs} {dropped}");
    assert!(rounds_fast > rounds / 2 && part > rounds / 10, "{rounds_fast} {part} of {rounds}");
}

/// Rules of the kinds that the fast path knows, about what was on wires.
const RULES: &str = "
    1: tcp dst port 80,8000-8100 => drop
    2: udp src port 53 => pass
    3: src ip 192.168.1.0/24,10.0.0.0-10.0.0.17,172.16.0.0/12 => drop
    4: ip 10.0.0.0/8 => take
    5: proto 1,2,132 => drop
    6: ip6 => pass
    7: dst port 1024- => drop";

fn frames(test: &str) -> Vec<Vec<u8>> {
    let ethernet = corpus(test).into_iter().filter(|(link, _)| *link == LinkType::ETHERNET);
    let fits = |frame: &Vec<u8>| (14..=FRAME_BYTES_MAX).contains(&frame.len());
    ethernet.map(|(_, frame)| frame).filter(fits).collect()
}

#[test]
fn all_captures() {
    if !need_root("the fast path of rules on captures") {
        return;
    }
    let here = Path::new(".");
    for more in ["", "8: tcpflags syn => count\n9: vlan any => drop", "default drop"] {
        let mut judges = Judges::new(&set(&format!("{RULES}\n{more}"), here));
        assert_eq!(judges.fast.fast_rules(), 7);
        for frame in frames("the fast path of rules on captures") {
            judges.judge(&frame);
        }
        judges.compare();
    }
}

/// Rules that ask about ports alone have a program of their own, and so have those of addresses.
#[test]
fn all_captures_by_one_kind_of_rule() {
    let name = "the fast path of rules of one kind on captures";
    if !need_root(name) {
        return;
    }
    let here = Path::new(".");
    let ports = "1: tcp dst port 80,8000-8100 => drop\n2: udp src port 53 => drop";
    let addresses = "1: src ip 192.168.1.0/24 => drop\n2: not dst ip 10.0.0.0/8 => take";
    for rules in [ports, addresses] {
        let mut judges = Judges::new(&set(rules, here));
        assert_eq!(judges.fast.fast_rules(), 2, "{rules}");
        frames(name).iter().for_each(|frame| {
            judges.judge(frame);
        });
        judges.compare();
    }
}

#[test]
fn frames_that_were_cut_and_changed() {
    if !need_root("the fast path of rules on hostile frames") {
        return;
    }
    let mut seeds = frames("the fast path of rules on hostile frames");
    seeds.retain(|frame| frame.len() <= 400);
    seeds.push((0..200).collect());
    let judges = Judges::new(&set(RULES, Path::new(".")));
    let judges = std::cell::RefCell::new(judges);
    ringside_testkit::fuzz("fast-path", 300_000, &seeds, |frame| {
        if (14..=FRAME_BYTES_MAX).contains(&frame.len()) {
            judges.borrow_mut().judge(frame);
        }
    });
    judges.into_inner().compare();
}

/// Which rules are on it: the first ones, as long as each asks one thing, and none if some are
/// exact.
#[test]
fn the_first_rules_are_on_it() {
    if !need_root("what is on the fast path of rules") {
        return;
    }
    let count = |text: &str| {
        let rules = set(text, Path::new("."));
        DriverRules::unattached(rules, &Options::default()).unwrap().fast_rules()
    };
    assert_eq!(count("udp dst port 9 => drop"), 1);
    assert_eq!(count("udp dst port 9 => drop\nany => redirect cpu 0"), 1);
    assert_eq!(count("9: udp dst port 9 => drop\n8: vlan any => drop"), 0);
    assert_eq!(count("src ip 192.0.2.1 udp => drop"), 0);
    assert_eq!(count("udp dst port 9 => drop, continue\ntcp => drop"), 0);
    assert_eq!(count("tcp => drop\nudp => drop, sample 1/2\nicmp => drop"), 1);
    let exact = "src ip 192.0.2.1 dst ip 192.0.2.2 udp src port 1 dst port 2 => drop";
    assert_eq!(count(&format!("udp => drop\n{exact}")), 0);
    let many: String = (0..100_000u32)
        .map(|at| format!("src ip {} => drop\n", std::net::Ipv4Addr::from_bits(at * 257)))
        .take(10_000)
        .collect();
    assert_eq!(count(&many), 10_000);
    let dry = Options { is_dry: true, ..Options::default() };
    let rules = set("udp => drop", Path::new("."));
    assert_eq!(DriverRules::unattached(rules, &dry).unwrap().fast_rules(), 0);
}

#[test]
fn a_change_puts_it_aside_until_rules_have_settled() {
    if !need_root("changes of rules on the fast path") {
        return;
    }
    let rules = set("1: udp dst port 9 => drop\n3: src ip 10.0.0.1 => drop", Path::new("."));
    let mut driver = DriverRules::unattached(rules, &Options::default()).unwrap();
    let settled = |driver: &mut DriverRules| {
        driver.settle().unwrap();
        driver.fast_rules()
    };
    assert_eq!(driver.fast_rules(), 2);
    for (rule, on_it) in [("2: tcp => drop", 3), ("2: tcpflags syn => drop", 1)] {
        driver.add(set(rule, Path::new(".")).rules.remove(0)).unwrap();
        assert_eq!(driver.fast_rules(), 0);
        assert_eq!([settled(&mut driver), settled(&mut driver)], [0, on_it], "{rule}");
        assert!(driver.remove(RuleId(2)).unwrap());
        assert_eq!(driver.fast_rules(), 0);
        assert_eq!([settled(&mut driver), settled(&mut driver)], [0, 2], "{rule}");
    }
    // Another default, and all at once.
    driver.load(set("5: ip6 => drop\ndefault drop", Path::new("."))).unwrap();
    assert_eq!(driver.fast_rules(), 1);
}
