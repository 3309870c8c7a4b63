//! A segment: what lies in up to 1,024 parts of a file, and in which of them each key is.

use crate::code::{Reader, checksum, put, put_stamps};
use crate::key::{Key, Kind};
use crate::postings::{PART_BITS, PartKeys, PartNumbers, Postings};
use ringside_core::ledger::ByCause;
use ringside_core::{Cause, FrameNumber, Stamps, Timestamp};
use ringside_store::Part;
use ringside_store::block::BlockHeader;
use std::sync::Arc;

/// Parts of a segment: about a GiB of file. A set of them takes 128 bytes.
pub(crate) const PARTS_MAX: usize = 1024;
const _: () = assert!(PARTS_MAX <= 1 << PART_BITS, "parts are numbered so");
/// Keys of all parts of a segment, after which it ends early: 2 MiB while it is made, 8 if all are
/// of IPv6.
const POSTINGS_MAX: usize = 1 << 18;
/// A group of keys is ended at this size: what a lookup reads at least, one page.
const GROUP_BYTES: usize = 4 << 10;
/// One more entry may come on top: a key, and a set of all parts.
pub(crate) const GROUP_BYTES_MAX: usize = GROUP_BYTES + 256;
/// The head: 1,024 parts of at most 120 bytes with what was lost, and groups of at most 32 bytes,
/// of which there are at most as many as pages of postings and kinds.
pub(crate) const HEAD_BYTES_MAX: usize = 256 << 10;

/// What a segment covers, and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentEntry {
    pub(crate) head_bytes: usize,
    pub(crate) head_checksum: u32,
    pub(crate) groups_bytes: u64,
    pub(crate) stamps: Stamps,
}

/// A set of parts of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartSet(pub(crate) [u64; PARTS_MAX / 64]);

impl PartSet {
    pub(crate) const NONE: PartSet = PartSet([0; PARTS_MAX / 64]);
    pub(crate) const ALL: PartSet = PartSet([u64::MAX; PARTS_MAX / 64]);

    pub(crate) fn add(&mut self, part: usize) {
        self.0[part / 64] |= 1 << (part % 64);
    }

    pub(crate) fn holds(&self, part: usize) -> bool {
        self.0[part / 64] >> (part % 64) & 1 != 0
    }

    pub(crate) fn unite(&mut self, other: &PartSet) {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word |= other);
    }

    pub(crate) fn meet(&mut self, other: &PartSet) {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= other);
    }
}

/// What is known of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) part: Part,
    /// It may hold anything.
    pub(crate) is_anything: bool,
    /// Frames that were lost since the run began, as its ledger says at the end of the part; most
    /// parts share what the one before says.
    pub(crate) dropped: Arc<ByCause>,
}

/// Where a group of keys lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) first: Key,
    /// From the end of the segment's head.
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
    pub(crate) checksum: u32,
}

/// A segment, while its parts are read.
#[derive(Default)]
pub(crate) struct Builder {
    entries: Vec<Entry>,
    postings: Postings,
}

/// A segment as bytes: its head, and behind it its groups.
pub(crate) struct Coded {
    pub(crate) head: Vec<u8>,
    pub(crate) groups: Vec<u8>,
    /// Of all its frames.
    stamps: Stamps,
}

impl Coded {
    /// What the directory says of it.
    pub(crate) fn entry(&self) -> SegmentEntry {
        SegmentEntry {
            head_bytes: self.head.len(),
            head_checksum: checksum(&self.head),
            groups_bytes: self.groups.len() as u64,
            stamps: self.stamps,
        }
    }
}

impl Builder {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() == PARTS_MAX || self.postings.len() >= POSTINGS_MAX
    }

    /// Adds a part with its keys; without, it may hold anything.
    pub(crate) fn add(&mut self, part: Part, keys: Option<&PartKeys>, dropped: ByCause) {
        let number = self.entries.len() as u16;
        let known = self.entries.last().filter(|last| *last.dropped == dropped);
        let dropped = known.map_or_else(|| Arc::new(dropped), |last| last.dropped.clone());
        self.entries.push(Entry { part, is_anything: keys.is_none(), dropped });
        keys.into_iter().for_each(|keys| self.postings.add(number, keys));
    }

    /// The segment as bytes. Begins anew.
    pub(crate) fn take(&mut self) -> Coded {
        let coded = self.coded();
        self.entries.clear();
        self.postings.clear();
        coded
    }

    /// The segment as bytes, as far as it has come.
    pub(crate) fn coded(&mut self) -> Coded {
        let mut head = Vec::new();
        put_entries(&mut head, &self.entries);
        let (groups, table) = coded_groups(&mut self.postings, self.entries.len());
        put(&mut head, table.len() as u64);
        for group in table {
            put(&mut head, group.first.kind as u8);
            put(&mut head, group.first.value);
            put(&mut head, group.bytes as u64);
            put(&mut head, group.checksum);
        }
        let stamps = self.entries.iter().map(|entry| entry.part.stamps);
        Coded { head, groups, stamps: stamps.fold(Stamps::NONE, Stamps::with) }
    }
}

fn put_entries(out: &mut Vec<u8>, entries: &[Entry]) {
    put(out, entries.len() as u64);
    let (mut end, mut before) = (0, &Arc::default());
    for Entry { part, is_anything, dropped } in entries {
        put(out, part.start - end);
        put(out, part.end - part.start);
        put(out, part.frames);
        let flags = [*is_anything, part.header.is_some(), dropped != before];
        put(out, (0..).zip(flags).map(|(bit, flag)| u8::from(flag) << bit).sum::<u8>());
        put_stamps(out, part.stamps);
        if let Some(header) = &part.header {
            put(out, header.number);
            put(out, header.first_frame.0);
            put(out, header.opened.0);
        }
        if dropped != before {
            put(out, dropped.len() as u64);
            for (cause, frames) in &**dropped {
                put(out, cause.index() as u64);
                put(out, *frames);
            }
        }
        (end, before) = (part.end, dropped);
    }
}

/// Postings in order as groups, and where these lie.
fn coded_groups(postings: &mut Postings, all_parts: usize) -> (Vec<u8>, Vec<Group>) {
    let (mut out, mut table) = (Vec::new(), Vec::<Group>::new());
    let mut before: Option<Key> = None;
    let mut start = 0;
    postings.for_each(&mut |key, parts, count| {
        let is_more = before.is_some_and(|before| before.kind == key.kind);
        if !is_more || out.len() - start >= GROUP_BYTES {
            end_group(&mut table, &out, start);
            start = out.len();
            table.push(Group { first: key, offset: start as u64, bytes: 0, checksum: 0 });
            before = Some(key);
        }
        put(&mut out, key.value - before.map_or(0, |before| before.value));
        put_parts(&mut out, parts, count, all_parts);
        before = Some(key);
    });
    end_group(&mut table, &out, start);
    (out, table)
}

fn end_group(table: &mut [Group], out: &[u8], start: usize) {
    if let Some(group) = table.last_mut() {
        group.bytes = out.len() - start;
        group.checksum = checksum(&out[start..]);
    }
}

/// Parts that rise: as distances, or, if there are many, 0 and a bit for each.
fn put_parts(out: &mut Vec<u8>, parts: &mut PartNumbers<'_>, count: usize, all_parts: usize) {
    if count > all_parts / 8 {
        out.push(0);
        let start = out.len();
        out.resize(start + all_parts.div_ceil(8), 0);
        parts.for_each(|part| out[start + usize::from(part / 8)] |= 1 << (part % 8));
        return;
    }
    put(out, count as u64);
    let mut next = 0;
    for part in parts {
        put(out, part - next);
        next = part + 1;
    }
}

/// The head of a segment, read.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) entries: Vec<Entry>,
    pub(crate) groups: Vec<Group>,
}

impl Head {
    /// Reads a head whose first part begins at `start` or later and whose last ends at `end`, with
    /// `groups_bytes` of groups; none if it is not that.
    pub(crate) fn read(bytes: &[u8], end: u64, groups_bytes: u64) -> Option<Head> {
        let mut reader = Reader(bytes);
        let parts: usize = reader.number().filter(|&parts| parts <= PARTS_MAX)?;
        let mut entries = Vec::with_capacity(parts);
        let (mut at, mut dropped) = (0, Arc::default());
        for _ in 0..parts {
            let entry = read_entry(&mut reader, at, dropped)?;
            (at, dropped) = (entry.part.end, entry.dropped.clone());
            entries.push(entry);
        }
        let count: usize = reader.number()?;
        let mut groups = Vec::new();
        let mut offset = 0;
        for _ in 0..count {
            let kind = Kind::of_number(reader.number()?)?;
            let first = Key { kind, value: reader.long()? };
            let bytes: usize = reader.number().filter(|&bytes| bytes <= GROUP_BYTES_MAX)?;
            let checksum = reader.number()?;
            groups.push(Group { first, offset, bytes, checksum });
            offset += bytes as u64;
        }
        reader.end()?;
        let is_ordered = groups.is_sorted_by_key(|group| group.first);
        (is_ordered && offset == groups_bytes && at <= end).then_some(Head { entries, groups })
    }

    /// The groups that may hold keys of a kind between two values, both included.
    pub(crate) fn groups_of(&self, kind: Kind, low: u128, high: u128) -> &[Group] {
        let (low, high) = (Key { kind, value: low }, Key { kind, value: high });
        let end = self.groups.partition_point(|group| group.first <= high);
        // The one before the first that begins at `low` or later may reach beyond it.
        let start = self.groups.partition_point(|group| group.first < low).saturating_sub(1);
        self.groups.get(start..end).unwrap_or_default()
    }
}

fn read_entry(reader: &mut Reader<'_>, after: u64, before: Arc<ByCause>) -> Option<Entry> {
    let start = after.checked_add(reader.number()?)?;
    let end = start.checked_add(reader.number()?)?;
    let frames = reader.number()?;
    let flags: u8 = reader.number().filter(|&flags| flags < 8)?;
    let stamps: Stamps = reader.stamps()?;
    let header = if flags & 2 != 0 {
        Some(BlockHeader {
            number: reader.number()?,
            first_frame: FrameNumber(reader.number()?),
            opened: Timestamp(reader.number()?),
        })
    } else {
        None
    };
    let dropped = if flags & 4 != 0 { Arc::new(read_dropped(reader)?) } else { before };
    // A frame takes a byte at the least; a part goes on.
    let is_sound = start < end && frames <= end - start;
    let part = Part { start, end, header, frames, stamps };
    is_sound.then_some(Entry { part, is_anything: flags & 1 != 0, dropped })
}

fn read_dropped(reader: &mut Reader<'_>) -> Option<ByCause> {
    let count: usize = reader.number().filter(|&count| count <= Cause::ALL.len())?;
    let frames = |_| Some((*Cause::ALL.get(reader.number::<usize>()?)?, reader.number()?));
    (0..count).map(frames).collect()
}

impl Group {
    /// Adds the parts of all keys up to `last` whose value `is_wanted`; none if the bytes are not
    /// the group's.
    pub(crate) fn parts(
        &self,
        bytes: &[u8],
        parts: usize,
        last: u128,
        is_wanted: impl Fn(u128) -> bool,
        found: &mut PartSet,
    ) -> Option<()> {
        if checksum(bytes) != self.checksum {
            return None;
        }
        let mut reader = Reader(bytes);
        let mut value = self.first.value;
        while !reader.0.is_empty() {
            value = value.checked_add(reader.long()?)?;
            if value > last {
                break;
            }
            if is_wanted(value) {
                read_parts(&mut reader, parts, found)?;
            } else {
                skip_parts(&mut reader, parts)?;
            }
        }
        Some(())
    }
}

fn skip_parts(reader: &mut Reader<'_>, parts: usize) -> Option<()> {
    match reader.number().filter(|&count| count <= parts)? {
        0 => reader.bytes(parts.div_ceil(8)).map(drop),
        count => reader.skip(count),
    }
}

fn read_parts(reader: &mut Reader<'_>, parts: usize, set: &mut PartSet) -> Option<()> {
    let count: usize = reader.number().filter(|&count| count <= parts)?;
    if count == 0 {
        let bits = reader.bytes(parts.div_ceil(8))?;
        for (index, &byte) in bits.iter().enumerate() {
            *set.0.get_mut(index / 8)? |= u64::from(byte) << (8 * (index % 8));
        }
        return Some(());
    }
    let mut next = 0_usize;
    for _ in 0..count {
        let part = next.checked_add(reader.number()?).filter(|&part| part < parts)?;
        set.add(part);
        next = part + 1;
    }
    Some(())
}
