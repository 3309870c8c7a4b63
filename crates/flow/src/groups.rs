//! Flows added up by what they have in common, for a table of the largest.

mod field;

pub use field::{Cell, Field};

use crate::sink::{RecordSink, SinkCounts};
use crate::{FlowError, Record, Sums};
use ringside_core::Timestamp;
use std::collections::HashMap;
use std::ops::AddAssign;
use std::sync::{Arc, Mutex, MutexGuard};

/// Groups that are kept apart, some 20 MB: a table of the largest needs no more, and records of a
/// flood of sources bring as many as they like. What belongs to later ones is added up together.
pub const GROUPS_MAX: usize = 100_000;

/// What a group adds up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupSums {
    /// Flows. One with several records is one.
    pub flows: u64,
    /// Packets and octets on the wire, of both directions.
    pub both: Sums,
    /// Of these, from the initiator to the responder.
    pub forward: Sums,
}

impl GroupSums {
    fn of(record: &Record) -> GroupSums {
        let forward = Sums { packets: record.forward.packets, octets: record.forward.octets };
        let both = Sums { packets: record.packets(), octets: record.octets() };
        GroupSums { flows: u64::from(record.part == 1), both, forward }
    }
}

impl AddAssign for GroupSums {
    fn add_assign(&mut self, other: GroupSums) {
        self.flows += other.flows;
        self.both += other.both;
        self.forward += other.forward;
    }
}

/// What the largest groups are largest in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rank {
    /// Octets on the wire.
    #[default]
    Bytes,
    /// Packets.
    Packets,
    /// Flows.
    Flows,
}

impl Rank {
    /// All of them.
    pub const ALL: [Rank; 3] = [Rank::Bytes, Rank::Packets, Rank::Flows];

    /// The name, as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Rank::Bytes => "bytes",
            Rank::Packets => "packets",
            Rank::Flows => "flows",
        }
    }

    fn of(self, sums: &GroupSums) -> u64 {
        match self {
            Rank::Bytes => sums.both.octets,
            Rank::Packets => sums.both.packets,
            Rank::Flows => sums.flows,
        }
    }
}

impl std::str::FromStr for Rank {
    type Err = FlowError;

    /// # Errors
    /// [`FlowError::Unknown`].
    fn from_str(name: &str) -> Result<Rank, FlowError> {
        let found = Rank::ALL.into_iter().find(|rank| rank.name() == name);
        found.ok_or_else(|| FlowError::Unknown {
            what: "order",
            name: name.into(),
            known: Rank::ALL.map(Rank::name).join(", "),
        })
    }
}

/// Adds flows up by the values of some fields; at most [`GROUPS_MAX`] groups are kept apart.
#[derive(Clone, Debug)]
pub struct Groups {
    fields: Vec<Field>,
    sums: HashMap<Box<[Cell]>, GroupSums>,
    /// What belongs to groups for which there was no room.
    others: GroupSums,
    total: GroupSums,
    /// The values of one record: its memory is used again.
    cells: Vec<Cell>,
}

/// One group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The values of the fields, in their order.
    pub cells: Box<[Cell]>,
    /// What it adds up to.
    pub sums: GroupSums,
}

/// The largest groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Top {
    /// The largest first.
    pub groups: Vec<Group>,
    /// All the others together.
    pub others: GroupSums,
    /// Groups that were kept apart, these and the others.
    pub count: usize,
    /// True if there were more of them than could be kept apart.
    pub is_full: bool,
    /// All of them together.
    pub total: GroupSums,
}

impl Groups {
    /// By the values of these fields; without any there is one group.
    pub fn new(fields: Vec<Field>) -> Groups {
        let (sums, cells) = (HashMap::new(), Vec::new());
        Groups { fields, sums, others: GroupSums::default(), total: GroupSums::default(), cells }
    }

    /// Adds a record.
    pub fn add(&mut self, record: &Record) {
        let one = GroupSums::of(record);
        self.total += one;
        self.cells.clear();
        self.cells.extend(self.fields.iter().map(|field| field.cell(record)));
        if let Some(sums) = self.sums.get_mut(&self.cells[..]) {
            *sums += one;
        } else if self.sums.len() < GROUPS_MAX {
            self.sums.insert(self.cells.clone().into(), one);
        } else {
            self.others += one;
        }
    }

    /// The largest `count` groups of these and, where they are of the same fields, of `also`
    /// together. Of equal ones the first by their values.
    pub fn top(&self, also: Option<&Groups>, rank: Rank, count: usize) -> Top {
        let (mut total, mut left) = (self.total, self.others);
        let mut all: Vec<(&[Cell], GroupSums)> = Vec::with_capacity(self.sums.len());
        for (cells, &sums) in &self.sums {
            let more = also.and_then(|also| also.sums.get(cells)).copied().unwrap_or_default();
            let mut both = sums;
            both += more;
            all.push((cells, both));
        }
        if let Some(also) = also {
            total += also.total;
            left += also.others;
            let new = also.sums.iter().filter(|(cells, _)| !self.sums.contains_key(*cells));
            all.extend(new.map(|(cells, &sums)| (&**cells, sums)));
        }
        let kept_apart = all.len();
        if kept_apart > count && count > 0 {
            all.select_nth_unstable_by(count - 1, |a, b| compare(a, b, rank));
        }
        for (_, sums) in all.drain(count.min(kept_apart)..) {
            left += sums;
        }
        all.sort_unstable_by(|a, b| compare(a, b, rank));
        let group = |(cells, sums): (&[Cell], GroupSums)| Group { cells: cells.into(), sums };
        let is_full = [Some(self), also].into_iter().flatten().any(Groups::is_full);
        let groups = all.into_iter().map(group).collect();
        Top { groups, others: left, count: kept_apart, is_full, total }
    }

    /// True if some groups are not kept apart.
    fn is_full(&self) -> bool {
        self.others != GroupSums::default()
    }
}

fn compare(a: &(&[Cell], GroupSums), b: &(&[Cell], GroupSums), rank: Rank) -> std::cmp::Ordering {
    rank.of(&b.1).cmp(&rank.of(&a.1)).then_with(|| a.0.cmp(b.0))
}

/// Adds records to groups that others look at meanwhile.
#[derive(Debug)]
pub struct GroupsSink {
    groups: Arc<Mutex<Groups>>,
    counts: SinkCounts,
}

impl GroupsSink {
    /// Adds to these groups.
    pub fn new(groups: Arc<Mutex<Groups>>) -> GroupsSink {
        GroupsSink { groups, counts: SinkCounts::default() }
    }
}

impl RecordSink for GroupsSink {
    fn put(&mut self, record: &Record, _interface: &str, _now: Timestamp) {
        lock(&self.groups).add(record);
        self.counts.delivered.add(record);
    }

    fn finish(&mut self, _now: Timestamp) {}

    fn counts(&self) -> SinkCounts {
        self.counts
    }
}

/// What a thread that panicked has added is whole: sums alone.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests;
