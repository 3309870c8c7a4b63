//! What was written of parts is what is read of them.

use crate::file::{Directory, Identity};
use crate::key::{Condition, Key, Kind};
use crate::postings::PartKeys;
use crate::segment::{Builder, Entry, Head, PARTS_MAX, PartSet, SegmentEntry};
use ringside_core::ledger::ByCause;
use ringside_core::{Cause, FrameNumber, LaneId, LinkType, Stamps, Timestamp};
use ringside_store::Part;
use ringside_store::block::BlockHeader;

/// A part of two thousand bytes, behind the one before or with a gap.
pub(super) fn part(number: u64) -> Part {
    let start = 4096 + number * 2000 + number % 3;
    let stamps = Stamps { earliest: Timestamp(number * 10), latest: Timestamp(number * 10 + 7) };
    let first_frame = FrameNumber(number * 5);
    let header = BlockHeader { number, first_frame, opened: Timestamp(number) };
    let header = number.is_multiple_of(2).then_some(header);
    Part { start, end: 4096 + (number + 1) * 2000, header, frames: number, stamps }
}

/// Keys of all kinds, some in all parts, some in few.
pub(super) fn some_keys(number: u64) -> Vec<Key> {
    let number = u128::from(number);
    let key = |kind, value| Key { kind, value };
    let mut keys = vec![
        key(Kind::EtherType, 0x0800),
        key(Kind::Vlan, number % 5),
        key(Kind::Mac, 0x0200_0000_0000 + number * 1000),
        key(Kind::Ipv6, u128::MAX - number),
        key(Kind::Protocol, 17),
        key(Kind::Port, number * number % 65_536),
    ];
    keys.extend((0..50).map(|host| key(Kind::Ipv4, 0x0a00_0000 + number * 997 % 4096 + host * 31)));
    keys.sort_unstable();
    keys.dedup();
    keys
}

pub(super) fn part_keys(keys: &[Key]) -> PartKeys {
    let mut of_part = PartKeys::default();
    keys.iter().for_each(|key| of_part.push(key));
    assert!(of_part.iter().eq(keys.iter().copied()), "in order");
    of_part
}

pub(super) fn directory() -> Directory {
    let place = Some(("run".into(), LaneId(3), 17));
    let entry = |number: u64| SegmentEntry {
        head_bytes: 100 + number as usize,
        head_checksum: u32::MAX - number as u32,
        groups_bytes: number << 20,
        stamps: Stamps { earliest: Timestamp(number), latest: Timestamp(u64::MAX - number) },
    };
    Directory {
        identity: Identity { file_bytes: 1 << 40, modified_ns: -5, place, is_growing: true },
        covered_bytes: 1 << 39,
        parts: 77,
        frames: 1 << 33,
        links: Some(vec![LinkType::ETHERNET, LinkType::RAW]),
        segments: (0..5).map(entry).collect(),
    }
}

#[test]
fn a_directory_comes_back_and_nothing_shorter_is_one() {
    let directory = directory();
    let coded = directory.coded();
    assert_eq!(Directory::read(&coded), Some(directory.clone()));
    for length in 0..coded.len() {
        assert_eq!(Directory::read(&coded[..length]), None, "{length} bytes");
    }
    let many = Directory { links: None, ..directory };
    assert_eq!(Directory::read(&many.coded()), Some(many));
}

#[test]
fn a_segment_gives_back_its_parts_and_in_which_each_key_is() {
    let mut builder = Builder::default();
    let all: Vec<_> =
        (0..PARTS_MAX as u64).map(|number| (part(number), some_keys(number))).collect();
    for (part, keys) in &all {
        let dropped = ByCause::from([(Cause::KernelRingFull, part.frames / 100)]);
        assert!(!builder.is_full(), "{} parts are few", part.frames);
        builder.add(*part, (part.frames % 7 != 3).then(|| part_keys(keys)).as_ref(), dropped);
    }
    assert!(builder.is_full());
    let coded = builder.take();
    assert!(builder.is_empty());
    let end = all.last().unwrap().0.end;
    let head = Head::read(&coded.head, end, coded.groups.len() as u64).unwrap();
    let entries = all.iter().map(|(part, _)| {
        let dropped = ByCause::from([(Cause::KernelRingFull, part.frames / 100)]);
        Entry { part: *part, is_anything: part.frames % 7 == 3, dropped: dropped.into() }
    });
    assert_eq!(head.entries, entries.collect::<Vec<_>>());
    assert!(head.groups.len() > 10, "{} groups", head.groups.len());
    assert!(Head::read(&coded.head, end - 1, coded.groups.len() as u64).is_none());
    assert!(Head::read(&coded.head[1..], end, coded.groups.len() as u64).is_none());

    let whole = Condition { kind: Kind::Ipv4, mask: 0, bits: 0, low: 0, high: u128::MAX };
    let conditions = (0..4096).step_by(3).map(|low| {
        let value = 0x0a00_0000 + low;
        Condition { mask: u128::MAX, bits: value, ..whole }
    });
    let nets = (0..16).map(|net| Condition { mask: !0xff, bits: 0x0a00_0000 + net * 256, ..whole });
    let ranges = (0..60_000).step_by(911).map(|low| Condition {
        kind: Kind::Port,
        low,
        high: low + 300,
        ..whole
    });
    let odd = Condition { mask: 0x3, bits: 0x2, ..whole };
    for condition in conditions.chain(nets).chain(ranges).chain([odd]) {
        let (low, high) = condition.bounds();
        let mut found = PartSet::NONE;
        for group in head.groups_of(condition.kind, low, high) {
            let bytes = &coded.groups[group.offset as usize..][..group.bytes];
            let is_wanted = |value| group.first.kind == condition.kind && condition.holds(value);
            group.parts(bytes, PARTS_MAX, high, is_wanted, &mut found).unwrap();
        }
        for (number, (part, keys)) in all.iter().enumerate() {
            let is_meant = |key: &Key| key.kind == condition.kind && condition.holds(key.value);
            let is_there = part.frames % 7 != 3 && keys.iter().any(is_meant);
            assert_eq!(found.holds(number), is_there, "{condition:?} in part {number}");
        }
    }
}
