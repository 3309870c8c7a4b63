//! From rules to tables.

use super::{Cache, Counts, Engine, Entry, Tally, plain};
use crate::cover::Cover;
use crate::language::{ExactFlow, InterfaceName, Rule, RuleId, RuleSet};
use crate::patterns::{Findings, PatternList, PatternSet};
use crate::question::Question;
use crate::table::{AddressPrefix, Capacity, Cube, Editor, Full, Key, Span};
use foldhash::fast::RandomState;
use ringside_core::LinkType;
use ringside_filter::{Compiler, FilterError};
use std::collections::{HashMap, HashSet};

/// Cubes of all wildcard rules together. Each row of the table has a bit for each: 2.7 KB.
const CUBES_MAX: usize = 16_384;
/// Prefixes and spans of all cubes together; a prefix takes 32 bytes until the table stands.
const VALUES_MAX: usize = 1 << 20;
/// Rows of the table, one for each different prefix and each border: with CUBES_MAX, 180 MB.
const CLASSES_MAX: usize = 65_536;
/// Inner nodes of one trie of the table, 1 KiB each.
const NODES_MAX: usize = 131_072;
/// Interfaces that copies go to.
const MIRRORS_MAX: usize = 8;

/// Payload patterns that are looked for one after the other: in a frame of common size one takes
/// some 30 ns alone, and any number of them together some 600.
const PATTERNS_ALONE_MAX: usize = 16;

/// Why rules cannot be put to work.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A filter expression was refused.
    #[error("rule {id}: {source}")]
    Question {
        /// The rule.
        id: RuleId,
        /// What is wrong with it.
        source: FilterError,
    },
    /// Too many wildcard rules.
    #[error(
        "more than {CUBES_MAX} address, port and protocol combinations in rules that are not exact \
         (rule {id} and later); name many addresses in an address file, as `src ip @FILE`"
    )]
    TooMany {
        /// The first that has no room.
        id: RuleId,
    },
    /// Too many interfaces for copies.
    #[error("rule {id}: copies go to more than {MIRRORS_MAX} interfaces")]
    TooManyMirrors {
        /// The first that names another.
        id: RuleId,
    },
    /// The rules have too many different prefixes or port ranges.
    #[error("rules: {0}; name many addresses in an address file, as `src ip @FILE`")]
    Full(#[from] Full),
}

impl Engine {
    /// Puts rules to work on frames of one link type. Filter expressions are compiled by
    /// `compiler`, which for many of them takes its time.
    ///
    /// # Errors
    /// A filter expression is wrong, or there are too many wildcard rules.
    pub fn new(set: RuleSet, link: LinkType, compiler: &Compiler) -> Result<Engine, BuildError> {
        let mut plan = Plan::default();
        for rule in set.rules {
            plan.add(rule, link, compiler)?;
        }
        let mut editor = Editor::new(plan.capacity()?)?;
        let findings = plan.findings();
        for (number, cube) in plan.cubes.into_iter().enumerate() {
            // Bounded by CUBES_MAX.
            editor.add(number as u32, cube)?;
        }
        Ok(Engine {
            entries: plan.entries,
            tallies: plan.tallies,
            exact: plan.exact,
            table: editor.table().clone(),
            owners: plan.owners,
            cache: Cache::new(),
            findings,
            mirrors: plan.mirrors,
            default: set.default,
            undecided: Counts::default(),
        })
    }
}

/// What comes of the rules, before the table's size is known.
#[derive(Default)]
struct Plan {
    entries: Vec<Entry>,
    tallies: Vec<Tally>,
    exact: HashMap<Key, Vec<u32>, RandomState>,
    cubes: Vec<Cube>,
    /// Prefixes and spans of all cubes.
    values: usize,
    owners: Vec<u32>,
    mirrors: Vec<InterfaceName>,
    /// What rules look for in payloads.
    patterns: PatternList,
}

impl Plan {
    fn add(&mut self, rule: Rule, link: LinkType, compiler: &Compiler) -> Result<(), BuildError> {
        let place = self.entries.len() as u32;
        let id = rule.id;
        let question = match rule.matches.exact_flow() {
            Some(flow) => {
                let keys = [key_of(&flow), key_of(&exchanged(&flow))];
                let ways = if rule.matches.bidirectional && keys[0] != keys[1] { 2 } else { 1 };
                for key in &keys[..ways] {
                    self.exact.entry(*key).or_default().push(place);
                }
                None
            }
            None => {
                let cover = Cover::of(&rule.matches);
                self.values += cover.cubes.iter().map(values).sum::<usize>();
                if self.cubes.len() + cover.cubes.len() > CUBES_MAX || self.values > VALUES_MAX {
                    return Err(BuildError::TooMany { id });
                }
                self.owners.resize(self.owners.len() + cover.cubes.len(), place);
                self.cubes.extend(cover.cubes);
                match cover.is_exact {
                    true => None,
                    false => Some(
                        Question::listed(&rule.matches, link, compiler, &mut self.patterns)
                            .map_err(|source| BuildError::Question { id, source })?,
                    ),
                }
            }
        };
        let mirror = match &rule.actions.mirror {
            Some(name) => self.mirror(name).ok_or(BuildError::TooManyMirrors { id })?,
            None => 0,
        };
        let plain = plain(&rule, question.as_ref());
        self.tallies.push(Tally { counts: Counts::default(), id, plain });
        self.entries.push(Entry { rule, question, mirror, met: 0 });
        Ok(())
    }

    /// What looks for the patterns of all rules at once; none if there are few, or if they are such
    /// that it would take too much memory. Without it each is looked for when it is asked about.
    fn findings(&self) -> Option<Findings> {
        let is_worth = self.patterns.count() > PATTERNS_ALONE_MAX;
        let set = is_worth.then(|| PatternSet::new(&self.patterns).ok()).flatten()?;
        Some(Findings::new(set.into()))
    }

    /// The bit of an interface that copies go to.
    fn mirror(&mut self, name: &InterfaceName) -> Option<u8> {
        let known = self.mirrors.iter().position(|mirror| mirror == name);
        let at = known.unwrap_or(self.mirrors.len());
        if known.is_none() {
            self.mirrors.push(name.clone());
        }
        (at < MIRRORS_MAX).then(|| 1 << at)
    }

    /// As large as the cubes need: a row for each different prefix and each border between spans.
    fn capacity(&self) -> Result<Capacity, Full> {
        let mut classes = 0;
        let mut nodes = 0;
        let addresses: [fn(&Cube) -> &[AddressPrefix]; 2] =
            [|cube| &cube.sources, |cube| &cube.destinations];
        for field in addresses {
            let prefixes: HashSet<&AddressPrefix> = self.cubes.iter().flat_map(field).collect();
            let mut inner = HashSet::new();
            for node in prefixes.iter().flat_map(|prefix| prefix.nodes()) {
                inner.insert(node);
                if inner.len() > NODES_MAX {
                    return Err(Full::Nodes);
                }
            }
            classes += prefixes.len() + AddressPrefix::ANY.len();
            nodes = nodes.max(inner.len());
        }
        let spans: [fn(&Cube) -> &[Span]; 3] =
            [|cube| &cube.source_ports, |cube| &cube.destination_ports, |cube| &cube.protocols];
        for field in spans {
            let all = self.cubes.iter().flat_map(field);
            let borders: HashSet<u32> = all.flat_map(|span| [span.first, span.last + 1]).collect();
            classes += borders.len() + 1;
        }
        if classes > CLASSES_MAX {
            return Err(Full::Classes);
        }
        // A quarter of each word is left free.
        let rules = self.cubes.len() + self.cubes.len() / 3 + 64;
        Ok(Capacity { rules: rules as u32, classes: classes as u32, nodes: 2 * nodes as u32 })
    }
}

fn values(cube: &Cube) -> usize {
    let Cube { sources, destinations, source_ports, destination_ports, protocols } = cube;
    let spans = source_ports.len() + destination_ports.len() + protocols.len();
    sources.len() + destinations.len() + spans
}

fn key_of(flow: &ExactFlow) -> Key {
    Key {
        addresses: Some((flow.source, flow.destination)),
        ports: Some((flow.source_port.0, flow.destination_port.0)),
        protocol: Some(flow.protocol.0),
    }
}

fn exchanged(flow: &ExactFlow) -> ExactFlow {
    ExactFlow {
        source: flow.destination,
        destination: flow.source,
        source_port: flow.destination_port,
        destination_port: flow.source_port,
        ..*flow
    }
}
