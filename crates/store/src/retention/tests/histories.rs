//! Random histories over the model: two recorders with several lanes, restarts, kills at any step,
//! clocks that step, files that are not ours, vanish, come from elsewhere or cannot be deleted.

use super::super::enforce::{InVain, Order, enforce};
use super::super::folder::{FileFacts, reused_name};
use super::super::{Policy, RetentionError, spare_name};
use super::model::{Asked, PAGE, World};
use crate::recording::END_BYTES;
use ringside_testkit::{by_run, number};
use std::collections::BTreeMap;
use std::time::Duration;

/// Histories of a short and of a long run; `RINGSIDE_HISTORIES` sets another number.
const HISTORIES: [u64; 2] = [10_000, 100_000];
/// Actions of a history.
const ACTIONS: usize = 48;
const SECOND: u64 = 1_000_000_000;

#[derive(Default)]
struct Lane {
    active: Option<String>,
    spare: Option<String>,
    sequence: u64,
}

struct Recorder {
    run: String,
    policy: Policy,
    file_bytes: u64,
    /// Files that go may become new ones.
    reuses: bool,
    lanes: Vec<Lane>,
    is_alive: bool,
    in_vain: Option<InVain>,
}

/// How often what happened, so that a test that tests nothing is seen.
#[derive(Default, Debug)]
struct Seen(BTreeMap<&'static str, u64>);

impl Seen {
    fn note(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }
}

struct History<'s> {
    world: World,
    recorders: Vec<Recorder>,
    /// Serial that was handed out last.
    last_serial: u64,
    /// Numbers names.
    names: u64,
    seen: &'s mut Seen,
}

impl History<'_> {
    fn new(seed: u64, seen: &mut Seen) -> History<'_> {
        let mut world = World::new(seed);
        let first = policy(&mut world);
        let second = if world.chance(2) { first } else { policy(&mut world) };
        let recorders = [first, second].map(|policy| {
            let lanes = 1 + world.random.below(2);
            let bounded = !policy.is_unlimited() || world.chance(2);
            let file_bytes = PAGE * (2 + world.random.below(10) as u64) * u64::from(bounded);
            let lanes = (0..lanes).map(|_| Lane::default()).collect();
            let reuses = world.chance(2);
            Recorder {
                run: String::new(),
                policy,
                file_bytes,
                reuses,
                lanes,
                is_alive: false,
                in_vain: None,
            }
        });
        History { world, recorders: recorders.into(), last_serial: 0, names: 0, seen }
    }

    fn act(&mut self) {
        let at = self.world.random.below(2);
        match self.world.random.below(32) {
            0..=9 => self.make_ready(at),
            10..=16 => self.begin_next(at),
            17..=19 => self.world.grow_any(),
            20..=21 => {
                let ns = self.world.random.next_u64() % (40 * SECOND);
                self.world.pass(ns);
            }
            22 => self.kill(at),
            23 => self.repair(),
            24 => self.sweep(at),
            25 => self.step_clock(),
            26 => (0..3).for_each(|_| self.world.stick_any()),
            27 => self.world.others = self.world.pages(300),
            28 => self.add_foreign(),
            29 if self.world.chance(2) => self.world.vanish_any(),
            29 => {
                self.names += 1;
                self.world.copy_in(self.names);
            }
            30 if self.world.chance(3) => self.reboot(),
            30 if self.world.chance(6) => self.world.pin_any(),
            31 if self.world.chance(8) => self.lose_state(),
            _ => {}
        }
    }

    /// Reserves and creates the next file of a lane that has none ready.
    fn make_ready(&mut self, at: usize) {
        self.start(at);
        let recorder = &self.recorders[at];
        let Some(lane) = recorder.lanes.iter().position(|lane| lane.spare.is_none()) else {
            return;
        };
        self.names += 1;
        let name = format!("{}-lane{lane}-{}", recorder.run, self.names);
        let spare = spare_name(&name);
        let room = recorder.file_bytes;
        let Some(begun) = self.order(at, Some(&spare), room) else { return };
        if begun.1 {
            self.seen.note("reused");
        }
        if self.create(at, &spare, begun).is_err() {
            self.seen.note("killed in a creation");
            self.kill(at);
            return;
        }
        let lane = &mut self.recorders[at].lanes[lane];
        lane.spare = Some(spare);
        lane.sequence += 1;
    }

    /// Creates the file step by step, with the lock held.
    fn create(
        &mut self,
        at: usize,
        name: &str,
        (serial, is_reused): (u64, bool),
    ) -> std::io::Result<()> {
        let recorder = &self.recorders[at];
        let born = self.world.born();
        let facts = FileFacts {
            name: name.to_owned(),
            is_spare: true,
            size_bytes: 0,
            allocated_bytes: 0,
            header_bytes: PAGE,
            begins_with_room: is_reused,
            run: recorder.run.clone(),
            serial,
            bytes_max: recorder.file_bytes,
            born,
        };
        let bytes_max = facts.bytes_max;
        let world = &mut self.world;
        world.step()?;
        if bytes_max == 0 {
            // Nothing is reserved for a file without a limit: its header is growth as well.
            world.bound = world.bound.saturating_add(PAGE.into());
        }
        if is_reused {
            // Its pages stay, up to what ring blocks may take of it; the header page comes last.
            let working = reused_name(name);
            let Some(entry) = world.entries.get(&working) else { return Ok(()) };
            let kept = entry.facts.size_bytes.min(bytes_max - END_BYTES);
            world.step()?;
            let Some(mut entry) = world.entries.remove(&working) else { return Ok(()) };
            let (size_bytes, allocated_bytes) = (kept, kept);
            entry.facts = FileFacts { size_bytes, allocated_bytes, ..facts };
            entry.came_ns = world.true_ns;
            world.entries.insert(name.to_owned(), entry);
        } else {
            let written = world.pages(1);
            let entry = world.add(facts, false);
            entry.is_begun = true;
            (entry.facts.size_bytes, entry.facts.allocated_bytes) = (written, written);
            world.step()?;
            let Some(entry) = world.entries.get_mut(name) else { return Ok(()) };
            (entry.facts.size_bytes, entry.facts.allocated_bytes) = (PAGE, PAGE);
        }
        let Some(entry) = world.entries.get_mut(name) else { return Ok(()) };
        entry.is_ours = true;
        world.step()?;
        let preallocates = !is_reused && world.chance(2);
        let Some(entry) = world.entries.get_mut(name) else { return Ok(()) };
        if preallocates {
            entry.facts.allocated_bytes = bytes_max.max(PAGE);
        }
        world.step()?;
        if let Some(state) = &mut world.state {
            state.creating = None;
        }
        Ok(())
    }

    /// A lane finishes its file and goes on in the one that is ready.
    fn begin_next(&mut self, at: usize) {
        if !self.recorders[at].is_alive {
            return;
        }
        let lane = self.world.random.below(self.recorders[at].lanes.len());
        let lane = &mut self.recorders[at].lanes[lane];
        let Some(spare) = lane.spare.take() else { return };
        let old = lane.active.take();
        let name = spare.trim_start_matches('.').trim_end_matches(".next").to_owned();
        lane.active = Some(name.clone());
        if let Some(mut entry) = self.world.entries.remove(&spare) {
            (entry.facts.name, entry.facts.is_spare) = (name.clone(), false);
            self.world.entries.insert(name, entry);
        }
        let killed_between = self.world.chance(20);
        let entry = old.and_then(|old| self.world.entries.get_mut(&old));
        if let Some(entry) = entry {
            entry.facts.bytes_max = entry.facts.size_bytes;
            if !killed_between {
                entry.facts.allocated_bytes = entry.facts.size_bytes;
            }
        }
        if killed_between {
            self.kill(at);
        }
    }

    fn start(&mut self, at: usize) {
        if self.recorders[at].is_alive {
            return;
        }
        self.names += 1;
        let recorder = &mut self.recorders[at];
        recorder.run = format!("run{at}-{}", self.names);
        recorder.is_alive = true;
        self.world.live.insert(recorder.run.clone());
    }

    fn kill(&mut self, at: usize) {
        let recorder = &mut self.recorders[at];
        self.world.live.remove(&recorder.run);
        recorder.is_alive = false;
        recorder.in_vain = None;
        recorder.lanes.iter_mut().for_each(|lane| *lane = Lane::default());
    }

    fn reboot(&mut self) {
        self.kill(0);
        self.kill(1);
        // No two boots have the same: time has passed between them.
        let id = u128::from(self.world.random.next_u64()) << 64 | u128::from(self.world.true_ns);
        self.world.clocks.boot_id = (id | 1 << 127).to_le_bytes();
        self.world.clocks.boot_ns = self.world.random.next_u64() % SECOND;
        self.world.pass(30 * SECOND);
    }

    /// Someone removes the lock file. With it goes what was known of creations that were cut short.
    fn lose_state(&mut self) {
        (self.world.state, self.last_serial) = (None, 0);
        self.world.entries.values_mut().for_each(|entry| entry.is_begun = false);
    }

    fn step_clock(&mut self) {
        let to = match self.world.random.below(4) {
            0 => 0,
            1 => u64::MAX,
            _ => self.world.random.next_u64(),
        };
        self.world.clocks.wall.0 = to;
        self.world.was_stepped = true;
    }

    /// The next start fixes the files of dead runs.
    fn repair(&mut self) {
        let live = self.world.live.clone();
        for entry in self.world.entries.values_mut() {
            let facts = &mut entry.facts;
            if entry.is_ours && facts.is_unfinished() && !live.contains(&facts.run) {
                facts.size_bytes =
                    facts.bytes_max.min(facts.size_bytes + PAGE).max(facts.size_bytes);
                facts.bytes_max = facts.size_bytes;
                facts.allocated_bytes = facts.size_bytes;
            }
        }
    }

    fn add_foreign(&mut self) {
        self.names += 1;
        let size_bytes = self.world.pages(40);
        let born = self.world.born();
        let facts = FileFacts {
            name: format!("foreign-{}", self.names),
            is_spare: self.world.chance(2),
            size_bytes,
            allocated_bytes: size_bytes,
            header_bytes: 0,
            begins_with_room: false,
            run: String::new(),
            serial: 0,
            bytes_max: 0,
            born,
        };
        self.world.add(facts, false);
    }

    fn sweep(&mut self, at: usize) {
        if self.recorders[at].is_alive {
            let _ = self.order(at, None, 0);
        }
    }

    /// Has retention do its work and judges what it did. Gives the serial number, and whether a
    /// file was handed over.
    fn order(&mut self, at: usize, name: Option<&str>, room: u64) -> Option<(u64, bool)> {
        let Recorder { run, policy, in_vain, .. } = &self.recorders[at];
        let (run, policy, in_vain) = (run.clone(), *policy, in_vain.clone());
        let mut asked = self.asked(&run, policy, room);
        if in_vain.is_some() {
            // Nothing may be deleted for free space any more.
            asked.min_free = None;
        }
        let steps_left = self.world.chance(6).then(|| self.world.random.below(26) as u32);
        let now = self.world.clocks;
        let (reuses, in_vain) = (self.recorders[at].reuses, in_vain.as_ref());
        let order = Order { run: &run, policy, name, room, now, reuses, in_vain };
        self.world.begin(&order, asked, steps_left);
        let mut deleted = Vec::new();
        let result = enforce(&mut self.world, &order, &mut deleted);
        if self.world.was_killed {
            self.seen.note("killed");
            self.kill(at);
            return None;
        }
        for _ in &deleted {
            self.seen.note("deleted");
        }
        match result {
            Ok(kept) => {
                if kept.pinned_files > 0 {
                    self.seen.note("with pins");
                }
                self.recorders[at].in_vain = None;
                // What went to make room may have kept the next from going by its age: that does
                // the next time.
                let may_be_late = kept.overdue.is_some() || !deleted.is_empty();
                self.judge(&asked, may_be_late);
                let ours = self.world.entries.values().filter(|entry| entry.is_ours);
                let last = ours.map(|entry| entry.facts.serial).max().unwrap_or(0);
                let last = last.max(self.last_serial);
                if name.is_some() && self.world.arrived() == 0 {
                    assert!(kept.serial > last, "{} comes after {last}", kept.serial);
                    self.last_serial = kept.serial;
                }
                self.seen.note("reserved");
                Some((kept.serial, kept.is_reused))
            }
            Err(error) => {
                if let RetentionError::NotFreed { name, count, .. } = &error {
                    let vain = InVain { name: name.clone(), count: *count };
                    self.recorders[at].in_vain = Some(vain);
                }
                let deleted = if in_vain.is_some() { None } else { Some(deleted.len()) };
                self.judge_error(&error, &asked, deleted);
                None
            }
        }
    }

    /// The limits that hold now: this run's and those of the others that live and were heard.
    fn asked(&self, run: &str, policy: Policy, room: u64) -> Asked {
        let mut asked = Asked {
            limit: policy.limit_bytes,
            min_free: policy.min_free,
            limit_age: policy.limit_age,
            room,
        };
        let known = self.world.state.iter().flat_map(|state| &state.recorders);
        let others = known.filter(|other| other.run != run && self.world.live.contains(&other.run));
        for other in others {
            asked.limit = [asked.limit, other.limit_bytes].into_iter().flatten().min();
            asked.min_free = asked.min_free.max(other.min_free);
        }
        asked
    }

    /// After a success: the limit holds, and so does the age.
    fn judge(&mut self, asked: &Asked, may_be_late: bool) {
        if let Some(limit) = asked.limit {
            let used = self.world.charged() + u128::from(asked.room);
            let most = u128::from(limit) + u128::from(self.world.arrived());
            assert!(used <= most, "{used} bytes in use and reserved, {most} allowed");
            self.world.bound = most;
        } else {
            self.world.bound = u128::MAX;
        }
        let Some(limit) = asked.limit_age else { return };
        let oldest = self.world.closed().next().and_then(|facts| {
            let is_of_this_boot = facts.born.boot_id == self.world.clocks.boot_id;
            is_of_this_boot.then(|| self.world.true_age(facts)).flatten()
        });
        let is_past = oldest.is_some_and(|age| u128::from(age) > limit.as_nanos());
        assert!(!is_past || may_be_late, "a file past its age was left without a word");
    }

    /// After an error: there was a reason.
    fn judge_error(&mut self, error: &RetentionError, asked: &Asked, deleted: Option<usize>) {
        let world = &self.world;
        match error {
            RetentionError::LimitHeld { .. } => {
                self.seen.note("limit held");
                let held = world.known_held() + u128::from(asked.room);
                assert!(held > u128::from(asked.limit.unwrap()), "{error}");
            }
            RetentionError::FreeHeld { .. } => self.seen.note("free space held"),
            RetentionError::NotFreed { .. } => {
                self.seen.note("not freed");
                assert!(deleted.is_none_or(|deleted| deleted >= 2), "{error}");
            }
            RetentionError::Delete { path, .. } => {
                self.seen.note("not deletable");
                let name = path.file_name().unwrap().to_str().unwrap();
                assert!(world.entries[name].is_stuck, "{error}");
            }
            other => panic!("{other}"),
        }
    }
}

fn policy(world: &mut World) -> Policy {
    let bytes = PAGE * (12 + world.random.below(90) as u64);
    let age = Duration::from_secs(20 + world.random.below(400) as u64);
    let free = PAGE * world.random.below(100) as u64;
    Policy {
        limit_bytes: (!world.chance(4)).then_some(bytes),
        limit_age: world.chance(3).then_some(age),
        min_free: world.chance(3).then_some(free),
        ..Policy::default()
    }
}

#[test]
fn random_histories_keep_every_promise() {
    let seed = number("RINGSIDE_HISTORY_SEED").unwrap_or(1);
    let histories =
        number("RINGSIDE_HISTORIES").unwrap_or_else(|| by_run(HISTORIES[0], HISTORIES[1]));
    let mut seen = Seen::default();
    for history in 0..histories {
        let seed = seed.wrapping_add(history);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut history = History::new(seed, &mut seen);
            for _ in 0..ACTIONS {
                history.act();
            }
        }));
        if let Err(panic) = result {
            eprintln!("failed with RINGSIDE_HISTORY_SEED={seed} RINGSIDE_HISTORIES=1");
            std::panic::resume_unwind(panic);
        }
    }
    eprintln!("{histories} histories from seed {seed}: {seen:?}");
    for what in [
        "reserved",
        "deleted",
        "killed",
        "killed in a creation",
        "limit held",
        "free space held",
        "not freed",
        "not deletable",
        "reused",
        "with pins",
    ] {
        let enough = 3 * histories / 1_000;
        assert!(seen.0[what] >= enough, "{what} is hardly tried: {seen:?}");
    }
}
