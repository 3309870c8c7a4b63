//! Bytes of an index from anyone, behind their checksums: refused, or what they say holds.

use crate::code::checksum;
use crate::file::Directory;
use crate::key::{Key, Kind};
use crate::segment::{Builder, Coded, Group, Head, PARTS_MAX, PartSet};
use crate::tests::roundtrip::{directory, part, part_keys, some_keys};
use ringside_core::Cause;
use ringside_core::ledger::ByCause;

fn coded() -> Coded {
    let mut builder = Builder::default();
    for number in 0..40 {
        let keys = (number % 9 != 8).then(|| part_keys(&some_keys(number)));
        let dropped = ByCause::from([(Cause::KernelRingFull, number / 10)]);
        builder.add(part(number), keys.as_ref(), dropped);
    }
    builder.take()
}

#[test]
fn damaged_indexes_are_refused_or_hold() {
    let coded = coded();
    let with = |tag: u8, bytes: &[u8]| [&[tag], bytes].concat();
    let seeds = [
        with(0, &directory().coded()),
        with(1, &coded.head),
        with(2, &coded.groups[..coded.groups.len().min(300)]),
    ];
    ringside_testkit::fuzz("index", 60_000, &seeds, |input| {
        let Some((tag, bytes)) = input.split_first() else { return };
        match tag % 3 {
            0 => drop(Directory::read(bytes)),
            1 => check_head(bytes, coded.groups.len() as u64),
            _ => check_group(bytes),
        }
    });
}

fn check_head(bytes: &[u8], groups_bytes: u64) {
    let Some(head) = Head::read(bytes, u64::MAX, groups_bytes) else { return };
    assert!(head.entries.len() <= PARTS_MAX);
    assert!(head.entries.is_sorted_by(|one, next| one.part.end <= next.part.start));
    assert!(head.entries.iter().all(|entry| entry.part.start < entry.part.end));
    let all: u64 = head.groups.iter().map(|group| group.bytes as u64).sum();
    assert_eq!(all, groups_bytes);
    for kind in Kind::ALL {
        assert!(head.groups_of(kind, 0, u128::MAX).len() <= head.groups.len());
    }
}

fn check_group(bytes: &[u8]) {
    let first = Key { kind: Kind::Ipv4, value: 1 };
    let group = Group { first, offset: 0, bytes: bytes.len(), checksum: checksum(bytes) };
    for parts in [1, 40, PARTS_MAX] {
        let mut found = PartSet::NONE;
        let _ = group.parts(bytes, parts, u128::MAX, |_| true, &mut found);
        let beyond = (parts.next_multiple_of(8)..PARTS_MAX).any(|part| found.holds(part));
        assert!(!beyond, "a part that is not there");
    }
}
