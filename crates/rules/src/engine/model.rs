//! Judges, their queues of changes and the writer of rules.

mod judging;

use super::change_queue::{Change, ChangeQueue};
use super::judges::Judges;
use super::rules::Ready;
use crate::book::Slot;
use crate::language::{self, Rule, RuleId, Sets};
use crate::model::{Reuse, bounded, outcomes};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

fn rule(id: u32, text: &str) -> Rule {
    language::parse_rule(text.as_bytes(), RuleId(id), &mut Sets::none()).unwrap()
}

fn put(slot: u32) -> Change {
    let rule = std::sync::Arc::new(rule(slot, "any => drop"));
    Change::Put(Slot(slot), std::sync::Arc::new(Ready::new(&rule, None, 0)))
}

/// A queue of changes next to the tables: one rule, which is there or not, and what it leads to.
#[derive(Default)]
struct Model {
    changes: ChangeQueue,
    is_there: AtomicBool,
    /// The uses of it are to be ordered.
    memory: UnsafeCell<()>,
}

impl Model {
    fn with_rule() -> Arc<Model> {
        let model = Model::default();
        model.is_there.store(true, Ordering::Relaxed);
        Arc::new(model)
    }

    /// A batch of one frame.
    fn judge(&self) {
        if self.is_there.load(Ordering::Acquire) {
            self.memory.with(|_| ());
        }
    }

    fn refresh(&self) {
        if self.changes.has_changes() {
            self.changes.take_all(drop);
        }
    }

    /// Takes the rule out, and uses its memory again as soon as it may. True if it did.
    fn remove(&self, reuse: Reuse) -> bool {
        self.is_there.store(false, Ordering::Release);
        self.changes.post(Change::Clear(Slot(1)));
        for _ in 0..2 {
            if reuse == Reuse::AtOnce || self.changes.is_up_to_date() {
                self.memory.with_mut(|_| ());
                return true;
            }
            // The judge goes on in between: loom tries that for the yield alone, because the judge
            // loads what it stores.
            thread::yield_now();
        }
        false
    }
}

/// Runs the judge's side of a queue on a thread of its own.
fn run_judge(model: &Arc<Model>, judge: impl FnOnce(&Model) + 'static) -> thread::JoinHandle<()> {
    let model = model.clone();
    thread::spawn(move || judge(&model))
}

#[test]
fn loom_a_judge_that_meets_a_rule_finds_its_change() {
    bounded(3, || {
        let model = Arc::new(Model::default());
        let judge = run_judge(&model, |model| {
            let mut known = Vec::new();
            let mut learn = |change| match change {
                Change::Put(Slot(slot), _) => known.push(slot),
                other => panic!("{other:?}"),
            };
            if model.changes.has_changes() {
                model.changes.take_all(&mut learn);
            }
            if model.is_there.load(Ordering::Acquire) {
                model.changes.take_until(Slot(1), &mut learn);
                assert!(known.contains(&1), "{known:?}");
            }
        });
        model.changes.post(put(1));
        model.is_there.store(true, Ordering::Release);
        model.changes.post(put(2));
        judge.join().unwrap();
    });
}

fn memory_is_used_again(reuse: Reuse) {
    outcomes(3, [false, true], move || {
        let model = Model::with_rule();
        let judge = run_judge(&model, |model| {
            for _ in 0..2 {
                model.refresh();
                model.judge();
            }
        });
        let is_reused = model.remove(reuse);
        judge.join().unwrap();
        is_reused
    });
}

#[test]
fn loom_memory_is_used_again_when_a_batch_has_begun_since() {
    memory_is_used_again(Reuse::Waits);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_the_model_sees_memory_that_is_used_again_at_once() {
    memory_is_used_again(Reuse::AtOnce);
}

/// What is taken in the middle of a batch does not make a judge up to date.
#[test]
fn loom_changes_in_the_middle_of_a_batch_are_no_new_batch() {
    outcomes(3, [false], || {
        let model = Model::with_rule();
        let judge = run_judge(&model, |model| {
            model.changes.take_until(Slot(1), drop);
            model.judge();
        });
        let is_reused = model.remove(Reuse::Waits);
        judge.join().unwrap();
        assert!(!model.changes.is_up_to_date());
        model.refresh();
        assert!(model.changes.is_up_to_date());
        is_reused
    });
}

#[test]
fn loom_a_judge_that_ends_delays_no_writer_and_leaves_no_changes() {
    outcomes(3, [false, true], || {
        let model = Model::with_rule();
        let judge = run_judge(&model, |model| {
            model.judge();
            model.changes.close();
        });
        let is_reused = model.remove(Reuse::Waits);
        judge.join().unwrap();
        assert!(model.changes.is_up_to_date());
        model.changes.take_all(|change| panic!("left behind: {change:?}"));
        is_reused
    });
}
