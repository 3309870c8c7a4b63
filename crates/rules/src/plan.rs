//! The room that rules need in [`Memory`](crate::memory::Memory), computed before it is allocated.

use crate::cover::Cover;
use crate::language::{Rule, RuleId};
use crate::memory::Capacity;
use crate::table::{AddressPrefix, Cube, Full, Span};
use std::collections::HashSet;

/// Cubes of all wildcard rules together. Each row of the table has a bit for each: 2.7 KB.
const CUBES_MAX: usize = 16_384;
/// Prefixes and spans of all cubes together; a prefix takes 32 bytes until the table is built.
const VALUES_MAX: usize = 1 << 20;
/// Rows of the table, one for each different prefix and each border: with CUBES_MAX, 180 MB.
const CLASSES_MAX: usize = 65_536;
/// Inner nodes of one trie of the table, 1 KiB each.
const NODES_MAX: usize = 131_072;
/// Exact rules that room is made for on request: 64 bytes each, and as much around them.
const EXACT_MAX: usize = 1 << 22;
/// Room for rules that are added later: at least these, and a quarter of the present ones.
const SPARE: Capacity = Capacity { rules: 512, classes: 512, nodes: 512, exact: 4096 };

/// Why there is no room for rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Too many wildcard rules.
    #[error(
        "more than {CUBES_MAX} address, port and protocol combinations in rules that are not exact \
         (rule {id} and later); name many addresses in an address file, as `src ip @FILE`"
    )]
    TooMany {
        /// The first that has no room.
        id: RuleId,
    },
    /// The rules have too many different prefixes or port ranges.
    #[error("rules: {0}; name many addresses in an address file, as `src ip @FILE`")]
    Full(Full),
}

/// The room that these rules need, with some for rules that are added later.
///
/// # Errors
/// A limit would be passed.
pub fn capacity<'r>(rules: impl Iterator<Item = &'r Rule>) -> Result<Capacity, PlanError> {
    let mut exact = 0;
    let mut values = 0;
    let mut cubes: Vec<Cube> = Vec::new();
    for rule in rules {
        if rule.matches.exact_flow().is_some() {
            exact += if rule.matches.bidirectional { 2 } else { 1 };
            continue;
        }
        cubes.extend(Cover::of(&rule.matches).cubes.into_iter().inspect(|cube| {
            values += values_of(cube);
        }));
        if cubes.len() > CUBES_MAX || values > VALUES_MAX {
            return Err(PlanError::TooMany { id: rule.id });
        }
    }
    let nodes = 2 * nodes(&cubes).map_err(PlanError::Full)?;
    let classes = classes(&cubes);
    if classes > CLASSES_MAX {
        return Err(PlanError::Full(Full::Classes));
    }
    let room = |needed: usize, spare: u32| (needed + needed / 4) as u32 + spare;
    Ok(Capacity {
        // A quarter of each word is left free.
        rules: room(cubes.len() + cubes.len() / 3, SPARE.rules),
        classes: room(classes, SPARE.classes),
        nodes: room(nodes, SPARE.nodes),
        exact: room(exact, SPARE.exact),
    })
}

/// The room for `count` exact rules and as many others of the usual kind, with three different
/// prefixes or borders of port ranges each, and four inner nodes; as far as the limits go.
pub fn room_for(count: usize) -> Capacity {
    let room = |each: usize, most: usize| count.saturating_mul(each).min(most) as u32;
    Capacity {
        rules: room(1, CUBES_MAX) / 3 * 4,
        classes: room(3, CLASSES_MAX),
        nodes: room(4, NODES_MAX),
        exact: room(1, EXACT_MAX),
    }
}

const ADDRESSES: [fn(&Cube) -> &[AddressPrefix]; 2] =
    [|cube| &cube.sources, |cube| &cube.destinations];

/// Inner nodes of the larger trie.
fn nodes(cubes: &[Cube]) -> Result<usize, Full> {
    let mut most = 0;
    for field in ADDRESSES {
        let prefixes: HashSet<&AddressPrefix> = cubes.iter().flat_map(field).collect();
        let mut inner = HashSet::new();
        for node in prefixes.iter().flat_map(|prefix| prefix.nodes()) {
            inner.insert(node);
            if inner.len() > NODES_MAX {
                return Err(Full::Nodes);
            }
        }
        most = most.max(inner.len());
    }
    Ok(most)
}

/// A row for each different prefix and each border between spans.
fn classes(cubes: &[Cube]) -> usize {
    let prefixes = ADDRESSES.into_iter().map(|field| {
        let prefixes: HashSet<&AddressPrefix> = cubes.iter().flat_map(field).collect();
        prefixes.len() + AddressPrefix::ANY.len()
    });
    let spans: [fn(&Cube) -> &[Span]; 3] =
        [|cube| &cube.source_ports, |cube| &cube.destination_ports, |cube| &cube.protocols];
    let borders = spans.into_iter().map(|field| {
        let all = cubes.iter().flat_map(field);
        let borders: HashSet<u32> = all.flat_map(|span| [span.first, span.last + 1]).collect();
        borders.len() + 1
    });
    prefixes.chain(borders).sum()
}

fn values_of(cube: &Cube) -> usize {
    let Cube { sources, destinations, source_ports, destination_ports, protocols } = cube;
    let spans = source_ports.len() + destination_ports.len() + protocols.len();
    sources.len() + destinations.len() + spans
}

#[cfg(not(feature = "loom"))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::{Book, Slot, SlotStore};
    use crate::language::{self, Match, Sets};
    use crate::memory::{Layout, Memory};
    use std::sync::Arc;

    /// Takes every rule.
    struct Anywhere;

    impl SlotStore for Anywhere {
        type Error = std::convert::Infallible;

        fn put(&mut self, _: Slot, _: &Arc<Rule>, _: Option<&Match>) -> Result<(), Self::Error> {
            Ok(())
        }
    }

    #[test]
    fn room_is_made_for_as_many_rules_as_it_says() {
        let count = 3000usize;
        let memory = Memory::heap(Layout::of(&room_for(count))).unwrap();
        let mut book = Book::new(&memory, Anywhere).unwrap();
        let text: String = (0..count)
            .map(|n| {
                let (high, low, port) = (n >> 8, n & 255, 2 * n + 1);
                let exact = format!("src ip 10.{high}.{low}.9 dst ip 10.0.0.1 udp");
                format!(
                    "{exact} src port 5 dst port 6 => drop\n\
                     src ip 10.{high}.{low}.0/24 udp dst port {port}-{} => drop\n",
                    port + 1
                )
            })
            .collect();
        let rules = language::parse(text.as_bytes(), &mut Sets::none()).unwrap().rules;
        assert_eq!(rules.len(), 2 * count);
        for rule in rules {
            book.add(Arc::new(rule)).unwrap();
        }
        // The limits hold whatever is asked for.
        let most = room_for(usize::MAX);
        assert_eq!((most.classes, most.nodes), (CLASSES_MAX as u32, NODES_MAX as u32));
        assert_eq!(room_for(1).max(most), most);
    }
}
