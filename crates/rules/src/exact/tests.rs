use super::*;
use crate::memory::{Capacity, Layout};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

fn memory(exact: u32) -> Memory {
    Memory::heap(Layout::of(&Capacity { rules: 64, classes: 16, nodes: 2, exact })).unwrap()
}

fn key(number: u32) -> Key {
    let ports = Some((number as u16, 53));
    match number % 2 {
        0 => Key::new(Ipv4Addr::from_bits(number).into(), Ipv4Addr::LOCALHOST.into(), 17, ports),
        _ => Key::new(
            Ipv6Addr::from_bits(number.into()).into(),
            Ipv6Addr::LOCALHOST.into(),
            6,
            ports,
        ),
    }
}

fn found(table: &ExactTable, key: &Key) -> Vec<(u32, u32)> {
    table.find(key, table.hash(key)).map(|found| (found.id, found.slot)).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Add(u32, u32),
    Remove(u32, u32),
    Reclaim,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0u32..40, 0u32..5).prop_map(|(key, id)| Step::Add(key, id)),
        3 => (0u32..40, 0u32..5).prop_map(|(key, id)| Step::Remove(key, id)),
        1 => Just(Step::Reclaim),
    ]
}

proptest! {
    #[test]
    fn rules_are_found_by_their_conversation(steps in prop::collection::vec(step(), 1..300)) {
        let memory = memory(100);
        let mut editor = ExactEditor::new(&memory);
        let mut rules: BTreeMap<u32, BTreeMap<u32, u32>> = BTreeMap::new();
        for (slot, step) in (1..).zip(steps) {
            match step {
                Step::Add(number, id) if !rules.entry(number).or_default().contains_key(&id) => {
                    match editor.add(&key(number), Found { id, slot }) {
                        Ok(()) => {
                            rules.entry(number).or_default().insert(id, slot);
                        }
                        // What was removed holds room until it is reclaimed.
                        Err(full) => {
                            let there = editor.len() as usize + editor.retired();
                            prop_assert!(full == Full::Exact && there == 100);
                        }
                    }
                }
                Step::Add(..) => {}
                Step::Remove(number, id) => {
                    let was = rules.entry(number).or_default().remove(&id).is_some();
                    prop_assert_eq!(editor.remove(&key(number), id), was);
                }
                Step::Reclaim => editor.reclaim(),
            }
            for number in 0..40 {
                let expected: Vec<(u32, u32)> =
                    rules.get(&number).into_iter().flatten().map(|(a, b)| (*a, *b)).collect();
                prop_assert_eq!(found(editor.table(), &key(number)), expected);
            }
            let all: usize = rules.values().map(BTreeMap::len).sum();
            prop_assert_eq!(editor.len(), all as u64);
        }
    }
}

#[test]
fn as_many_rules_fit_as_there_is_room_for_and_room_comes_back() {
    const ROOM: u32 = 20_000;
    let memory = memory(ROOM);
    let mut editor = ExactEditor::new(&memory);
    for round in 0..3 {
        for number in 0..ROOM {
            editor.add(&key(number), Found { id: round, slot: number }).unwrap();
        }
        assert_eq!(editor.add(&key(ROOM), Found { id: 0, slot: 0 }), Err(Full::Exact));
        for number in 0..ROOM {
            assert_eq!(found(editor.table(), &key(number)), [(round, number)]);
            assert!(editor.remove(&key(number), round));
        }
        assert!(editor.is_empty());
        editor.reclaim();
    }
    // Nothing is left behind in the filter either, but for counters that were stuck.
    let left = memory.bloom.iter().filter(|word| word.load(Ordering::Relaxed) != 0).count();
    assert_eq!(left, 0);
}

/// The filter's share of false answers is what its size was chosen for.
#[test]
fn the_filter_keeps_most_strangers_out() {
    const ROOM: u32 = 20_000;
    let memory = memory(ROOM);
    let mut editor = ExactEditor::new(&memory);
    for number in 0..ROOM {
        editor.add(&key(number), Found { id: 1, slot: number }).unwrap();
    }
    let table = editor.table();
    let strangers = ROOM..ROOM + 100_000;
    let passed = strangers.filter(|&number| {
        let hash = table.hash(&key(number));
        let word = &memory.bloom[(hash >> BLOOM_SHIFT & table.bloom_mask) as usize];
        word.load(Ordering::Relaxed) & bloom_bits(hash) == bloom_bits(hash)
    });
    // 0.5 % at 16 bits a key; the size is rounded up to a power of two.
    assert!(passed.count() < 1000);
}
