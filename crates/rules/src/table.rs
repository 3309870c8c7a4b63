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
//! sees a rule whole or not at all. What a reader may still be looking at is used again only after
//! [`Editor::reclaim`].

mod find;
mod order;
mod prefixes;
mod rows;
mod spans;

pub use find::{Key, Matches};
pub use prefixes::{AddressPrefix, Space};
pub use spans::Span;

use order::Order;
use prefixes::{Prefixes, Trie};
use rows::{Books, Classes, Rows};
use spans::{Spans, Values};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Sizes of a table, fixed when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Rules. A quarter more than are expected leaves room for those that come between others.
    pub rules: u32,
    /// Rows of all fields together. Each different prefix of a field needs one, and each different
    /// border of port ranges.
    pub classes: u32,
    /// Inner nodes of the two address tries, 1 KiB each.
    pub nodes: u32,
}

/// A rule's bit: its place in every row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bit(pub u32);

/// What a rule accepts, field by field: one of the values listed in each. The values of a list are
/// disjoint. An empty list accepts nothing.
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
    /// Everything.
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

/// The port of a packet that has none.
pub const NO_PORT: u32 = 0x1_0000;
/// The protocol of a packet that is not IP.
pub const NO_PROTOCOL: u32 = 0x100;

/// A limit of the table that a change would pass; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// Rules.
    Rules,
    /// Rows.
    Classes,
    /// Inner nodes of the tries.
    Nodes,
    /// Rules between two others; a new table with all rules has room.
    Order,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Full::Rules => "no room for another rule",
            Full::Classes => "too many different prefixes and port ranges",
            Full::Nodes => "the prefixes are too many and too different",
            Full::Order => "no room between two rules until all are laid out anew",
        })
    }
}

impl std::error::Error for Full {}

/// The rules as readers see them.
#[derive(Debug)]
pub struct Table {
    rows: Rows,
    sources: Trie,
    destinations: Trie,
    source_ports: Values,
    destination_ports: Values,
    protocols: Values,
    /// Numbers of the rules, by bit.
    numbers: Box<[AtomicU32]>,
}

/// The rules as they are changed, by one at a time.
#[derive(Debug)]
pub struct Editor {
    table: Arc<Table>,
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
    fn new(capacity: Capacity) -> Table {
        let rows = Rows::new(capacity.rules, capacity.classes);
        Table {
            sources: Trie::new(capacity.nodes / 2),
            destinations: Trie::new(capacity.nodes / 2),
            source_ports: Values::new(NO_PORT),
            destination_ports: Values::new(NO_PORT),
            protocols: Values::new(NO_PROTOCOL),
            numbers: (0..rows.rules()).map(|_| AtomicU32::new(0)).collect(),
            rows,
        }
    }
}

impl Editor {
    /// An empty table.
    ///
    /// # Errors
    /// The capacity has no room for the classes that are always there.
    pub fn new(capacity: Capacity) -> Result<Editor, Full> {
        let table = Arc::new(Table::new(capacity));
        let mut classes = Classes::new(capacity.classes);
        let books = &mut Books { rows: &table.rows, classes: &mut classes };
        let rules = table.numbers.len();
        Ok(Editor {
            sources: Prefixes::new(books, &table.sources)?,
            destinations: Prefixes::new(books, &table.destinations)?,
            source_ports: Spans::new(books, &table.source_ports)?,
            destination_ports: Spans::new(books, &table.destination_ports)?,
            protocols: Spans::new(books, &table.protocols)?,
            order: Order::new(rules.div_ceil(64)),
            cubes: vec![None; rules],
            retired: Vec::new(),
            classes,
            table,
        })
    }

    /// What readers look at.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Adds rule `number`, which must be new. Readers see it whole from its end on. Returns its
    /// bit, which stays the same as long as the rule is there.
    ///
    /// # Errors
    /// There is no room; the rules are as they were.
    pub fn add(&mut self, number: u32, cube: Cube) -> Result<Bit, Full> {
        let bit = self.order.take(number)?;
        if let Err(full) = self.spread(bit, &cube) {
            self.gather(bit, &cube);
            self.order.remove(number);
            self.order.free(bit);
            return Err(full);
        }
        self.cubes[bit.0 as usize] = Some(cube);
        self.table.numbers[bit.0 as usize].store(number, Ordering::Release);
        self.table.rows.set_live(bit);
        Ok(bit)
    }

    /// Removes a rule: readers that begin after this do not see it. Returns the bit that it had,
    /// which is used again only after a reclaim; none if there is no such rule.
    pub fn remove(&mut self, number: u32) -> Option<Bit> {
        let bit = self.order.remove(number)?;
        self.table.rows.clear_live(bit);
        self.retired.push(bit);
        Some(bit)
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

    /// The bit of a rule.
    pub fn bit(&self, number: u32) -> Option<Bit> {
        self.order.bit(number)
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

    /// Writes the bits of a rule that is not live.
    fn spread(&mut self, bit: Bit, cube: &Cube) -> Result<(), Full> {
        let table = &*self.table;
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
        let table = &*self.table;
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

#[cfg(test)]
mod tests;
