//! A judge at work while rules replace each other: a frame is judged by one of two, never by
//! neither, and never by one that does not accept it.

use super::*;
use crate::book::Book;
use crate::engine::Follows;
use crate::engine::judge::Judge;
use crate::engine::rules::RulesAtWork;
use crate::language::Verdict;
use crate::model::memory;
use ringside_core::LinkType;
use ringside_filter::Compiler;
use ringside_inspect::DissectedFrame;

/// The rule of the frame's conversation.
const EXACT: &str = "src ip 10.0.0.1 dst ip 10.0.0.9 udp src port 7 dst port 53";
const OTHERS: &str = "any";

/// What judges share, and their writer.
struct Writer {
    book: Book<Judges>,
    rules: RulesAtWork,
}

impl Writer {
    fn new(rules: &[Rule]) -> Writer {
        let memory = memory();
        let judges = Judges::new(LinkType::ETHERNET, Compiler::InProcess { optimise: true });
        let book = Book::new(&memory, judges).unwrap();
        let mut writer = Writer { book, rules: RulesAtWork::of(&memory, Verdict::Pass) };
        for rule in rules {
            writer.add(rule);
        }
        writer
    }

    fn new_judge(&mut self) -> Judge {
        self.book.store_mut().add(&self.rules, Follows::Nothing).unwrap()
    }

    fn add(&mut self, rule: &Rule) -> Slot {
        self.book.add(std::sync::Arc::new(rule.clone())).unwrap()
    }

    fn remove(&mut self, id: u32) {
        self.book.remove(RuleId(id)).unwrap();
    }
}

/// UDP from 10.0.0.1, port 7, to 10.0.0.9, port 53.
fn frame() -> [u8; 42] {
    let mut bytes = [0; 42];
    bytes[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17]);
    bytes[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 9]);
    bytes[34..40].copy_from_slice(&[0, 7, 0, 53, 0, 8]);
    bytes
}

fn decides(judge: &mut Judge) -> Option<u32> {
    let bytes = frame();
    let dissected = DissectedFrame::new(&bytes, bytes.len() as u32, LinkType::ETHERNET);
    judge.judge(&dissected).decided_by.map(|id| id.0)
}

/// Judges a frame while rules `come` and then rule 20 goes: it is 20 that decides, or `heir`.
fn replaced(first: &[(u32, &str, &str)], come: &[(u32, &str, &str)], heir: u32) {
    let rules = |rules: &[(u32, &str, &str)]| -> Vec<Rule> {
        let of = |(id, matches, actions): &(u32, &str, &str)| {
            rule(*id, &format!("{matches} => {actions}"))
        };
        rules.iter().map(of).collect()
    };
    let (first, come) = (rules(first), rules(come));
    // With two preemptions two more changes would take hours, and add none to what loads may see.
    let preemptions = if come.len() > 1 { 1 } else { 2 };
    outcomes(preemptions, [Some(20), Some(heir)], move || {
        let mut writer = Writer::new(&first);
        let mut judge = writer.new_judge();
        let judge = thread::spawn(move || decides(&mut judge));
        for rule in &come {
            writer.add(rule);
        }
        writer.remove(20);
        judge.join().unwrap()
    });
}

#[test]
fn loom_a_rule_or_the_one_that_replaces_it_judges() {
    replaced(&[(20, OTHERS, "drop")], &[(10, EXACT, "drop")], 10);
    replaced(&[(20, EXACT, "drop")], &[(10, OTHERS, "drop")], 10);
    replaced(&[(20, OTHERS, "drop")], &[(10, OTHERS, "drop")], 10);
}

/// The change that adds it is in the queue before the one that removes the other.
#[test]
fn loom_a_rule_that_goes_judges_next_to_one_that_has_just_come() {
    let before = (1, "length -20", "take");
    replaced(&[(20, OTHERS, "drop")], &[before, (30, OTHERS, "drop")], 30);
}

#[test]
fn loom_a_rule_or_the_one_that_replaces_it_judges_behind_one_that_goes_on() {
    let first = (5, EXACT, "count");
    replaced(&[first, (20, OTHERS, "drop")], &[(10, EXACT, "drop")], 10);
    replaced(&[first, (20, EXACT, "drop")], &[(3, EXACT, "drop")], 3);
}

#[test]
fn loom_a_rule_or_the_one_that_replaces_it_judges_behind_many() {
    let many = [1, 2, 3, 4, 5].map(|id| (id, OTHERS, "count"));
    let first: Vec<_> = many.into_iter().chain([(20, OTHERS, "drop")]).collect();
    replaced(&first, &[(10, EXACT, "drop")], 10);
}

/// Also of frames that meet it before the writer has done.
#[test]
fn loom_a_rule_in_the_slot_of_another_counts_its_own_frames_alone() {
    outcomes(2, [0, 1], || {
        let mut writer = Writer::new(&[rule(20, &format!("{EXACT} => drop"))]);
        let mut judge = writer.new_judge();
        assert_eq!(decides(&mut judge), Some(20));
        writer.remove(20);
        judge.refresh();
        writer.book.reclaim();
        let judge = thread::spawn(move || decides(&mut judge));
        let slot = writer.add(&rule(30, &format!("{OTHERS} => drop")));
        let met = u64::from(judge.join().unwrap() == Some(30));
        assert_eq!((slot, writer.book.store().counts(slot).frames), (Slot(0), met));
        met
    });
}
