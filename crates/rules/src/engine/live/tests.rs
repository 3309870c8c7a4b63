use super::*;
use crate::language::{self, Sets};
use proptest::prelude::*;
use ringside_inspect::DissectedFrame;
use ringside_testkit::by_run;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const COMPILER: Compiler = Compiler::InProcess { optimise: true };

fn set(text: &str) -> RuleSet {
    language::parse(text.as_bytes(), &mut Sets::none()).unwrap()
}

fn live(text: &str) -> Live {
    Live::new(set(text), LinkType::ETHERNET, &COMPILER).unwrap()
}

fn rule(id: u32, text: &str) -> Rule {
    language::parse_rule(text.as_bytes(), RuleId(id), &mut Sets::none()).unwrap()
}

/// UDP from 10.0.0.`from`, port `port`, to 10.0.0.9, port 53.
fn frame(from: u8, port: u16) -> [u8; 42] {
    let mut bytes = [0; 42];
    bytes[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17]);
    bytes[26..34].copy_from_slice(&[10, 0, 0, from, 10, 0, 0, 9]);
    bytes[34..36].copy_from_slice(&port.to_be_bytes());
    bytes[36..40].copy_from_slice(&[0, 53, 0, 8]);
    bytes
}

fn decides(judge: &mut Judge, frame: &[u8]) -> Option<u32> {
    let dissected = DissectedFrame::new(frame, frame.len() as u32, LinkType::ETHERNET);
    judge.judge(&dissected).decided_by.map(|id| id.0)
}

fn frames_of(live: &Live) -> Vec<(u32, u64)> {
    live.counts().map(|(rule, counts)| (rule.id.0, counts.frames)).collect()
}

#[test]
fn a_change_is_seen_at_once_and_a_load_between_batches() {
    let mut live = live("5: udp => drop");
    let mut judge = live.judge(Follows::Nothing).unwrap();
    let bytes = frame(1, 7);
    assert_eq!(decides(&mut judge, &bytes), Some(5));
    live.add(rule(3, "src ip 10.0.0.1 => take")).unwrap();
    assert_eq!(decides(&mut judge, &bytes), Some(3));
    live.add(rule(9, "src ip 10.0.0.1 dst ip 10.0.0.9 udp src port 7 dst port 53 => take"))
        .unwrap();
    assert_eq!(decides(&mut judge, &bytes), Some(9));
    assert!(live.remove(RuleId(9)) && live.remove(RuleId(3)) && !live.remove(RuleId(3)));
    assert_eq!(decides(&mut judge, &bytes), Some(5));
    live.load(set("1: any => drop\n5: udp => drop")).unwrap();
    assert_eq!(decides(&mut judge, &bytes), Some(5));
    judge.refresh();
    assert_eq!(decides(&mut judge, &bytes), Some(1));
}

#[test]
fn what_a_rule_counted_survives_changes_of_others() {
    let mut live = live("5: src ip 10.0.0.1 => drop\n6: src ip 10.0.0.2 => drop\ndefault take");
    let mut judges = [live.judge(Follows::Nothing).unwrap(), live.judge(Follows::Nothing).unwrap()];
    let each = |judges: &mut [Judge]| {
        for judge in judges {
            for from in 1..4 {
                decides(judge, &frame(from, 7));
            }
        }
    };
    each(&mut judges);
    live.load(set("5: src ip 10.0.0.1 => drop\n6: src ip 10.0.0.2 => take\ndefault take")).unwrap();
    // They still go by the old rules.
    each(&mut judges);
    assert_eq!(frames_of(&live), [(5, 4), (6, 0)]);
    judges.iter_mut().for_each(Judge::refresh);
    each(&mut judges);
    assert_eq!(frames_of(&live), [(5, 6), (6, 2)]);
    assert_eq!(live.default_counts().1.frames, 6);
    // A slot that is used again begins at 0.
    for _ in 0..3 {
        assert!(live.remove(RuleId(6)));
        judges.iter_mut().for_each(Judge::refresh);
        live.add(rule(6, "src ip 10.0.0.2 => take")).unwrap();
        judges.iter_mut().for_each(Judge::refresh);
        each(&mut judges);
        assert_eq!(frames_of(&live).last(), Some(&(6, 2)));
    }
    // A judge that ends takes nothing with it.
    drop(judges);
    live.load(set("5: src ip 10.0.0.1 => drop")).unwrap();
    assert_eq!(frames_of(&live), [(5, 12)]);
}

#[test]
fn refusals_change_nothing() {
    let mut live = live("5: udp => drop");
    let mut judge = live.judge(Follows::Nothing).unwrap();
    let exists = live.add(rule(5, "tcp => drop")).unwrap_err().to_string();
    assert!(exists.contains("rule 5 is there already"), "{exists}");
    let wrong = live.add(rule(6, "filter \"no such thing\" => drop")).unwrap_err().to_string();
    assert!(wrong.contains("rule 6"), "{wrong}");
    assert!(live.load(set("7: filter \"no such thing\" => drop")).is_err());
    judge.refresh();
    assert_eq!(decides(&mut judge, &frame(1, 7)), Some(5));
    assert_eq!(frames_of(&live), [(5, 1)]);
}

/// What a first reclaim retires waits for a second one, and a judge may be on it until its next
/// batch: a rule that no judge got needs none.
#[test]
fn a_refused_rule_frees_nothing_that_a_judge_may_look_at() {
    let mut live = live("5: udp => drop\n6: src ip 10.0.0.1 => take");
    let mut judge = live.judge(Follows::Nothing).unwrap();
    assert!(live.remove(RuleId(6)));
    judge.refresh();
    assert!(live.add(rule(7, "filter \"no such thing\" => drop")).is_err());
    assert!(!live.book.has_retired());
}

#[test]
fn a_rule_that_was_removed_after_a_load_comes_back_without_counts() {
    let mut live = live("5: udp => drop");
    let mut judge = live.judge(Follows::Nothing).unwrap();
    decides(&mut judge, &frame(1, 7));
    live.load(set("5: udp => drop")).unwrap();
    assert_eq!(frames_of(&live), [(5, 1)]);
    assert!(live.remove(RuleId(5)));
    live.add(rule(5, "udp => drop")).unwrap();
    assert_eq!(frames_of(&live), [(5, 0)]);
    judge.refresh();
    decides(&mut judge, &frame(1, 7));
    // The old rules go with this change.
    live.add(rule(6, "tcp => drop")).unwrap();
    assert_eq!(frames_of(&live), [(5, 1), (6, 0)]);
}

#[test]
fn tables_grow_where_they_are_full() {
    let mut live = live("100000: udp => drop");
    let mut judge = live.judge(Follows::Nothing).unwrap();
    let each = by_run(2_000u32, 6_000);
    for id in 0..each {
        let [a, b] = (id as u16).to_be_bytes();
        live.add(rule(id, &format!("src ip 10.{a}.{b}.0/24 => take"))).unwrap();
        judge.refresh();
    }
    for id in 10_000..10_000 + each {
        let text = format!("src ip 10.0.0.1 dst ip 10.0.0.9 tcp src port {id} dst port 9 => take");
        live.add(rule(id, &text)).unwrap();
        judge.refresh();
    }
    assert_eq!(live.len() as u32, 2 * each + 1);
    assert_eq!(decides(&mut judge, &frame(1, 7)), Some(0));
    assert!(live.fading_sets() < 2);
}

/// Payload patterns that come one by one are joined with the others when they are many.
#[test]
fn patterns_that_come_later_are_found_too() {
    let mut live = live("");
    let mut judge = live.judge(Follows::Nothing).unwrap();
    for id in 0..60u32 {
        live.add(rule(id, &format!("payload \"word-{id}-\" => drop"))).unwrap();
        let text = format!("some word-{id}- more");
        let mut bytes = frame(1, 7).to_vec();
        bytes[17] += text.len() as u8;
        bytes[39] += text.len() as u8;
        bytes.extend(text.bytes());
        assert_eq!(judge.has_findings(), id > 16);
        assert_eq!(decides(&mut judge, &bytes), Some(id));
        judge.refresh();
        assert_eq!(decides(&mut judge, &bytes), Some(id));
    }
}

#[test]
fn a_judge_that_never_looks_up_holds_up_loads_alone() {
    let mut live = live("5: udp => drop");
    let mut judge = live.judge(Follows::Nothing).unwrap();
    let refused = (0..100).map(|_| live.load(set("5: udp => drop"))).find(Result::is_err);
    assert!(matches!(refused, Some(Err(BuildError::Busy))));
    assert_eq!(decides(&mut judge, &frame(1, 7)), Some(5));
    judge.refresh();
    live.load(set("6: udp => drop")).unwrap();
}

/// Judges go on while rules come and go: each frame is judged by a rule that was there at some
/// moment of its judging, and the counts add up.
#[test]
fn frames_are_judged_by_rules_that_are_there() {
    let rounds = by_run(400, 2_000);
    // Rule 50 stays; 10 (exact) and 20 (a wildcard) come and go, and never are both away: of two
    // that overlap in time one is always there.
    let mut live = live("20: src ip 10.0.0.1 => drop\n50: udp => take");
    let mut judge = live.judge(Follows::Nothing).unwrap();
    let (is_over, judged) = (AtomicBool::new(false), AtomicU32::new(0));
    let exact = "src ip 10.0.0.1 dst ip 10.0.0.9 udp src port 7 dst port 53 => drop";
    let met = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let (bytes, other) = (frame(1, 7), frame(2, 7));
            let mut met: BTreeMap<u32, u64> = BTreeMap::new();
            while !is_over.load(Ordering::Acquire) {
                judge.refresh();
                for _ in 0..16 {
                    let by = decides(&mut judge, &bytes).unwrap();
                    assert!(by == 10 || by == 20, "{by}");
                    *met.entry(by).or_default() += 1;
                    assert_eq!(decides(&mut judge, &other), Some(50));
                    judged.fetch_add(1, Ordering::Release);
                }
            }
            met
        });
        let wait = || {
            let start = judged.load(Ordering::Acquire);
            while judged.load(Ordering::Acquire) == start && !worker.is_finished() {
                std::thread::yield_now();
            }
        };
        for _ in 0..rounds {
            live.add(rule(10, exact)).unwrap();
            assert!(live.remove(RuleId(20)));
            wait();
            live.add(rule(20, "src ip 10.0.0.1 => drop")).unwrap();
            assert!(live.remove(RuleId(10)));
            wait();
        }
        is_over.store(true, Ordering::Release);
        worker.join().unwrap()
    });
    assert!(met[&10] > 0 && met[&20] > 0, "{met:?}");
    let all = u64::from(judged.load(Ordering::Acquire));
    assert_eq!(frames_of(&live).last(), Some(&(50, all)));
}

#[derive(Clone, Debug)]
enum Step {
    Add(u32, usize),
    Remove(u32),
    Load(Vec<(u32, usize)>),
    Refresh,
}

const TEXTS: [&str; 7] = [
    "udp => drop",
    "src ip 10.0.0.1 => take",
    "src ip 10.0.0.0/30 => count",
    "src ip 10.0.0.2 dst ip 10.0.0.9 udp src port 7 dst port 53 => take",
    "dst ip 10.0.0.2 src ip 10.0.0.9 udp dst port 8 src port 53 bidir => drop",
    "port 8 length -60 => take",
    "any => count",
];

fn step() -> impl Strategy<Value = Step> {
    let one = || (0u32..12, 0..TEXTS.len());
    prop_oneof![
        6 => one().prop_map(|(id, text)| Step::Add(id, text)),
        4 => (0u32..12).prop_map(Step::Remove),
        1 => prop::collection::btree_map(0u32..12, 0..TEXTS.len(), 0..6)
            .prop_map(|rules| Step::Load(rules.into_iter().collect())),
        3 => Just(Step::Refresh),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(by_run(60, 256)))]

    /// After any changes the rules judge as a set that was made anew does.
    #[test]
    fn changed_rules_judge_as_new_ones(steps in prop::collection::vec(step(), 1..60)) {
        let mut live = live("");
        let mut judge = live.judge(Follows::Nothing).unwrap();
        let mut rules: BTreeMap<u32, usize> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Add(id, text) => {
                    let is_new = live.add(rule(id, TEXTS[text])).is_ok();
                    prop_assert_eq!(is_new, !rules.contains_key(&id));
                    rules.entry(id).or_insert(text);
                }
                Step::Remove(id) => {
                    prop_assert_eq!(live.remove(RuleId(id)), rules.remove(&id).is_some());
                }
                Step::Load(next) => {
                    judge.refresh();
                    let lines = next.iter().map(|(id, text)| format!("{id}: {}\n", TEXTS[*text]));
                    live.load(set(&lines.collect::<String>())).unwrap();
                    judge.refresh();
                    rules = next.into_iter().collect();
                }
                Step::Refresh => judge.refresh(),
            }
            let lines = rules.iter().map(|(id, text)| format!("{id}: {}\n", TEXTS[*text]));
            let mut fresh = Live::new(
                set(&lines.collect::<String>()), LinkType::ETHERNET, &COMPILER,
            ).unwrap();
            let mut reference = fresh.judge(Follows::Nothing).unwrap();
            for (from, port) in [(1, 7), (2, 7), (2, 8), (3, 8), (200, 9)] {
                let bytes = frame(from, port);
                let dissected = DissectedFrame::new(&bytes, 42, LinkType::ETHERNET);
                prop_assert_eq!(judge.judge(&dissected), reference.judge(&dissected));
            }
        }
    }
}
