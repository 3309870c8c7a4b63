//! The fast path of a set of rules (`bpf/fast.h`): the first rules, by their ids, as long
//! as each decides by one thing that it asks. The rest, and all that the fast path does not read,
//! stays with the general program, which has these rules too.

mod pieces;
mod prefixes;

use crate::records::fate_of;
use pieces::{Piece, VERSIONS, pieces_of};
use prefixes::Prefixes;
use ringside_ebpf::abi::fast::{self, Layout, PAGE_ENTRIES};
use ringside_ebpf::abi::rules::Fate;
use ringside_ebpf::rules::FastTables;
use ringside_rules::Rule;
use ringside_rules::book::Slot;
use ringside_rules::language::{Actions, Next, Verdict};

/// Pages of the ports of one side of one protocol.
const PORT_PAGES: usize = 256;

/// The tables for rules in the order of their ids, none of them exact; none if the first is not for
/// them.
pub(crate) fn tables<'r>(
    mut rules: impl Iterator<Item = (Slot, &'r Rule)>,
    default: Verdict,
    seed: u64,
) -> Option<FastTables> {
    let mut builder = Builder::default();
    let is_whole = rules.all(|(slot, rule)| builder.add(slot, rule));
    builder.finish(is_whole.then(|| fate_of(default)), seed)
}

/// What a rule's verdict is, if it has nothing else to say and no other rule is asked behind it.
fn verdict_of(actions: &Actions) -> Option<Verdict> {
    let Actions { verdict, redirect, mirror, trim, sample, count: _, digest, pin, next } = actions;
    let does_more = redirect.is_some() || mirror.is_some() || trim.is_some() || *digest || *pin;
    verdict.filter(|_| !does_more && sample.is_none() && *next == Next::Stop)
}

#[derive(Default)]
struct Builder {
    slots: Vec<u64>,
    pages: Vec<[u32; PAGE_ENTRIES]>,
    /// First pages, where there are some: of protocols, and of ports as in [`Layout::ports`].
    protocols: Option<usize>,
    ports: [Option<usize>; 4],
    prefixes: Prefixes,
    leaves_v6: bool,
}

impl Builder {
    /// Adds a rule behind all others; false, and nothing has changed, if it is not for these
    /// tables.
    fn add(&mut self, slot: Slot, rule: &Rule) -> bool {
        let Some((verdict, pieces)) = verdict_of(&rule.actions).zip(pieces_of(&rule.matches))
        else {
            return false;
        };
        let entry = fast::entry(self.slots.len() as u32, fate_of(verdict));
        let prefixes = pieces.iter().map(|piece| match piece {
            Piece::Prefixes { v4, .. } => v4.iter().map(|prefix| prefix.keys()).sum(),
            _ => 0,
        });
        if !self.prefixes.has_room(prefixes.sum()) {
            return false;
        }
        for piece in pieces {
            self.add_piece(piece, entry);
        }
        self.slots.push(slot.0.into());
        true
    }

    fn add_piece(&mut self, piece: Piece, entry: u32) {
        match piece {
            Piece::Protocols { versions, spans } => {
                let first = self.protocols.unwrap_or(self.pages.len());
                self.take_pages(first, VERSIONS);
                self.protocols = Some(first);
                for page in (0..VERSIONS).filter(|version| versions[*version]) {
                    let places = spans.iter().cloned().flatten();
                    places.for_each(|at| note(&mut self.pages[first + page][at as usize], entry));
                }
            }
            Piece::Ports { kind, spans } => {
                let first = self.ports[kind].unwrap_or(self.pages.len());
                self.take_pages(first, PORT_PAGES);
                self.ports[kind] = Some(first);
                for port in spans.into_iter().flatten().map(|port| port as usize) {
                    note(&mut self.pages[first + (port >> 8)][port & 0xff], entry);
                }
            }
            Piece::Prefixes { side, v4, some_v6 } => {
                self.leaves_v6 |= some_v6;
                v4.into_iter().for_each(|prefix| self.prefixes.add(side, prefix, entry));
            }
        }
    }

    /// Makes the pages from `first` on that are not there yet.
    fn take_pages(&mut self, first: usize, count: usize) {
        let end = self.pages.len().max(first + count);
        self.pages.resize(end, [0; PAGE_ENTRIES]);
    }

    fn finish(self, fallback: Option<Fate>, seed: u64) -> Option<FastTables> {
        if self.slots.is_empty() {
            return None;
        }
        let page = |first: Option<usize>| first.map_or(fast::NONE, |first| first as u32);
        let (prefixes, tables) = self.prefixes.placed(seed)?;
        let layout = Layout {
            fallback,
            is_ordered: (0u64..).zip(&self.slots).all(|(rank, slot)| rank == *slot),
            leaves_v6: self.leaves_v6,
            protocols: page(self.protocols),
            ports: self.ports.map(page),
            tables,
            seed,
        };
        Some(FastTables { layout, pages: self.pages, prefixes, ranks: self.slots })
    }
}

/// The first rule that is noted somewhere stays.
fn note(place: &mut u32, entry: u32) {
    if *place == 0 {
        *place = entry;
    }
}
