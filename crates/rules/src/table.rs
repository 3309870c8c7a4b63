//! Wildcard rules as bit vectors: which of many rules a packet matches, at a cost that hardly grows
//! with their number, while rules come and go.
//!
//! Each rule has a bit. Each of five fields (addresses, ports, protocol) leads to a *class*: a
//! value of the field falls into one, and the class has a *row* of bits, one for each rule that
//! accepts such values. A packet's rules are the `and` of its five rows (Lakshman and Stiliadis,
//! SIGCOMM 1998), and a bit above each word of a row says whether the word is empty, so that most
//! of it is never looked at (Baboescu and Varghese, SIGCOMM 2001).
//!
//! One writer, the [`Editor`], changes a [`Table`] under any number of readers, without locks. A
//! rule counts once its bit is *live*: all of its row bits are written before, so that a reader
//! sees a rule whole or not at all. While two or more rules change, a lookup may mix old and new
//! state. A reader that must not mix them repeats the lookup if [`Control::Changes`] has moved.
//! What a reader may still be looking at is used again only after [`Editor::reclaim`].

mod find;
mod order;
mod prefixes;
mod rows;
mod spans;

pub use find::Matches;
pub use prefixes::{AddressPrefix, Space};
pub use spans::Span;

use crate::key::{NO_PORT, NO_PROTOCOL};
use crate::memory::{self, Control, Memory};
use order::Order;
use prefixes::{Prefixes, Trie};
use ringside_sys::words::Words64;
use rows::{Books, Classes, Rows};
use spans::{Spans, Values};
use std::fmt;
use std::sync::atomic::Ordering;

/// A rule's bit: its place in every row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Bit(u32);

/// The order of a rule among the others. Entries with the same id are parts of one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number {
    /// Lower ones are met first.
    pub id: u32,
    /// Index of the part, from 0.
    pub part: u16,
}

/// A rule that a packet matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Found {
    /// The rule's id.
    pub id: u32,
    /// What it was added with.
    pub slot: u32,
}

impl Found {
    /// As it lies in memory.
    pub(crate) fn to_word(self) -> u64 {
        u64::from(self.id) << 32 | u64::from(self.slot)
    }

    pub(crate) fn of_word(word: u64) -> Found {
        Found { id: (word >> 32) as u32, slot: word as u32 }
    }
}

/// What a rule accepts, field by field: one of the values listed in each. The values of a list are
/// disjoint, and spans have others between them. An empty list accepts nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cube {
    /// Source addresses.
    pub sources: Vec<AddressPrefix>,
    /// Destination addresses.
    pub destinations: Vec<AddressPrefix>,
    /// Source ports; [`NO_PORT`] is a packet without ports.
    pub source_ports: Vec<Span>,
    /// Destination ports.
    pub destination_ports: Vec<Span>,
    /// Protocols above IP; [`NO_PROTOCOL`] is a packet without IP.
    pub protocols: Vec<Span>,
}

impl Cube {
    /// Accepts every packet.
    pub fn any() -> Cube {
        Cube {
            sources: AddressPrefix::ANY.to_vec(),
            destinations: AddressPrefix::ANY.to_vec(),
            source_ports: vec![Span { first: 0, last: NO_PORT }],
            destination_ports: vec![Span { first: 0, last: NO_PORT }],
            protocols: vec![Span { first: 0, last: NO_PROTOCOL }],
        }
    }
}

/// A limit of the table that a change would pass; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The number of rules.
    Rules,
    /// The number of classes.
    Classes,
    /// Inner nodes of the tries.
    Nodes,
    /// Exact rules.
    Exact,
    /// Rules between two others; a new table with all rules has room.
    Order,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Full::Rules => "no room for another rule",
            Full::Classes => "too many different prefixes and port ranges",
            Full::Nodes => "the prefixes are too many and too different",
            Full::Exact => "no room for another exact rule",
            Full::Order => "no room between two rules until all are laid out anew",
        })
    }
}

impl std::error::Error for Full {}

/// The rules as readers see them. Clones are the same rules.
#[derive(Clone, Debug)]
pub struct Table {
    rows: Rows,
    sources: Trie,
    destinations: Trie,
    source_ports: Values,
    destination_ports: Values,
    protocols: Values,
    /// The rules, by bit: [`Found`].
    bits: Words64,
}

/// The rules as they are changed, by one at a time.
#[derive(Debug)]
pub struct Editor {
    table: Table,
    memory: Memory,
    classes: Classes,
    sources: Prefixes,
    destinations: Prefixes,
    source_ports: Spans,
    destination_ports: Spans,
    protocols: Spans,
    order: Order,
    /// What the rules accept, by bit; also of those that were removed and not reclaimed.
    cubes: Vec<Option<Cube>>,
    /// Bits whose rules went since the last reclaim.
    retired: Vec<Bit>,
}

impl Table {
    /// The table that lies in `memory`.
    pub fn of(memory: &Memory) -> Table {
        let all = memory.layout.nodes - memory::INNER_AT;
        let (first, middle) = (memory::INNER_AT, memory::INNER_AT + all / 2);
        let nodes = &memory.nodes;
        Table {
            rows: Rows::of(memory),
            sources: Trie::new(nodes, memory::SOURCES_AT, first..middle),
            destinations: Trie::new(nodes, memory::DESTINATIONS_AT, middle..first + all),
            source_ports: Values::new(nodes, memory::SOURCE_PORTS_AT, NO_PORT),
            destination_ports: Values::new(nodes, memory::DESTINATION_PORTS_AT, NO_PORT),
            protocols: Values::new(nodes, memory::PROTOCOLS_AT, NO_PROTOCOL),
            bits: memory.bits.clone(),
        }
    }
}

impl Editor {
    /// An empty table in memory that is all 0.
    ///
    /// # Errors
    /// There is no room for the classes that are always there.
    pub fn new(memory: &Memory) -> Result<Editor, Full> {
        let table = Table::of(memory);
        let mut classes = Classes::new(memory.layout.rows as u32 - 1);
        let books = &mut Books { rows: &table.rows, classes: &mut classes };
        let rules = memory.layout.bits;
        Ok(Editor {
            sources: Prefixes::new(books, &table.sources)?,
            destinations: Prefixes::new(books, &table.destinations)?,
            source_ports: Spans::new(books, &table.source_ports)?,
            destination_ports: Spans::new(books, &table.destination_ports)?,
            protocols: Spans::new(books, &table.protocols)?,
            order: Order::new(rules.div_ceil(64)),
            cubes: vec![None; rules],
            retired: Vec::new(),
            memory: memory.clone(),
            classes,
            table,
        })
    }

    /// What readers look at.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Adds rule `number`, which must be new. Readers see it whole from its end on.
    ///
    /// # Errors
    /// There is no room; the rules are as they were.
    pub fn add(&mut self, number: Number, slot: u32, cube: Cube) -> Result<(), Full> {
        let bit = self.order.take(number)?;
        if let Err(full) = self.spread(bit, &cube) {
            self.gather(bit, &cube);
            self.order.remove(number);
            self.order.free(bit);
            return Err(full);
        }
        self.cubes[bit.0 as usize] = Some(cube);
        let found = Found { id: number.id, slot };
        self.table.bits[bit.0 as usize].store(found.to_word(), Ordering::Release);
        self.table.rows.set_live(bit);
        self.changed();
        Ok(())
    }

    /// Removes a rule: readers that begin after this do not see it. False if there is none.
    pub fn remove(&mut self, number: Number) -> bool {
        let Some(bit) = self.order.remove(number) else { return false };
        self.table.rows.clear_live(bit);
        self.retired.push(bit);
        self.changed();
        true
    }

    /// Makes what was removed free for new rules. No reader that began before the last change may
    /// still be at work.
    pub fn reclaim(&mut self) {
        // What these changes retire is looked at by readers that begin now; it waits for the next
        // call, and what waited is free.
        self.classes.reclaim();
        self.sources.reclaim();
        self.destinations.reclaim();
        for bit in std::mem::take(&mut self.retired) {
            if let Some(cube) = self.cubes[bit.0 as usize].take() {
                self.gather(bit, &cube);
            }
            self.order.free(bit);
        }
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.order.rules()
    }

    /// True if there is no rule.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rules that were removed and not reclaimed.
    pub fn retired(&self) -> usize {
        self.retired.len()
    }

    /// What readers remember is old now.
    fn changed(&self) {
        self.memory.set(Control::Wildcards, self.len() as u64);
        self.memory.set(Control::Generation, self.memory.get(Control::Generation) + 1);
        self.memory.changed();
    }

    /// Writes the bits of a rule that is not live.
    fn spread(&mut self, bit: Bit, cube: &Cube) -> Result<(), Full> {
        let table = &self.table;
        let books = &mut Books { rows: &table.rows, classes: &mut self.classes };
        for &prefix in &cube.sources {
            self.sources.add(books, &table.sources, prefix, bit)?;
        }
        for &prefix in &cube.destinations {
            self.destinations.add(books, &table.destinations, prefix, bit)?;
        }
        for &span in &cube.source_ports {
            self.source_ports.add(books, &table.source_ports, span, bit)?;
        }
        for &span in &cube.destination_ports {
            self.destination_ports.add(books, &table.destination_ports, span, bit)?;
        }
        for &span in &cube.protocols {
            self.protocols.add(books, &table.protocols, span, bit)?;
        }
        Ok(())
    }

    /// Takes away the bits of a rule that is not live; what `spread` did not come to is passed.
    fn gather(&mut self, bit: Bit, cube: &Cube) {
        let table = &self.table;
        let books = &mut Books { rows: &table.rows, classes: &mut self.classes };
        for &prefix in &cube.sources {
            self.sources.remove(books, &table.sources, prefix, bit);
        }
        for &prefix in &cube.destinations {
            self.destinations.remove(books, &table.destinations, prefix, bit);
        }
        for &span in &cube.source_ports {
            self.source_ports.remove(books, &table.source_ports, span, bit);
        }
        for &span in &cube.destination_ports {
            self.destination_ports.remove(books, &table.destination_ports, span, bit);
        }
        for &span in &cube.protocols {
            self.protocols.remove(books, &table.protocols, span, bit);
        }
    }
}

#[cfg(feature = "loom")]
#[cfg(test)]
mod model;
#[cfg(not(feature = "loom"))]
#[cfg(test)]
mod tests;
