use super::*;
use crate::names::tests::record;
use ringside_testkit::Random;
use std::collections::BTreeMap;

fn fields(names: &str) -> Vec<Field> {
    names.split(',').map(|name| name.parse().unwrap()).collect()
}

/// A record of some packets between two of a few hosts.
fn random_record(random: &mut Random) -> Record {
    let mut record = record();
    record.source = [10, 0, random.below(3) as u8, random.below(4) as u8].into();
    record.destination_port = random.below(3) as u16;
    record.part = 1 + random.below(2) as u16;
    record.forward.packets = random.below(1000) as u64;
    record.reverse.octets = random.below(100_000) as u64;
    record
}

#[test]
fn groups_are_what_a_map_of_their_texts_adds_up_to() {
    let mut random = Random::new(1);
    let fields = fields("src/24,dst_port");
    let (mut one, mut two) = (Groups::new(fields.clone()), Groups::new(fields));
    let mut model: BTreeMap<(String, u16), GroupSums> = BTreeMap::new();
    for number in 0..2000 {
        let record = random_record(&mut random);
        if number % 3 == 0 {
            two.add(&record)
        } else {
            one.add(&record)
        }
        let network = match record.source {
            std::net::IpAddr::V4(address) => format!("10.0.{}.0/24", address.octets()[2]),
            std::net::IpAddr::V6(_) => unreachable!(),
        };
        *model.entry((network, record.destination_port)).or_default() += GroupSums::of(&record);
    }
    for rank in Rank::ALL {
        let mut expected: Vec<_> = model.iter().collect();
        expected.sort_by_key(|(_, sums)| std::cmp::Reverse(rank.of(sums)));
        for count in [0, 1, 4, model.len(), 100] {
            let top = one.top(Some(&two), rank, count);
            assert_eq!((top.count, top.is_full), (model.len(), false));
            let shown: Vec<_> = top.groups.iter().map(|group| group.sums).collect();
            let largest: Vec<_> = expected.iter().take(count).map(|(_, sums)| **sums).collect();
            assert_eq!(shown, largest, "{rank:?}");
            for group in &top.groups {
                let text: Vec<_> = group.cells.iter().map(|cell| cell.text(&[])).collect();
                let key = (text[0].clone(), text[1].parse().unwrap());
                assert_eq!(model[&key], group.sums);
            }
            let mut all = top.others;
            top.groups.iter().for_each(|group| all += group.sums);
            assert_eq!(all, top.total);
        }
    }
}

#[test]
fn groups_beyond_the_limit_are_added_up_together() {
    let mut groups = Groups::new(fields("flow_id"));
    for number in 0..GROUPS_MAX as u64 + 10 {
        groups.add(&Record { flow_id: number, part: 1, ..record() });
    }
    let top = groups.top(None, Rank::Flows, 5);
    assert_eq!((top.groups.len(), top.count, top.is_full), (5, GROUPS_MAX, true));
    assert_eq!(top.total.flows, GROUPS_MAX as u64 + 10);
    assert_eq!(top.others.flows, top.total.flows - 5);
}

#[test]
fn fields_are_read_as_they_are_written() {
    let record = record();
    for (text, value) in [
        ("src/24", "128.232.110.0/24"),
        ("src/0", "0.0.0.0/0"),
        ("src/32", "128.232.110.120/32"),
        ("dst/64", "66.35.250.204/32"),
        ("protocol", "tcp"),
        ("dst_port", "80"),
        ("application", "http"),
        ("tunnel", ""),
        ("interface", "eth9"),
        ("vlan", "7"),
        ("end", "end"),
    ] {
        let interfaces = ["", "", "", "eth9"].map(String::from);
        let cell = text.parse::<Field>().unwrap().cell(&record);
        assert_eq!(cell.text(&interfaces), value, "{text}");
    }
    let v6 = Record { source: "2001:db8:1:2::3".parse().unwrap(), ..record };
    for (text, value) in [("src/48", "2001:db8:1::/48"), ("src/128", "2001:db8:1:2::3/128")] {
        assert_eq!(text.parse::<Field>().unwrap().cell(&v6).to_string(), value);
    }
    for wrong in ["", "sorce", "src/129", "src/x", "dst_port/3", "src/", "src/-1"] {
        let error = wrong.parse::<Field>().unwrap_err().to_string();
        assert!(error.contains("src/24"), "{error}");
    }
}
