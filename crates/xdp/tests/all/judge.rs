//! The driver judges every frame as user space does, and each rule counts the same.

use crate::random::{random_frame, random_rules};
use ringside_core::LinkType;
use ringside_ebpf::Verdict as Ending;
use ringside_filter::Compiler;
use ringside_inspect::DissectedFrame;
use ringside_rules::Rule;
use ringside_rules::engine::{Counts, Engine, Fate, Judgement};
use ringside_rules::language::{self, RuleId, RuleSet, Sets, Verdict};
use ringside_sys::thread::{allowed_cpus, pin_to_cpu};
use ringside_testkit::{Random, by_run, need_root};
use ringside_xdp::{Decided, DriverRules, Mode, NotHere, Options, RulesError};
use std::collections::BTreeMap;

const COMPILER: Compiler = Compiler::InProcess { optimise: true };

fn set(text: &str) -> RuleSet {
    language::parse(text.as_bytes(), &mut Sets::none()).unwrap_or_else(|e| panic!("{text}\n{e}"))
}

fn engine(set: RuleSet) -> Engine {
    Engine::new(set, LinkType::ETHERNET, &COMPILER).unwrap()
}

/// Samples are counted on each CPU.
fn stay_on_one_cpu() {
    pin_to_cpu(allowed_cpus().unwrap()[0]).unwrap();
}

fn options(mode: Mode) -> Options {
    Options { mode, reports: true, ..Options::default() }
}

/// What the driver makes of what a judge in user space says.
fn ending(judgement: &Judgement) -> Ending {
    match &judgement.fate {
        Fate::Verdict(Verdict::Drop) => Ending::Drop,
        Fate::Verdict(_) => Ending::Pass,
        Fate::Redirect(_) => Ending::Redirect,
    }
}

fn counts<'r>(rules: impl Iterator<Item = (&'r Rule, Counts)>) -> BTreeMap<RuleId, Counts> {
    rules.map(|(rule, counts)| (rule.id, counts)).collect()
}

fn driver_counts(rules: &DriverRules) -> BTreeMap<RuleId, Counts> {
    counts(rules.rules().map(|(rule, counts, _)| (&**rule, counts)))
}

fn engine_counts(engine: &Engine) -> BTreeMap<RuleId, Counts> {
    counts(engine.counts().map(|(rule, counts)| (&**rule, counts)))
}

/// Replaces the rules one by one, while the program stays; the default verdict is the set's.
fn exchange(driver: &mut DriverRules, set: &RuleSet) {
    let ids: Vec<RuleId> = driver.rules().map(|(rule, ..)| rule.id).collect();
    for id in ids {
        assert!(driver.remove(id).unwrap());
    }
    assert!(driver.is_empty());
    for rule in &set.rules {
        driver.add(rule.clone()).unwrap();
    }
}

/// Rules that can be at work in a driver, and a driver with them.
fn with_random_rules(driver: &mut DriverRules, random: &mut Random) -> RuleSet {
    let mut rules = set(&random_rules(random, false));
    rules.default = driver.default_verdict();
    exchange(driver, &rules);
    rules
}

#[test]
fn random_rules_and_frames() {
    if !need_root("rules in XDP against user space") {
        return;
    }
    stay_on_one_cpu();
    let mut random = Random::new(11);
    let mut pairs = 0u64;
    for default in ["pass", "drop", "take"] {
        let mut driver =
            DriverRules::unattached(set(&format!("default {default}")), &options(Mode::Protect))
                .unwrap();
        for round in 0..by_run(24, 700) {
            let rules = with_random_rules(&mut driver, &mut random);
            let mut engine = engine(rules.clone());
            let before = driver.totals();
            let frames: Vec<Vec<u8>> = (0..60).map(|_| random_frame(&mut random)).collect();
            let mut endings = BTreeMap::new();
            for _ in 0..480 {
                // The same conversations again: most are remembered.
                let frame = &frames[random.below(frames.len())];
                let dissected = DissectedFrame::new(frame, frame.len() as u32, LinkType::ETHERNET);
                let judgement = engine.judge(&dissected);
                let run = driver.test_run(frame).unwrap();
                let (report, by) = driver.report();
                let found = (run.verdict, by);
                let expected = (ending(&judgement), judgement.decided_by);
                assert_eq!(found, expected, "round {round}\n{rules}\n{frame:02x?}\n{report:?}");
                *endings.entry(format!("{:?}", run.verdict)).or_insert(0) += 1;
                pairs += 1;
            }
            assert_eq!(driver_counts(&driver), engine_counts(&engine), "{rules}");
            let totals = driver.totals();
            assert_eq!(totals.seen() - before.seen(), 480);
            let (_, undecided) = engine.default_counts();
            assert_eq!(totals.undecided - before.undecided, undecided.frames);
            assert_eq!(totals.undecided_bytes - before.undecided_bytes, undecided.bytes);
            let dropped = endings.get("Drop").copied().unwrap_or_default();
            assert_eq!(totals.dropped - before.dropped, dropped);
        }
    }
    assert!(pairs >= by_run(33_000, 1_000_000));
}

/// Before a capture: what the driver does not end is judged above, and each frame in one place.
#[test]
fn what_is_handed_up_is_counted_there_alone() {
    if !need_root("rules in XDP shared with a capture") {
        return;
    }
    stay_on_one_cpu();
    let mut random = Random::new(12);
    let (mut ended, mut handed_up) = (0, 0);
    for default in ["pass", "drop", "take"] {
        let mut driver =
            DriverRules::unattached(set(&format!("default {default}")), &options(Mode::Share))
                .unwrap();
        for _ in 0..by_run(40, 150) {
            let mut rules = set(&random_rules(&mut random, true));
            rules.default = driver.default_verdict();
            exchange(&mut driver, &rules);
            let (mut whole, mut above) = (engine(rules.clone()), engine(rules.clone()));
            let frames: Vec<Vec<u8>> = (0..40).map(|_| random_frame(&mut random)).collect();
            for _ in 0..250 {
                let frame = &frames[random.below(frames.len())];
                let dissected =
                    || DissectedFrame::new(frame, frame.len() as u32, LinkType::ETHERNET);
                let judgement = whole.judge(&dissected());
                let before = driver.totals();
                let run = driver.test_run(frame).unwrap();
                if driver.totals().handed_up > before.handed_up {
                    assert_eq!(run.verdict, Ending::Pass);
                    assert_eq!(above.judge(&dissected()), judgement, "{rules}");
                    handed_up += 1;
                } else {
                    assert_eq!(run.verdict, ending(&judgement), "{rules}\n{frame:02x?}");
                    assert_ne!(judgement.fate, Fate::Verdict(Verdict::Take), "{rules}");
                    ended += 1;
                }
            }
            let sums = driver_counts(&driver).into_iter().zip(engine_counts(&above));
            let sums: BTreeMap<RuleId, Counts> =
                sums.map(|((id, here), (_, there))| (id, here + there)).collect();
            assert_eq!(sums, engine_counts(&whole), "{rules}");
        }
    }
    let enough = by_run(3_000, 10_000);
    assert!(ended > enough && handed_up > enough, "{ended} {handed_up}");
}

/// Tables that are filled again and again, without a program being loaded: nothing of what was
/// there before is left.
#[test]
fn tables_that_are_filled_again_judge_as_new_ones() {
    if !need_root("rules in XDP in tables that were used") {
        return;
    }
    stay_on_one_cpu();
    let mut random = Random::new(13);
    let options = Options { has_spare: true, room: 200, ..options(Mode::Protect) };
    let mut driver = DriverRules::unattached(set("default pass"), &options).unwrap();
    let many: String = (0..20_000u32)
        .map(|n| {
            let (high, low) = (n >> 8, n & 255);
            format!("src ip 10.{high}.{low}.1 dst ip 10.0.0.1 udp src port 1 dst port 2 => drop\n")
        })
        .collect();
    let (many, mut judged) = (set(&many), 0u64);
    for round in 0..200 {
        let mut rules = set(&random_rules(&mut random, false));
        rules.default = [Verdict::Pass, Verdict::Drop, Verdict::Take][random.below(3)];
        if random.below(4) == 0 {
            let (before, texts) = (driver.totals(), driver.len());
            let refused = driver.load(many.clone()).unwrap_err();
            assert!(matches!(refused, RulesError::NoRoom(_)), "{refused}");
            assert_eq!((driver.totals(), driver.len()), (before, texts));
        }
        driver.load(rules.clone()).unwrap();
        let mut engine = engine(rules.clone());
        let (carried, before) = (driver_counts(&driver), driver.totals());
        assert_eq!(before.seen(), judged);
        let frames: Vec<Vec<u8>> = (0..40).map(|_| random_frame(&mut random)).collect();
        for _ in 0..160 {
            let frame = &frames[random.below(frames.len())];
            let dissected = DissectedFrame::new(frame, frame.len() as u32, LinkType::ETHERNET);
            let judgement = engine.judge(&dissected);
            let run = driver.test_run(frame).unwrap();
            let found = (run.verdict, driver.report().1);
            let expected = (ending(&judgement), judgement.decided_by);
            assert_eq!(found, expected, "round {round}\n{rules}\n{frame:02x?}");
            judged += 1;
        }
        let sums = engine_counts(&engine).into_iter().map(|(id, here)| (id, carried[&id] + here));
        assert_eq!(driver_counts(&driver), sums.collect(), "{rules}");
        let undecided = driver.totals().undecided - before.undecided;
        assert_eq!(undecided, engine.default_counts().1.frames);
    }
    // A thousand that come and go, in room for some hundred: the others' room is free again.
    let before = driver_counts(&driver);
    for _ in 0..1000 {
        driver.add(set("4000000: udp length 60 => drop").rules.remove(0)).unwrap();
        assert!(driver.remove(RuleId(4_000_000)).unwrap());
    }
    assert_eq!(driver_counts(&driver), before);
    // More than there is room for.
    let refused = (0..1000u32).find_map(|n| {
        let rule = format!("{}: udp length {} => drop", 4_000_000 + n, 60 + n);
        driver.add(set(&rule).rules.remove(0)).err()
    });
    assert!(matches!(refused, Some(RulesError::NoRoom(_))), "{refused:?}");
}

/// Rules of the kinds that people write, on what was really on wires.
#[test]
fn all_captures() {
    if !need_root("rules in XDP on captures") {
        return;
    }
    stay_on_one_cpu();
    let text = "
        1: tcp dst port 80,443,8080 => count
        2: tcpflags syn,!ack => drop, sample 1/3
        3: udp port 53 length -300 => pass
        4: vlan any => count
        5: ethertype arp,0x88cc => drop
        6: mpls 16-1048575 => take
        7: src mac 00:00:00:00:00:00/01:00:00:00:00:00 not ip4 not ip6 => drop
        8: bytes net+8 = 40 => count
        9: ip 10.0.0.0/8,192.168.0.0/16,fe80::/10 not port 1-1023 => drop
        10: proto 1,58,132 => take
        11: bytes payload = 474554 => drop
        12: bytes transport+2 = 0050/fffe => drop
        13: udp not (dst port 1024-) => redirect cpu 0
        14: ip6 => drop
        20: src ip 10.1.1.1 dst ip 10.2.2.2 tcp src port 1 dst port 2 bidir => drop
        default pass";
    let rules = set(text);
    let driver = DriverRules::unattached(rules.clone(), &options(Mode::Protect)).unwrap();
    let mut engine = engine(rules);
    let frames = crate::support::corpus("rules in XDP on captures").into_iter();
    let mut count = 0;
    for (_, frame) in frames
        .filter(|(link, frame)| *link == LinkType::ETHERNET && (14..=9000).contains(&frame.len()))
    {
        let judgement =
            engine.judge(&DissectedFrame::new(&frame, frame.len() as u32, LinkType::ETHERNET));
        let run = driver.test_run(&frame).unwrap();
        let (report, by) = driver.report();
        let expected = (ending(&judgement), judgement.decided_by);
        assert_eq!((run.verdict, by), expected, "{frame:02x?}\n{report:?}");
        count += 1;
    }
    assert_eq!(driver_counts(&driver), engine_counts(&engine));
    assert_eq!(driver.totals().seen(), count);
    // A test that finds nothing shows nothing.
    if count > 0 {
        let idle = driver.rules().filter(|(_, counts, _)| counts.frames == 0).count();
        assert!(idle <= 2, "{idle} rules met no frame");
    }
}

#[test]
fn what_is_not_for_a_driver_is_said() {
    if !need_root("refusals of rules in XDP") {
        return;
    }
    let cases = [
        ("payload \"x\" => drop", NotHere::Payload),
        ("http.method GET => drop", NotHere::Payload),
        ("filter \"tcp\" => drop", NotHere::Filter),
        ("inner (tcp) => drop", NotHere::Inner),
        ("vlan 1 or tcpflags syn => drop", NotHere::Alternatives),
        ("not (vlan 1 and tcp) => drop", NotHere::Alternatives),
        ("tcp (payload \"x\" or vlan 1) => drop", NotHere::Payload),
        ("vlan 1,3,5,7 => drop", NotHere::LongList),
        ("not bytes frame = 010203040506070809 => drop", NotHere::LongBytes),
        ("src mac 02:00:00:00:00:00 tcp bidir => drop", NotHere::BothWays),
        ("take, cap 64", NotHere::Trim),
        ("mirror eth9", NotHere::Mirror),
        ("digest", NotHere::Digest),
        ("pin", NotHere::Pin),
        ("redirect queue 1", NotHere::Queue),
    ];
    let mut shared = DriverRules::unattached(RuleSet::default(), &options(Mode::Share)).unwrap();
    let mut alone = DriverRules::unattached(RuleSet::default(), &options(Mode::Protect)).unwrap();
    for (index, (text, reason)) in cases.into_iter().enumerate() {
        let text = if text.contains("=>") { text.to_owned() } else { format!("any => {text}") };
        let rule = set(&format!("{}: {text}", index + 1)).rules.remove(0);
        let error = alone.add(rule.clone()).unwrap_err().to_string();
        assert!(error.contains(&reason.to_string()), "{text}: {error}");
        shared.add(rule).unwrap();
        let (_, _, decided) = shared.rules().last().unwrap();
        assert_eq!(decided, Decided::Above(reason), "{text}");
    }
    assert!(alone.is_empty());
    // What looks alike and can be done.
    for text in ["not vlan 1,3,5,7,9,11,13", "src mac 02:00:00:00:00:00 bidir", "not tcpflags syn"]
    {
        alone.add(set(&format!("{text} => drop")).rules.remove(0)).unwrap();
        assert!(alone.remove(RuleId(1)).unwrap());
    }
}
