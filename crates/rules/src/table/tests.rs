use super::*;
use crate::key::Key;
use crate::memory::{Capacity, Layout};
use proptest::prelude::*;
use ringside_testkit::by_run;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU32};

/// Few bits vary, so that prefixes contain each other and packets hit them.
fn v4() -> impl Strategy<Value = Ipv4Addr> {
    (0u32..8, 0u32..4, 0u32..8).prop_map(|(a, b, c)| Ipv4Addr::from_bits(a << 29 | b << 15 | c))
}

fn v6() -> impl Strategy<Value = Ipv6Addr> {
    (0u128..4, 0u128..4, 0u128..4).prop_map(|(a, b, c)| Ipv6Addr::from_bits(a << 126 | b << 63 | c))
}

fn prefix() -> impl Strategy<Value = AddressPrefix> {
    let four = (v4(), prop_oneof![0u8..=32, Just(0), Just(16), Just(24), Just(32)]);
    let six = (v6(), prop_oneof![0u8..=128, Just(0), Just(16), Just(64), Just(128)]);
    let of = |address: IpAddr, length: u8| {
        let (space, bits) = prefixes::bits_of(Some(address));
        let mask = !u128::MAX.checked_shr(length.into()).unwrap_or(0);
        AddressPrefix { space, bits: bits & mask, length }
    };
    prop_oneof![
        four.prop_map(move |(address, length)| of(address.into(), length)),
        six.prop_map(move |(address, length)| of(address.into(), length)),
        Just(AddressPrefix::ANY[2]),
    ]
}

fn prefixes_of() -> impl Strategy<Value = Vec<AddressPrefix>> {
    prop_oneof![Just(AddressPrefix::ANY.to_vec()), prefix().prop_map(|one| vec![one]),]
}

fn span(last: u32) -> impl Strategy<Value = Vec<Span>> {
    let all = vec![Span { first: 0, last }];
    prop_oneof![
        Just(all),
        (0u32..20, 0u32..10).prop_map(|(first, more)| vec![Span { first, last: first + more }]),
        Just(vec![Span { first: last, last }]),
        (0u32..6, 10u32..20).prop_map(|(low, high)| vec![
            Span { first: low, last: low },
            Span { first: high, last: high + 2 },
        ]),
    ]
}

fn cube() -> impl Strategy<Value = Cube> {
    (prefixes_of(), prefixes_of(), span(NO_PORT), span(NO_PORT), span(NO_PROTOCOL)).prop_map(
        |(sources, destinations, source_ports, destination_ports, protocols)| Cube {
            sources,
            destinations,
            source_ports,
            destination_ports,
            protocols,
        },
    )
}

fn key() -> impl Strategy<Value = Key> {
    let addresses = prop_oneof![
        (v4(), v4()).prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
        (v6(), v6()).prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
    ];
    let ports = prop::option::of((0u16..32, 0u16..32));
    let ip = (addresses, 0u8..32, ports);
    prop_oneof![
        1 => Just(Key::NOT_IP),
        4 => ip.prop_map(|((source, destination), protocol, ports)| {
            Key::new(source, destination, protocol, ports)
        }),
    ]
}

fn editor(capacity: Capacity) -> Editor {
    Editor::new(&Memory::heap(Layout::of(&capacity)).unwrap()).unwrap()
}

/// A rule of one part, with its id for a slot.
fn add(editor: &mut Editor, id: u32, cube: Cube) -> Result<(), Full> {
    editor.add(Number { id, part: 0 }, id, cube)
}

fn remove(editor: &mut Editor, id: u32) -> bool {
    editor.remove(Number { id, part: 0 })
}

fn ids(table: &Table, key: &Key) -> Vec<u32> {
    let found: Vec<Found> = table.matches(key).collect();
    assert!(found.iter().all(|found| found.id == found.slot));
    found.into_iter().map(|found| found.id).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Add(u32, Cube),
    Remove(u32),
    Reclaim,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u32..200, cube()).prop_map(|(number, cube)| Step::Add(number, cube)),
        3 => (0u32..200).prop_map(Step::Remove),
        1 => Just(Step::Reclaim),
    ]
}

const SMALL: Capacity = Capacity { rules: 4096, classes: 300, nodes: 200, exact: 0 };

proptest! {
    #[test]
    fn the_table_says_what_each_rule_says(
        steps in prop::collection::vec(step(), 1..60),
        keys in prop::collection::vec(key(), 1..40),
    ) {
        let mut table = editor(SMALL);
        let mut rules: BTreeMap<u32, Cube> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Add(number, _) if rules.contains_key(&number) => {}
                Step::Add(number, cube) => match add(&mut table, number, cube.clone()) {
                    Ok(()) => {
                        rules.insert(number, cube);
                    }
                    Err(full) => prop_assert!(full != Full::Rules),
                },
                Step::Remove(number) => {
                    let is_there = rules.remove(&number).is_some();
                    prop_assert_eq!(remove(&mut table, number), is_there);
                    prop_assert!(!remove(&mut table, number));
                }
                Step::Reclaim => table.reclaim(),
            }
            for key in &keys {
                let accept = rules.iter().filter(|(_, cube)| cube.accepts(key));
                let expected: Vec<u32> = accept.map(|(&number, _)| number).collect();
                prop_assert_eq!(ids(table.table(), key), expected, "{:?}", key);
            }
        }
        // Everything comes back.
        for &number in rules.keys() {
            remove(&mut table, number);
        }
        table.reclaim();
        table.reclaim();
        prop_assert!(table.is_empty() && table.retired() == 0);
        let mut fresh = editor(SMALL);
        for count in 0.. {
            let prefix = AddressPrefix {
                space: Space::V6,
                bits: (count as u128) << 60,
                length: 70,
            };
            let cube = Cube { sources: vec![prefix], ..Cube::any() };
            let results = (add(&mut table, count, cube.clone()), add(&mut fresh, count, cube));
            prop_assert_eq!(results.0, results.1, "after {}", count);
            if results.1.is_err() {
                break;
            }
        }
    }
}

#[test]
fn rules_between_others_find_room_until_their_word_is_full() {
    let mut table = editor(SMALL);
    for number in 0..1000 {
        add(&mut table, number * 1000, Cube::any()).unwrap();
    }
    let mut full = (1..1000).map(|more| add(&mut table, 5000 + more, Cube::any()));
    let full = full.find(Result::is_err);
    assert_eq!(full, Some(Err(Full::Order)));
    let numbers = ids(table.table(), &Key::NOT_IP);
    assert!(numbers.is_sorted() && numbers.len() == table.len() && table.len() > 1010);
    // Where one goes another comes, once no reader can be looking.
    assert!(remove(&mut table, 5001));
    assert_eq!(add(&mut table, 5001, Cube::any()), Err(Full::Order));
    table.reclaim();
    add(&mut table, 5001, Cube::any()).unwrap();
}

/// A rule for one address and port.
fn one(address: u32, port: u32) -> Cube {
    let (space, bits) = prefixes::bits_of(Some(Ipv4Addr::from_bits(address).into()));
    Cube {
        sources: vec![AddressPrefix { space, bits, length: 32 }],
        destination_ports: vec![Span { first: port, last: port }],
        ..Cube::any()
    }
}

/// Rules come and go under a reader: it never misses one that stays, and never sees one that does
/// not accept the packet, although bits, classes and nodes are used again all the time.
#[test]
fn a_reader_sees_each_rule_whole_or_not_at_all() {
    let changes = by_run(800, 3_000);
    let mut editor = editor(SMALL);
    for number in 0..20 {
        add(&mut editor, number * 100, one(number, number)).unwrap();
    }
    let table = editor.table().clone();
    let (asked, seen) = (AtomicU32::new(0), AtomicU32::new(0));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut met = 0u32;
            while !is_over.load(Ordering::Acquire) {
                // What was removed before this was asked is not looked at from here on.
                seen.store(asked.load(Ordering::Acquire), Ordering::Release);
                for number in 0..20 {
                    let source = Ipv4Addr::from_bits(number).into();
                    let key = Key::new(source, source, 17, Some((7, number as u16)));
                    let numbers = ids(&table, &key);
                    assert!(numbers.contains(&(number * 100)), "{numbers:?}");
                    let accept = |found: &u32| found / 100 == number || found % 100 == 99;
                    assert!(numbers.iter().all(accept), "{number}: {numbers:?}");
                    met += numbers.len() as u32 - 1;
                }
            }
            met
        });
        for change in 1..=changes {
            // Half of the changing rules accept all, half one address that others have too.
            let place = change % 20;
            let (rule, cube) = match change % 2 {
                0 => (place * 100 + 99, Cube::any()),
                _ => (place * 100 + 1 + change % 50, one(place, place)),
            };
            add(&mut editor, rule, cube).unwrap();
            assert!(remove(&mut editor, rule));
            asked.store(change, Ordering::Release);
            while seen.load(Ordering::Acquire) < change && !reader.is_finished() {
                std::thread::yield_now();
            }
            editor.reclaim();
        }
        is_over.store(true, Ordering::Release);
        reader.join().unwrap();
    });
}
