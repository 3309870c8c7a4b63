use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::AtomicBool;

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
        Just(None),
        (v4(), v4()).prop_map(|(a, b)| Some((a.into(), b.into()))),
        (v6(), v6()).prop_map(|(a, b)| Some((a.into(), b.into()))),
    ];
    let ports = prop::option::of((0u16..32, 0u16..32));
    (addresses, ports, prop::option::of(0u8..32)).prop_map(|(addresses, ports, protocol)| Key {
        addresses,
        ports,
        protocol,
    })
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

const SMALL: Capacity = Capacity { rules: 4096, classes: 300, nodes: 200 };

proptest! {
    #[test]
    fn the_table_says_what_each_rule_says(
        steps in prop::collection::vec(step(), 1..60),
        keys in prop::collection::vec(key(), 1..40),
    ) {
        let mut table = Editor::new(SMALL).unwrap();
        let mut rules: BTreeMap<u32, (Bit, Cube)> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Add(number, _) if rules.contains_key(&number) => {}
                Step::Add(number, cube) => match table.add(number, cube.clone()) {
                    Ok(bit) => {
                        rules.insert(number, (bit, cube));
                    }
                    Err(full) => prop_assert!(full != Full::Rules),
                },
                Step::Remove(number) => {
                    let bit = rules.remove(&number).map(|(bit, _)| bit);
                    prop_assert_eq!(table.remove(number), bit);
                    prop_assert_eq!(table.remove(number), None);
                }
                Step::Reclaim => table.reclaim(),
            }
            for key in &keys {
                let expected: Vec<(u32, Bit)> = rules
                    .iter()
                    .filter(|(_, (_, cube))| cube.accepts(key))
                    .map(|(&number, &(bit, _))| (number, bit))
                    .collect();
                let found: Vec<(u32, Bit)> = table.table().matches(key).collect();
                prop_assert_eq!(found, expected, "{:?}", key);
            }
        }
        // Everything comes back.
        for &number in rules.keys() {
            table.remove(number);
        }
        table.reclaim();
        table.reclaim();
        prop_assert!(table.is_empty() && table.retired() == 0);
        let mut fresh = Editor::new(SMALL).unwrap();
        for count in 0.. {
            let prefix = AddressPrefix {
                space: Space::V6,
                bits: (count as u128) << 60,
                length: 70,
            };
            let cube = Cube { sources: vec![prefix], ..Cube::any() };
            let results = (table.add(count, cube.clone()), fresh.add(count, cube));
            prop_assert_eq!(results.0.map(|_| ()), results.1.map(|_| ()), "after {}", count);
            if results.1.is_err() {
                break;
            }
        }
    }
}

#[test]
fn rules_between_others_find_room_until_their_word_is_full() {
    let mut table = Editor::new(Capacity { rules: 4096, ..SMALL }).unwrap();
    for number in 0..1000 {
        table.add(number * 1000, Cube::any()).unwrap();
    }
    let full = (1..1000).map(|more| table.add(5000 + more, Cube::any())).find(Result::is_err);
    assert_eq!(full, Some(Err(Full::Order)));
    let key = Key { addresses: None, ports: None, protocol: None };
    let numbers: Vec<u32> = table.table().matches(&key).map(|(number, _)| number).collect();
    assert!(numbers.is_sorted() && numbers.len() == table.len() && table.len() > 1010);
    // Where one goes another comes, once nobody can be looking.
    table.remove(5001).unwrap();
    assert_eq!(table.add(5001, Cube::any()), Err(Full::Order));
    table.reclaim();
    table.add(5001, Cube::any()).unwrap();
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
    const CHANGES: u32 = 3000;
    let mut editor = Editor::new(SMALL).unwrap();
    for number in 0..20 {
        editor.add(number * 100, one(number, number)).unwrap();
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
                    let key = Key {
                        addresses: Some((source, source)),
                        ports: Some((7, number as u16)),
                        protocol: Some(17),
                    };
                    let numbers: Vec<u32> = table.matches(&key).map(|(found, _)| found).collect();
                    assert!(numbers.contains(&(number * 100)), "{numbers:?}");
                    let accept = |found: &u32| found / 100 == number || found % 100 == 99;
                    assert!(numbers.iter().all(accept), "{number}: {numbers:?}");
                    met += numbers.len() as u32 - 1;
                }
            }
            met
        });
        for change in 1..=CHANGES {
            // Half of the changing rules accept all, half one address that others have too.
            let place = change % 20;
            let (rule, cube) = match change % 2 {
                0 => (place * 100 + 99, Cube::any()),
                _ => (place * 100 + 1 + change % 50, one(place, place)),
            };
            editor.add(rule, cube).unwrap();
            editor.remove(rule).unwrap();
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
