//! The one writer of the rules in force.
//!
//! A [`Book`] knows every rule by its id, gives it a *slot*, and writes it to the tables in
//! [`Memory`], where readers find the slot. The judges in user space and the program in a driver
//! need more of a rule than the tables hold. Each keeps that by slot and is a [`SlotStore`]: it
//! gets a rule before any reader can meet it.

use crate::cover::Cover;
use crate::exact::ExactEditor;
use crate::key::Key;
use crate::language::{Match, Rule, RuleId};
use crate::memory::Memory;
use crate::table::{Editor, Found, Full, Number};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// A rule's number while it is at work: the place of its counters and of whatever else is kept for
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

/// Where the rest of each rule is kept by slot, for those that judge frames. It gets each rule
/// before readers can meet it.
pub trait SlotStore {
    /// Why a rule cannot be used there.
    type Error;

    /// Adds a rule. `needs` is what is to be asked of a packet beyond what the tables say; none
    /// if they say all.
    ///
    /// # Errors
    /// The rule cannot be used here; the book is unchanged.
    fn put(
        &mut self,
        slot: Slot,
        rule: &Arc<Rule>,
        needs: Option<&Match>,
    ) -> Result<(), Self::Error>;

    /// What the tables hold next to an exact rule, so that readers need not look elsewhere.
    fn note(&self, _slot: Slot) -> u64 {
        0
    }

    /// The rule was removed: readers that begin now do not meet it.
    fn retire(&mut self, _slot: Slot) {}

    /// No reader meets it any more, and the slot is free.
    fn clear(&mut self, _slot: Slot) {}
}

/// Why a change was refused; everything is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BookError<E> {
    /// The id is taken.
    #[error("rule {0} is there already; delete it first, or give the new one another id")]
    Exists(RuleId),
    /// The tables have no room; larger ones may.
    #[error("{0}")]
    Full(Full),
    /// The store refused the rule.
    #[error(transparent)]
    Store(E),
}

/// The rules in force.
#[derive(Debug)]
pub struct Book<P> {
    store: P,
    exact: ExactEditor,
    table: Editor,
    rules: BTreeMap<RuleId, Entry>,
    /// Slots that were ever given out.
    used: u32,
    free: Vec<Slot>,
    /// Slots of rules that went since the last reclaim.
    retired: Vec<Slot>,
}

#[derive(Debug)]
struct Entry {
    slot: Slot,
    rule: Arc<Rule>,
    way: Way,
}

/// How a rule is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By one key, or by two.
    Exact(Key, Option<Key>),
    /// By this number of cubes.
    Cubes(u16),
}

impl<P: SlotStore> Book<P> {
    /// No rules, in memory that is all 0.
    ///
    /// # Errors
    /// There is not even room for none.
    pub fn new(memory: &Memory, store: P) -> Result<Book<P>, Full> {
        Ok(Book {
            store,
            exact: ExactEditor::new(memory),
            table: Editor::new(memory)?,
            rules: BTreeMap::new(),
            used: 0,
            free: Vec::new(),
            retired: Vec::new(),
        })
    }

    /// Adds a rule: readers meet it from the end of this call on.
    ///
    /// # Errors
    /// The id is taken, there is no room, or the store refused.
    pub fn add(&mut self, rule: Arc<Rule>) -> Result<Slot, BookError<P::Error>> {
        let id = rule.id;
        if self.rules.contains_key(&id) {
            return Err(BookError::Exists(id));
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.used += 1;
            Slot(self.used - 1)
        });
        let result = match exact_keys(&rule) {
            Some(keys) => self.add_exact(slot, &rule, keys),
            None => self.add_cubes(slot, &rule),
        };
        match result {
            Ok(way) => {
                self.rules.insert(id, Entry { slot, rule, way });
                Ok(slot)
            }
            Err(error) => {
                match error {
                    // No reader can know the slot. A reclaim for it alone would come too early for
                    // what the last change has taken out.
                    BookError::Store(_) => self.free.push(slot),
                    // Readers may have met a part of it.
                    _ => self.retired.push(slot),
                }
                Err(error)
            }
        }
    }

    /// Removes a rule: readers that begin after this call do not meet it.
    pub fn remove(&mut self, id: RuleId) -> Option<(Slot, Arc<Rule>)> {
        let Entry { slot, rule, way } = self.rules.remove(&id)?;
        match way {
            Way::Exact(key, back) => {
                for key in std::iter::once(key).chain(back) {
                    self.exact.remove(&key, id.0);
                }
            }
            Way::Cubes(parts) => self.remove_parts(id, parts),
        }
        self.store.retire(slot);
        self.retired.push(slot);
        Some((slot, rule))
    }

    /// Makes the room of removed rules free. No reader that began before the last change may still
    /// be at work.
    pub fn reclaim(&mut self) {
        self.exact.reclaim();
        self.table.reclaim();
        for slot in std::mem::take(&mut self.retired) {
            self.store.clear(slot);
            self.free.push(slot);
        }
    }

    /// True if a reclaim would free something.
    pub fn has_retired(&self) -> bool {
        !self.retired.is_empty()
    }

    /// The rules by id.
    pub fn rules(&self) -> impl Iterator<Item = (Slot, &Arc<Rule>)> {
        self.rules.values().map(|entry| (entry.slot, &entry.rule))
    }

    /// The rules with higher ids than `id`; all without one.
    pub fn rules_after(&self, id: Option<RuleId>) -> impl Iterator<Item = (Slot, &Arc<Rule>)> {
        let from = id.map_or(Bound::Unbounded, Bound::Excluded);
        self.rules.range((from, Bound::Unbounded)).map(|(_, entry)| (entry.slot, &entry.rule))
    }

    /// The highest id.
    pub fn last(&self) -> Option<RuleId> {
        self.rules.keys().next_back().copied()
    }

    /// The rule with this id, and its slot.
    pub fn get(&self, id: RuleId) -> Option<(Slot, &Arc<Rule>)> {
        self.rules.get(&id).map(|entry| (entry.slot, &entry.rule))
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The store of the book's rules.
    pub fn store(&self) -> &P {
        &self.store
    }

    /// The store of the book's rules, to be changed.
    pub fn store_mut(&mut self) -> &mut P {
        &mut self.store
    }

    fn add_exact(
        &mut self,
        slot: Slot,
        rule: &Arc<Rule>,
        (key, back): (Key, Option<Key>),
    ) -> Result<Way, BookError<P::Error>> {
        self.store.put(slot, rule, None).map_err(BookError::Store)?;
        let found = Found { id: rule.id.0, slot: slot.0 };
        let note = self.store.note(slot);
        let both = self.exact.add_noted(&key, found, note).and_then(|()| match &back {
            Some(back) => self.exact.add_noted(back, found, note).inspect_err(|_| {
                self.exact.remove(&key, found.id);
            }),
            None => Ok(()),
        });
        both.map_err(|full| {
            self.store.retire(slot);
            BookError::Full(full)
        })?;
        Ok(Way::Exact(key, back))
    }

    fn add_cubes(&mut self, slot: Slot, rule: &Arc<Rule>) -> Result<Way, BookError<P::Error>> {
        let cover = Cover::of(&rule.matches);
        let needs = (!cover.is_exact).then_some(&rule.matches);
        self.store.put(slot, rule, needs).map_err(BookError::Store)?;
        let id = rule.id;
        let mut parts = 0;
        for cube in cover.cubes {
            let number = Number { id: id.0, part: parts };
            if let Err(full) = self.table.add(number, slot.0, cube) {
                self.remove_parts(id, parts);
                self.store.retire(slot);
                return Err(BookError::Full(full));
            }
            parts += 1;
        }
        Ok(Way::Cubes(parts))
    }

    fn remove_parts(&mut self, id: RuleId, parts: u16) {
        for part in 0..parts {
            self.table.remove(Number { id: id.0, part });
        }
    }
}

/// The keys of an exact rule: one, and with `bidir` that of the way back, if it is another.
fn exact_keys(rule: &Rule) -> Option<(Key, Option<Key>)> {
    let flow = rule.matches.exact_flow()?;
    let ports = (flow.source_port.0, flow.destination_port.0);
    let key = Key::new(flow.source, flow.destination, flow.protocol.0, Some(ports));
    let back = key.exchanged();
    Some((key, (rule.matches.bidirectional && back != key).then_some(back)))
}
