//! A directory, its file system and its machine in memory. It plays the other side: files grow,
//! are finished, vanish and appear while retention looks, and the process may be killed at each of
//! its steps. At each deletion it judges, by sums of its own, whether that was due.

use super::super::RetentionError;
use super::super::enforce::Order;
use super::super::folder::{Born, FileFacts, Folder};
use super::super::state::State;
use crate::recording::END_BYTES;
use ringside_core::Timestamp;
use ringside_sys::clock::Clocks;
use ringside_testkit::Random;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::Path;
use std::time::Duration;

/// Unit of all sizes.
pub const PAGE: u64 = 4096;

/// Anything in the directory.
#[derive(Clone, Debug)]
pub struct Entry {
    pub facts: FileFacts,
    /// Name and header say that it is of a recording.
    pub is_ours: bool,
    /// Created by a recorder that has not written the header yet.
    pub is_begun: bool,
    /// The system refuses to delete it.
    pub is_stuck: bool,
    /// Someone has it open: deleting it frees nothing.
    pub is_held: bool,
    /// When it came, by a clock that never steps.
    pub came_ns: u64,
}

/// What retention was given since it took the lock.
#[derive(Default)]
struct View {
    files: BTreeMap<(u64, String), FileFacts>,
    live: HashMap<String, bool>,
    pinned: BTreeSet<String>,
    free: u64,
    /// Bytes that came from elsewhere since the files were listed.
    arrived: u64,
}

/// What it was asked for.
#[derive(Clone, Copy, Default)]
pub struct Asked {
    pub limit: Option<u64>,
    pub min_free: Option<u64>,
    pub limit_age: Option<Duration>,
    pub room: u64,
}

pub struct World {
    pub random: Random,
    pub entries: BTreeMap<String, Entry>,
    pub state: Option<State>,
    pub live: BTreeSet<String>,
    /// Names of files that somebody wants to keep.
    pub pinned: BTreeSet<String>,
    pub capacity: u64,
    /// Bytes that other programs use.
    pub others: u64,
    pub true_ns: u64,
    pub clocks: Clocks,
    pub was_stepped: bool,
    /// Steps until the running process is killed.
    pub steps_left: Option<u32>,
    pub was_killed: bool,
    /// Files of recordings may not exceed this at any step.
    pub bound: u128,
    pub asked: Asked,
    pub deletions: u64,
    view: View,
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut random = Random::new(seed);
        let capacity = PAGE * (200 + random.below(400) as u64);
        World {
            random,
            entries: BTreeMap::new(),
            state: None,
            live: BTreeSet::new(),
            pinned: BTreeSet::new(),
            capacity,
            others: 0,
            true_ns: 0,
            clocks: Clocks { wall: Timestamp(1 << 60), boot_ns: 1 << 40, boot_id: [1; 16] },
            was_stepped: false,
            steps_left: None,
            was_killed: false,
            bound: u128::MAX,
            asked: Asked::default(),
            deletions: 0,
            view: View::default(),
        }
    }

    pub fn chance(&mut self, of: usize) -> bool {
        self.random.below(of) == 0
    }

    pub fn pages(&mut self, most: usize) -> u64 {
        PAGE * self.random.below(most + 1) as u64
    }

    /// Time passes on all clocks.
    pub fn pass(&mut self, ns: u64) {
        self.true_ns += ns;
        self.clocks.boot_ns += ns;
        self.clocks.wall.0 = self.clocks.wall.0.saturating_add(ns);
    }

    pub fn born(&self) -> Born {
        let Clocks { wall, boot_ns, boot_id } = self.clocks;
        Born { wall, boot_ns, boot_id }
    }

    /// Adds something, which must be new.
    pub fn add(&mut self, facts: FileFacts, is_ours: bool) -> &mut Entry {
        let (name, came_ns) = (facts.name.clone(), self.true_ns);
        let entry =
            Entry { facts, is_ours, is_begun: false, is_stuck: false, is_held: false, came_ns };
        assert!(self.entries.insert(name.clone(), entry).is_none(), "{name} is there already");
        self.entries.get_mut(&name).unwrap()
    }

    /// A file of another recording, with whatever serial it had there.
    pub fn copy_in(&mut self, number: u64) {
        let most = self.random.below(60) as u64;
        let serial = if self.chance(40) { 1 << 50 } else { most };
        let size_bytes = PAGE + self.pages(12);
        let bytes_max = if self.chance(3) { size_bytes + self.pages(20) } else { size_bytes };
        let facts = FileFacts {
            name: format!("elsewhere-{number}"),
            is_spare: self.chance(8),
            size_bytes,
            allocated_bytes: size_bytes,
            header_bytes: PAGE,
            begins_with_room: false,
            run: "elsewhere".into(),
            serial,
            bytes_max,
            born: self.born(),
        };
        let charged = self.charge(&facts, false);
        self.add(facts, true);
        self.bound = self.bound.saturating_add(charged.into());
        self.view.arrived += charged;
    }

    /// One step of the process that runs: others do something before it, or it is killed.
    pub fn step(&mut self) -> io::Result<()> {
        self.check_bound();
        if self.steps_left == Some(0) {
            self.was_killed = true;
        }
        if self.was_killed {
            return Err(io::Error::other("killed"));
        }
        self.steps_left = self.steps_left.map(|steps| steps - 1);
        match self.random.below(24) {
            0 => self.grow_any(),
            1 => self.finish_any(),
            2 if self.chance(4) => self.vanish_any(),
            3 if self.chance(8) => {
                let number = self.random.next_u64();
                self.copy_in(number);
            }
            _ => {}
        }
        self.check_bound();
        Ok(())
    }

    fn check_bound(&self) {
        let of_recordings = |entry: &&Entry| entry.is_ours || entry.is_begun;
        let files = self.entries.values().filter(of_recordings);
        let taken: u128 = files.map(|entry| u128::from(entry.facts.taken_bytes())).sum();
        assert!(taken <= self.bound, "{taken} bytes, at most {} may be there", self.bound);
    }

    fn any(&mut self, wanted: impl Fn(&Entry) -> bool) -> Option<String> {
        let names = || self.entries.iter().filter(|(_, entry)| wanted(entry));
        let count = names().count();
        if count == 0 {
            return None;
        }
        let at = (self.random.next_u64() % count as u64) as usize;
        names().nth(at).map(|(name, _)| name.clone())
    }

    fn any_open(&mut self) -> Option<String> {
        let live = std::mem::take(&mut self.live);
        let found = self.any(|entry| {
            let facts = &entry.facts;
            entry.is_ours && !facts.is_spare && facts.is_unfinished() && live.contains(&facts.run)
        });
        self.live = live;
        found
    }

    /// A live run writes to a file, up to its largest size.
    pub fn grow_any(&mut self) {
        let Some(name) = self.any_open() else { return };
        let more = self.pages(6);
        let facts = &mut self.entries.get_mut(&name).unwrap().facts;
        let most = if facts.bytes_max == 0 { u64::MAX } else { facts.bytes_max };
        let before = facts.taken_bytes();
        facts.size_bytes = (facts.size_bytes + more).min(most);
        facts.allocated_bytes = facts.allocated_bytes.max(facts.size_bytes);
        if facts.bytes_max == 0 {
            let grown = facts.taken_bytes() - before;
            self.bound = self.bound.saturating_add(grown.into());
            self.view.arrived += grown;
        }
    }

    /// A live run says that a file is written.
    fn finish_any(&mut self) {
        let Some(name) = self.any_open() else { return };
        let facts = &mut self.entries.get_mut(&name).unwrap().facts;
        facts.bytes_max = facts.size_bytes;
        facts.allocated_bytes = facts.size_bytes;
    }

    /// Someone deletes something.
    pub fn vanish_any(&mut self) {
        if let Some(name) = self.any(|_| true) {
            self.entries.remove(&name);
        }
    }

    /// The system changes its mind about what it refuses to delete, or frees.
    pub fn stick_any(&mut self) {
        let (stuck, held) = (self.chance(8), self.chance(2));
        if let Some(name) = self.any(|entry| entry.is_ours) {
            let entry = self.entries.get_mut(&name).unwrap();
            (entry.is_stuck, entry.is_held) = (stuck, held);
        }
    }

    /// Bytes that a file takes or may come to take.
    fn charge(&self, facts: &FileFacts, is_live: bool) -> u64 {
        let taken = facts.size_bytes.max(facts.allocated_bytes);
        let finished = facts.bytes_max != 0 && facts.bytes_max <= facts.size_bytes;
        if finished {
            taken
        } else if is_live {
            taken.max(facts.bytes_max)
        } else {
            taken.max(facts.bytes_max.min(facts.size_bytes + END_BYTES))
        }
    }

    /// What all files take or may come to take, in truth.
    pub fn charged(&self) -> u128 {
        let ours = self.entries.values().filter(|entry| entry.is_ours);
        let charge = |facts: &FileFacts| self.charge(facts, self.live.contains(&facts.run));
        ours.map(|entry| u128::from(charge(&entry.facts))).sum()
    }

    pub fn arrived(&self) -> u64 {
        self.view.arrived
    }

    /// Bytes free on the file system, in truth.
    pub fn free(&self) -> u64 {
        let allocated = |entry: &Entry| entry.facts.allocated_bytes;
        let taken: u64 = self.entries.values().map(allocated).sum();
        self.capacity.saturating_sub(taken + self.others)
    }

    pub fn begin(&mut self, order: &Order<'_>, asked: Asked, steps_left: Option<u32>) {
        self.view = View::default();
        self.view.live.insert(order.run.to_owned(), true);
        (self.asked, self.steps_left, self.was_killed) = (asked, steps_left, false);
    }

    /// True if retention knows that no process writes this file any more.
    fn is_closed(&self, facts: &FileFacts) -> bool {
        !facts.is_unfinished() || self.view.live.get(&facts.run) == Some(&false)
    }

    /// True if it may go: it is not pinned either.
    fn may_go(&self, facts: &FileFacts) -> bool {
        self.is_closed(facts) && !self.view.pinned.contains(&facts.name)
    }

    /// The files that may go that retention knows of, in the order in which they have to.
    pub fn closed(&self) -> impl Iterator<Item = &FileFacts> {
        self.view.files.values().filter(|facts| self.may_go(facts))
    }

    /// What retention knows that files hold that may not go.
    pub fn known_held(&self) -> u128 {
        let held = self.view.files.values().filter(|facts| !self.may_go(facts));
        held.map(|facts| u128::from(self.charge(facts, !self.is_closed(facts)))).sum()
    }

    /// Somebody wants to keep a file, or nothing any more.
    pub fn pin_any(&mut self) {
        if self.chance(3) {
            self.pinned.clear();
        } else if let Some(name) = self.any(|entry| entry.is_ours && !entry.facts.is_spare) {
            self.pinned.insert(name);
        }
    }

    /// Age of a file in nanoseconds, if it can be known.
    pub fn true_age(&self, facts: &FileFacts) -> Option<u64> {
        let entry = self.entries.get(&facts.name)?;
        // The serial of a file from elsewhere says nothing about when it came.
        let is_at_home = facts.run != "elsewhere";
        let is_of_this_boot = facts.born.boot_id == self.clocks.boot_id;
        let known = is_of_this_boot || (is_at_home && !self.was_stepped);
        known.then(|| self.true_ns - entry.came_ns)
    }

    /// Panics unless deleting this file is right.
    fn judge(&self, facts: &FileFacts) {
        let has_no_block = facts.size_bytes <= facts.header_bytes || facts.begins_with_room;
        let is_empty_spare = facts.is_spare && has_no_block;
        assert!(self.is_closed(facts), "{} is still written", facts.name);
        if is_empty_spare {
            return;
        }
        assert!(self.may_go(facts), "{} is pinned", facts.name);
        let oldest = self.closed().next().unwrap();
        assert_eq!(oldest.name, facts.name, "{} has its turn", oldest.name);
        let Asked { limit, min_free, limit_age, room } = self.asked;
        let of_live = |facts: &FileFacts| !self.is_closed(facts);
        let files = || self.view.files.values();
        let charge = |facts| u128::from(self.charge(facts, of_live(facts)));
        let used: u128 = files().map(charge).sum();
        let missing =
            |facts: &FileFacts| self.charge(facts, true).saturating_sub(facts.allocated_bytes);
        let reserved: u64 = files().filter(|facts| of_live(facts)).map(missing).sum();
        let is_over = limit.is_some_and(|limit| used + u128::from(room) > u128::from(limit));
        let is_short = min_free.is_some_and(|free| self.view.free < free + room + reserved);
        let is_past = limit_age.is_some_and(|limit| {
            self.true_age(facts).is_none_or(|age| u128::from(age) > limit.as_nanos())
        });
        assert!(is_over || is_short || is_past, "nothing asked for {} to go", facts.name);
    }

    fn begin_step(&mut self) -> Result<(), RetentionError> {
        self.step().map_err(|error| RetentionError::io("a step", error))
    }
}

impl Folder for World {
    fn path(&self) -> &Path {
        Path::new("/model")
    }

    fn state(&mut self) -> Result<State, RetentionError> {
        self.begin_step()?;
        Ok(self.state.clone().unwrap_or_default())
    }

    fn set_state(&mut self, state: &State) -> Result<(), RetentionError> {
        self.begin_step()?;
        self.state = Some(state.clone());
        Ok(())
    }

    fn files(&mut self) -> Result<Vec<FileFacts>, RetentionError> {
        self.begin_step()?;
        let ours = self.entries.values().filter(|entry| entry.is_ours);
        let files: Vec<FileFacts> = ours.map(|entry| entry.facts.clone()).collect();
        let keyed = files.iter().map(|facts| ((facts.serial, facts.name.clone()), facts.clone()));
        self.view.files = keyed.collect();
        self.view.arrived = 0;
        Ok(files)
    }

    fn pinned(&mut self) -> Result<BTreeSet<String>, RetentionError> {
        self.begin_step()?;
        self.view.pinned = self.pinned.clone();
        Ok(self.pinned.clone())
    }

    fn drafts_bytes(&mut self) -> Result<u64, RetentionError> {
        self.begin_step()?;
        Ok(0)
    }

    fn is_live(&mut self, run: &str) -> Result<bool, RetentionError> {
        self.begin_step()?;
        let live = self.live.contains(run);
        assert!(self.view.live.insert(run.to_owned(), live).is_none(), "each run is asked once");
        Ok(live)
    }

    fn free_bytes(&mut self) -> Result<u64, RetentionError> {
        self.begin_step()?;
        self.view.free = self.free();
        Ok(self.view.free)
    }

    fn settle_free_bytes(&mut self) {}

    fn exists(&mut self, name: &str) -> Result<bool, RetentionError> {
        self.begin_step()?;
        Ok(self.entries.contains_key(name))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.step()?;
        let known = self.view.files.values().find(|facts| facts.name == name).cloned();
        match (&known, self.entries.get(name)) {
            (Some(facts), _) => self.judge(facts),
            (None, Some(entry)) => assert!(entry.is_begun, "{name} is not ours"),
            (None, None) => {}
        }
        let Some(entry) = self.entries.get(name) else {
            self.view.files.retain(|_, facts| facts.name != name);
            return Err(io::ErrorKind::NotFound.into());
        };
        if entry.is_stuck {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if entry.is_held {
            self.others += entry.facts.allocated_bytes;
        }
        self.deletions += 1;
        self.entries.remove(name);
        self.view.files.retain(|_, facts| facts.name != name);
        Ok(())
    }

    fn reuse(&mut self, name: &str, to: &str) -> io::Result<bool> {
        let is_held = self.entries.get(name).is_some_and(|entry| entry.is_held);
        if is_held || self.chance(4) {
            return self.remove(name).map(|()| false);
        }
        self.step()?;
        assert!(!self.entries.contains_key(to), "the name was free");
        let known = self.view.files.values().find(|facts| facts.name == name).cloned();
        self.judge(&known.expect("only what was listed is handed over"));
        self.view.files.retain(|_, facts| facts.name != name);
        let Some(entry) = self.entries.get(name) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        if entry.is_stuck {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut entry = self.entries.remove(name).unwrap();
        // Its header page belongs to another name now.
        (entry.is_ours, entry.is_begun) = (false, true);
        entry.facts.name = to.to_owned();
        self.entries.insert(to.to_owned(), entry);
        self.deletions += 1;
        Ok(true)
    }
}
