//! Wildcard rules that come and go under a reader.

use super::*;
use crate::key::Key;
use crate::model::{Reuse, memory, outcomes};
use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::thread;
use std::net::Ipv4Addr;

/// Stays: it accepts everything.
const STAYS: u32 = 90;

/// A packet from an address that begins with these bits, and from one of few ports.
fn key(address: u8, port: u16) -> Key {
    let source = Ipv4Addr::new(address, 0, 0, 0);
    Key::new(source.into(), Ipv4Addr::LOCALHOST.into(), 17, Some((port, 0)))
}

fn ports(first: u32, last: u32) -> Cube {
    Cube { source_ports: vec![Span { first, last }], ..Cube::any() }
}

fn addresses(bits: u8, length: u8) -> Cube {
    let prefix = AddressPrefix { space: Space::V4, bits: u128::from(bits) << 120, length };
    Cube { sources: vec![prefix], ..Cube::any() }
}

fn add(editor: &mut Editor, id: u32, cube: Cube) {
    editor.add(Number { id, part: 0 }, id, cube).unwrap();
}

fn remove(editor: &mut Editor, id: u32) {
    assert!(editor.remove(Number { id, part: 0 }));
}

fn editor(rules: &[(u32, Cube)]) -> Editor {
    let mut editor = Editor::new(&memory()).unwrap();
    rules.iter().for_each(|(id, cube)| add(&mut editor, *id, cube.clone()));
    editor
}

fn ids(table: &Table, key: &Key) -> Vec<u32> {
    table.matches(key).map(|found| found.id).collect()
}

/// A reader's look: what it found, or none if a change ended in the middle and it is one that then
/// looks again.
fn look(table: &Table, memory: &Memory, key: &Key, looks_again: bool) -> Option<Vec<u32>> {
    let changes = memory.get(Control::Changes);
    let found = ids(table, key);
    (!looks_again || memory.get(Control::Changes) == changes).then_some(found)
}

/// What a reader finds of a packet while `change` goes on is one of `expected`.
fn while_changing(
    looks_again: bool,
    rules: fn() -> Vec<(u32, Cube)>,
    change: fn(&mut Editor),
    key: fn() -> Key,
    expected: &'static [&'static [u32]],
) {
    let mut all: Vec<_> = expected.iter().map(|ids| Some(ids.to_vec())).collect();
    all.extend(looks_again.then_some(None));
    outcomes(2, all, move || {
        let mut editor = editor(&rules());
        let (table, memory) = (editor.table().clone(), editor.memory.clone());
        let reader = thread::spawn(move || look(&table, &memory, &key(), looks_again));
        change(&mut editor);
        reader.join().unwrap()
    });
}

fn one_stays() -> Vec<(u32, Cube)> {
    vec![(STAYS, Cube::any())]
}

#[test]
fn loom_a_rule_of_ports_is_found_by_its_packets_alone() {
    let change: fn(&mut Editor) = |editor| add(editor, 1, ports(0, 1));
    while_changing(false, one_stays, change, || key(0, 1), &[&[STAYS], &[1, STAYS]]);
    while_changing(false, one_stays, change, || key(0, 2), &[&[STAYS]]);
    let change: fn(&mut Editor) = |editor| add(editor, 1, ports(1, 1));
    while_changing(false, one_stays, change, || key(0, 0), &[&[STAYS]]);
    while_changing(false, one_stays, change, || key(0, 1), &[&[STAYS], &[1, STAYS]]);
    while_changing(false, one_stays, change, || key(0, 2), &[&[STAYS]]);
}

#[test]
fn loom_a_rule_of_addresses_is_found_by_its_packets_alone() {
    let change: fn(&mut Editor) = |editor| add(editor, 1, addresses(0b1010_0000, 3));
    while_changing(false, one_stays, change, || key(0b1010_0000, 0), &[&[STAYS], &[1, STAYS]]);
    while_changing(false, one_stays, change, || key(0b1000_0000, 0), &[&[STAYS]]);
    // The root leads to its class.
    let change: fn(&mut Editor) = |editor| add(editor, 1, addresses(0b1000_0000, 1));
    while_changing(false, one_stays, change, || key(0b1000_0000, 0), &[&[STAYS], &[1, STAYS]]);
    while_changing(false, one_stays, change, || key(0, 0), &[&[STAYS]]);
}

/// Two rules come, of which a packet of port 2 matches the first.
fn two_come(looks_again: bool) {
    while_changing(
        looks_again,
        one_stays,
        |editor| {
            add(editor, 2, ports(2, 3));
            add(editor, 1, ports(0, 1));
        },
        || key(0, 2),
        &[&[STAYS], &[2, STAYS]],
    );
}

#[test]
fn loom_rules_that_come_are_seen_by_a_reader_that_looks_again() {
    two_come(true);
}

/// A reader that took its class before the first change may take it for what it is after.
#[test]
#[should_panic(expected = "[1, ")]
fn loom_the_model_sees_a_reader_that_does_not_look_again() {
    two_come(false);
}

#[test]
fn loom_a_rule_that_goes_is_seen_whole_or_not_at_all() {
    while_changing(
        false,
        || vec![(1, addresses(0b1010_0000, 3)), (STAYS, Cube::any())],
        |editor| remove(editor, 1),
        || key(0b1010_0000, 0),
        &[&[STAYS], &[1, STAYS]],
    );
}

/// Whether the writer may use again what a reader was looking at.
struct Turn {
    reuse: Reuse,
    is_done: Arc<AtomicBool>,
}

impl Turn {
    fn is_writers(&self) -> bool {
        self.reuse == Reuse::AtOnce || self.is_done.load(Ordering::Acquire)
    }
}

/// What a reader finds while a writer uses memory again is one of `expected`.
fn used_again(
    reuse: Reuse,
    start: fn() -> Editor,
    change: fn(&mut Editor, &Turn),
    key: fn() -> Key,
    expected: &'static [&'static [u32]],
) {
    outcomes(2, expected.iter().map(|ids| ids.to_vec()), move || {
        let mut editor = start();
        let table = editor.table().clone();
        let turn = Turn { reuse, is_done: Arc::new(AtomicBool::new(false)) };
        let is_done = turn.is_done.clone();
        let reader = thread::spawn(move || {
            let found = ids(&table, &key());
            is_done.store(true, Ordering::Release);
            found
        });
        change(&mut editor, &turn);
        reader.join().unwrap()
    });
}

/// A rule goes, and its bit goes to one that other packets match.
fn a_bit_is_used_again(reuse: Reuse) {
    used_again(
        reuse,
        || editor(&[(1, ports(0, 0)), (STAYS, Cube::any())]),
        |editor, turn| {
            remove(editor, 1);
            if turn.is_writers() {
                editor.reclaim();
            }
            add(editor, 2, ports(1, 1));
        },
        || key(0, 0),
        &[&[STAYS], &[1, STAYS]],
    );
}

#[test]
fn loom_a_bit_is_used_again_when_no_reader_looks_at_it() {
    a_bit_is_used_again(Reuse::Waits);
}

#[test]
#[should_panic(expected = "[2, 90]")]
fn loom_the_model_sees_a_bit_that_is_used_again_at_once() {
    a_bit_is_used_again(Reuse::AtOnce);
}

/// A class and a node of the trie go with a rule: a first reclaim takes the rule's bits away, and
/// the reader, which has begun after the rule went, may be on what led to them until the second.
fn a_node_is_used_again(reuse: Reuse) {
    used_again(
        reuse,
        || {
            let mut editor = editor(&[(1, addresses(0b1010_0000, 3)), (STAYS, Cube::any())]);
            remove(&mut editor, 1);
            editor
        },
        |editor, turn| {
            editor.reclaim();
            if turn.is_writers() {
                editor.reclaim();
            }
            add(editor, 2, addresses(0b0110_0000, 3));
        },
        || key(0b1010_0000, 0),
        &[&[STAYS]],
    );
}

#[test]
fn loom_a_node_is_used_again_when_no_reader_is_on_it() {
    a_node_is_used_again(Reuse::Waits);
}

#[test]
#[should_panic(expected = "[2, 90]")]
fn loom_the_model_sees_a_node_that_is_used_again_at_once() {
    a_node_is_used_again(Reuse::AtOnce);
}
