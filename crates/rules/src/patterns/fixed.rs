//! Patterns at a fixed place.

use super::Text;
use super::arena::Arena;
use super::hits::Hits;
use super::sorted::Sorted;
use crate::language::PayloadPattern;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// By place; for each place that a text has, one search by halves.
#[derive(Debug)]
pub(super) struct Fixed {
    groups: Box<[Group]>,
}

/// The patterns at one place: the case-sensitive ones, and those that ignore case.
#[derive(Debug)]
struct Group {
    at: u32,
    patterns: [Sorted; 2],
}

impl Fixed {
    pub(super) fn new(arena: &Arena, patterns: &[&PayloadPattern]) -> Fixed {
        let mut groups: BTreeMap<u32, [Vec<u32>; 2]> = BTreeMap::new();
        for (number, pattern) in (0..).zip(patterns) {
            if let Some(at) = pattern.at {
                groups.entry(at).or_default()[usize::from(pattern.ignore_case)].push(number);
            }
        }
        let group = |(at, lists): (u32, [Vec<u32>; 2])| Group {
            at,
            patterns: lists.map(|list| Sorted::new(list, |number| arena.get(number))),
        };
        Fixed { groups: groups.into_iter().map(group).collect() }
    }

    pub(super) fn scan(&self, arena: &Arena, text: Text<'_>, hits: &mut Hits) {
        let first = self.groups.partition_point(|group| u64::from(group.at) < text.position);
        for Group { at, patterns } in &self.groups[first..] {
            let from = usize::try_from(u64::from(*at) - text.position).unwrap_or(usize::MAX);
            let Some(front) = text.bytes.get(from..).filter(|front| !front.is_empty()) else {
                return;
            };
            for (sorted, ignores_case) in patterns.iter().zip([false, true]) {
                let compare = |pattern: &[u8]| order(pattern, front, ignores_case);
                sorted.at_front_of(
                    |number| arena.get(number),
                    compare,
                    |number| {
                        if from + arena.get(number).len() > text.old {
                            hits.add(number);
                        }
                    },
                );
            }
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let of_group = |group: &Group| {
            size_of::<Group>() + group.patterns.iter().map(Sorted::memory_bytes).sum::<usize>()
        };
        self.groups.iter().map(of_group).sum()
    }
}

/// How a pattern stands to the front of a text: equal if it lies there.
fn order(pattern: &[u8], text: &[u8], ignores_case: bool) -> Ordering {
    let front = &text[..pattern.len().min(text.len())];
    match ignores_case {
        true => pattern.iter().copied().cmp(front.iter().map(u8::to_ascii_lowercase)),
        false => pattern.cmp(front),
    }
}
