//! Exact rules that come and go under a reader.

use super::*;
use crate::model::{Reuse, memory, outcomes};
use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::thread;
use std::net::Ipv4Addr;

fn key(port: u16) -> Key {
    Key::new(Ipv4Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into(), 17, Some((port, 53)))
}

/// The conversation that is asked about.
fn ours() -> Key {
    key(0)
}

/// Another, with some of its bits in the Bloom filter and some others.
fn other() -> Key {
    let bits = |key: &Key| bloom_bits(key.hash(0));
    let shares = |key: &Key| bits(key) & bits(&ours()) != 0 && bits(key) & !bits(&ours()) != 0;
    (1..).map(key).find(shares).unwrap()
}

fn ids(table: &ExactTable, key: &Key) -> Vec<u32> {
    table.find(key, table.hash(key)).map(|found| found.id).collect()
}

fn editor(rules: &[(Key, u32)]) -> ExactEditor {
    let mut editor = ExactEditor::new(&memory());
    rules.iter().for_each(|(key, id)| add(&mut editor, key, *id));
    editor
}

fn add(editor: &mut ExactEditor, key: &Key, id: u32) {
    editor.add(key, Found { id, slot: id }).unwrap();
}

/// What a reader finds of our conversation while `change` goes on is one of `expected`.
fn while_changing(
    rules: fn() -> Vec<(Key, u32)>,
    change: fn(&mut ExactEditor),
    expected: &'static [&'static [u32]],
) {
    outcomes(3, expected.iter().map(|ids| ids.to_vec()), move || {
        let mut editor = editor(&rules());
        let table = editor.table().clone();
        let reader = thread::spawn(move || ids(&table, &ours()));
        change(&mut editor);
        reader.join().unwrap()
    });
}

#[test]
fn loom_a_rule_of_another_conversation_is_not_found_in_the_same_place() {
    while_changing(
        || vec![(ours(), 1)],
        |editor| {
            assert!(editor.remove(&ours(), 1));
            add(editor, &other(), 2);
        },
        &[&[], &[1]],
    );
}

#[test]
fn loom_a_rule_that_comes_is_seen_whole_or_not_at_all() {
    while_changing(Vec::new, |editor| add(editor, &ours(), 7), &[&[], &[7]]);
}

#[test]
fn loom_a_rule_that_stays_is_found_next_to_others() {
    while_changing(
        || vec![(other(), 1), (ours(), 5)],
        |editor| {
            assert!(editor.remove(&other(), 1));
            add(editor, &ours(), 3);
            assert!(editor.remove(&ours(), 3));
        },
        &[&[5], &[3, 5]],
    );
    while_changing(
        || vec![(ours(), 3), (ours(), 5)],
        |editor| {
            assert!(editor.remove(&ours(), 3));
            add(editor, &ours(), 7);
        },
        &[&[5], &[3, 5], &[5, 7], &[3, 5, 7]],
    );
}

#[test]
fn loom_a_rule_or_the_one_that_replaces_it_is_found() {
    while_changing(
        || vec![(ours(), 1)],
        |editor| {
            add(editor, &ours(), 2);
            assert!(editor.remove(&ours(), 1));
        },
        &[&[1], &[1, 2], &[2]],
    );
    while_changing(
        || vec![(ours(), 2)],
        |editor| {
            add(editor, &ours(), 1);
            assert!(editor.remove(&ours(), 2));
        },
        &[&[1], &[1, 2], &[2]],
    );
}

/// A flow goes to another conversation while a reader may be on it, or not.
fn a_flow_is_used_again(reuse: Reuse) {
    let expected = [(vec![], false), (vec![], true), (vec![1], false), (vec![1], true)];
    outcomes(3, expected, move || {
        let mut editor = editor(&[(ours(), 1)]);
        let table = editor.table().clone();
        let is_done = Arc::new(AtomicBool::new(false));
        let reader = {
            let is_done = is_done.clone();
            thread::spawn(move || {
                let found = ids(&table, &ours());
                is_done.store(true, Ordering::Release);
                found
            })
        };
        assert!(editor.remove(&ours(), 1));
        if reuse == Reuse::AtOnce || is_done.load(Ordering::Acquire) {
            editor.reclaim();
        }
        let used = editor.used;
        add(&mut editor, &other(), 2);
        (reader.join().unwrap(), editor.used == used)
    });
}

#[test]
fn loom_a_flow_is_used_again_when_no_reader_is_on_it() {
    a_flow_is_used_again(Reuse::Waits);
}

#[test]
#[should_panic(expected = "[2]")]
fn loom_the_model_sees_a_flow_that_is_used_again_at_once() {
    a_flow_is_used_again(Reuse::AtOnce);
}
