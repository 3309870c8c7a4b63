//! A balancer's tables in arrays that the program reads, mapped.

use super::abi;
use super::books::{Books, Counted, Gone, RealOwner, VipOwner};
use super::room::{BalanceRoom, TABLES};
use crate::Error;
use crate::load::Loaded;
use libbpf_rs::{MapCore, MapHandle};
use ringside_balance::Tables;
use ringside_balance::balancer::Count;
use ringside_balance::flows::WAYS;
use ringside_balance::tables::{RealEntry, ticks};
use ringside_core::ledger::sum;
use ringside_sys::words::{AtomicU64, Words32, Words64};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::Ordering;

/// The tables of a balancer. They stay while a program or a descriptor of them does.
#[derive(Debug)]
pub struct BalanceMaps {
    handles: BTreeMap<&'static str, MapHandle>,
    words: BTreeMap<&'static str, Words64>,
    flows: Words32,
    room: BalanceRoom,
    cpus: u32,
}

/// Words that belong together in a table, from a place on.
type Part<'t> = (&'static str, usize, Box<dyn Iterator<Item = u64> + 't>);

impl BalanceMaps {
    pub(super) fn of(loaded: &Loaded, room: &BalanceRoom, cpus: u32) -> Result<BalanceMaps, Error> {
        let handles = TABLES.into_iter().map(|table| Ok((table, loaded.map(table)?)));
        BalanceMaps::mapped(handles.collect::<Result<_, Error>>()?, *room, cpus)
    }

    /// Tables that are pinned in a directory, by their names; none if they are of another form.
    pub(super) fn pinned(directory: &Path) -> Option<BalanceMaps> {
        let open = |table: &'static str| {
            let map = MapHandle::from_pinned_path(directory.join(table)).ok()?;
            Some((table, map))
        };
        let handles: BTreeMap<_, _> = TABLES.into_iter().map(open).collect::<Option<_>>()?;
        let (room, cpus) =
            BalanceRoom::of(|table| handles.get(table).map(|map| map.max_entries()))?;
        let is_right = |(table, map): (&&'static str, &MapHandle)| {
            room.entries(table, cpus).is_some_and(|(_, bytes)| map.value_size() as usize == bytes)
        };
        let is_right = handles.iter().all(is_right);
        BalanceMaps::mapped(handles, room, cpus).ok().filter(|_| is_right)
    }

    fn mapped(
        handles: BTreeMap<&'static str, MapHandle>,
        room: BalanceRoom,
        cpus: u32,
    ) -> Result<BalanceMaps, Error> {
        const FLOWS: &str = "balance_flows";
        let bytes = |table| {
            let (entries, bytes) = room.entries(table, cpus).unwrap_or_default();
            entries as usize * bytes
        };
        let flows = Words32::of_array(&handles[FLOWS], bytes(FLOWS) / 4);
        let flows = flows.map_err(|e| Error::mapping(FLOWS, e))?;
        let others = handles.iter().filter(|(table, _)| **table != FLOWS);
        let words = others.map(|(table, map)| {
            let words = Words64::of_array(map, bytes(table) / 8);
            words.map(|words| (*table, words)).map_err(|e| Error::mapping(table, e))
        });
        let words = words.collect::<Result<_, Error>>()?;
        Ok(BalanceMaps { handles, words, flows, room, cpus })
    }

    /// How large they are.
    pub fn room(&self) -> &BalanceRoom {
        &self.room
    }

    /// Bytes of all of them.
    pub fn memory_bytes(&self) -> usize {
        self.room.memory_bytes(self.cpus)
    }

    /// All of them, with their names.
    pub(super) fn objects(&self) -> impl Iterator<Item = (&'static str, BorrowedFd<'_>)> {
        self.handles.iter().map(|(name, map)| (*name, map.as_fd()))
    }

    /// The word that says which generation is in force.
    pub(super) fn control(&self) -> &AtomicU64 {
        &self.words["balance_controls"][0]
    }

    /// Which generation is in force.
    pub(super) fn generation(&self) -> u64 {
        self.control().load(Ordering::Acquire) & 1
    }

    /// Writes tables and who has which index as a generation that is not in force.
    pub(super) fn write(&self, tables: &Tables, books: &Books, generation: u64) {
        for (table, at, words) in self.parts(tables, generation) {
            put(&self.words[table], at, words);
        }
        let at = |entries: u32, bytes: usize| generation as usize * entries as usize * bytes / 8;
        let all = books.vips.iter().flat_map(VipOwner::words);
        put(&self.words["balance_vip_own"], at(self.room.vips, abi::VIP_OWNER_BYTES), all);
        let all = books.reals.iter().flat_map(RealOwner::words);
        put(&self.words["balance_real_own"], at(self.room.reals, abi::REAL_OWNER_BYTES), all);
        put(&self.words["balance_gones"], at(1, abi::GONE_BYTES), books.gone.words());
    }

    /// True if these tables are in force.
    pub(super) fn is_in_force(&self, tables: &Tables) -> bool {
        self.parts(tables, self.generation()).all(|(table, at, words)| {
            let there = self.words[table].iter().skip(at);
            there.zip(words).all(|(there, word)| there.load(Ordering::Relaxed) == word)
        })
    }

    /// What tables are in a generation.
    fn parts<'t>(&self, tables: &'t Tables, generation: u64) -> impl Iterator<Item = Part<'t>> {
        let room = self.room;
        let at = |entries: u32, bytes: usize| generation as usize * entries as usize * bytes / 8;
        let vips = tables.vips.iter().copied().chain(std::iter::repeat(Default::default()));
        let vips = vips.take(room.vips as usize).flat_map(|vip| abi::vip(&vip));
        let reals = tables.reals.iter().copied().chain(std::iter::repeat(Default::default()));
        let reals = reals.take(room.reals as usize).flat_map(|real| abi::real(&real));
        let keys = tables.keys.entries.iter().flat_map(abi::key);
        let settings = abi::settings(tables).into_iter();
        let all: [Part<'t>; 5] = [
            ("balance_setting", at(1, abi::SETTINGS_BYTES), Box::new(settings)),
            ("balance_keys", at(room.keys, abi::KEY_BYTES), Box::new(keys)),
            ("balance_vips", at(room.vips, abi::VIP_BYTES), Box::new(vips)),
            ("balance_reals", at(room.reals, abi::REAL_BYTES), Box::new(reals)),
            (
                "balance_lines",
                at(room.lines(), abi::LINE_BYTES),
                Box::new(abi::slots(&tables.slots)),
            ),
        ];
        all.into_iter()
    }

    /// Who has which index, and what was counted before.
    pub(super) fn books(&self) -> Books {
        let generation = self.generation() as usize;
        let of = |table: &str, entries: u32, bytes: usize| {
            let all = &self.words[table][generation * entries as usize * bytes / 8..];
            all[..entries as usize * bytes / 8].iter().map(load).collect::<Vec<u64>>()
        };
        let vips = of("balance_vip_own", self.room.vips, abi::VIP_OWNER_BYTES);
        let reals = of("balance_real_own", self.room.reals, abi::REAL_OWNER_BYTES);
        Books {
            vips: vips.as_chunks().0.iter().map(VipOwner::of_words).collect(),
            reals: reals.as_chunks().0.iter().map(RealOwner::of_words).collect(),
            gone: Gone::of_words(&of("balance_gones", 1, abi::GONE_BYTES)),
        }
    }

    /// The reals in force, by index.
    pub fn reals(&self) -> Vec<RealEntry> {
        let words = abi::REAL_BYTES / 8;
        let from = self.generation() as usize * self.room.reals as usize * words;
        let all: Vec<u64> = self.words["balance_reals"][from..].iter().map(load).collect();
        let all = all.as_chunks().0.iter().map(abi::real_entry);
        all.take(self.room.reals as usize).collect()
    }

    /// What was counted of a VIP's index on all CPUs, by [`Count`], whichever VIP had it; exact
    /// while no frames come.
    pub(super) fn vip_counts(&self, index: u32) -> [u64; Count::ALL] {
        self.sums("balance_vip_count", self.room.vips, index, abi::VIP_COUNTS_BYTES)
    }

    /// Frames that went to a real's index, and the bytes in which they came.
    pub(super) fn real_counts(&self, index: u32) -> [u64; 2] {
        self.sums("balance_real_count", self.room.reals, index, abi::REAL_COUNTS_BYTES)
    }

    /// Frames that were seen, and those of them that passed; the others are counted at VIPs.
    pub fn totals(&self) -> [u64; 2] {
        self.sums("balance_total", 1, 0, abi::TOTALS_BYTES)
    }

    /// The first words of an index, summed over the CPUs, each of which has a part of `count`.
    fn sums<const N: usize>(&self, table: &str, count: u32, index: u32, bytes: usize) -> [u64; N] {
        let (words, count, index) = (&self.words[table], count as usize, index as usize);
        std::array::from_fn(|what| {
            let at = |cpu: u32| (cpu as usize * count + index) * (bytes / 8) + what;
            sum((0..self.cpus).map(|cpu| words.get(at(cpu)).map_or(0, load)))
        })
    }

    /// Of each of these reals, which are in force, flows that are remembered and had a packet
    /// within `idle_max_ns`: how far a real that drains has come.
    pub fn live_flows(&self, reals: &[RealEntry], now_ns: u64, idle_max_ns: u64) -> Vec<u64> {
        let mut live = vec![0; reals.len()];
        for set in self.flows.chunks_exact(abi::SET_BYTES / 4) {
            let word = |at: usize| set[at].load(Ordering::Relaxed);
            for way in 0..WAYS {
                let idle = ticks(now_ns).wrapping_sub(word(WAYS + way));
                if word(way) == 0 || idle > ticks(idle_max_ns) {
                    // Whose it is stands in a cache line of its own.
                    continue;
                }
                let (real, serial) = abi::flow_owner(&word, way);
                match reals.get(real as usize) {
                    Some(entry) if entry.serial == serial => live[real as usize] += 1,
                    _ => {}
                }
            }
        }
        live
    }

    /// Lets time pass for what is remembered: every flow was idle for so much longer, and a CPU's
    /// second began so much earlier.
    pub(super) fn age(&self, by_ns: u64) {
        for guard in self.words["balance_guards"].chunks_exact(abi::GUARD_BYTES / 8) {
            guard[0].store(load(&guard[0]).saturating_sub(by_ns), Ordering::Relaxed);
        }
        for set in self.flows.chunks_exact(abi::SET_BYTES / 4) {
            for last in &set[WAYS..2 * WAYS] {
                let before = last.load(Ordering::Relaxed);
                last.store(before.wrapping_sub(ticks(by_ns)), Ordering::Relaxed);
            }
        }
    }
}

impl Counted for BalanceMaps {
    fn vip(&self, index: u32) -> [u64; Count::ALL] {
        self.vip_counts(index)
    }

    fn real(&self, index: u32) -> [u64; 2] {
        self.real_counts(index)
    }
}

fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

/// Writes words from `at` on, as far as there is room.
fn put(to: &Words64, at: usize, words: impl IntoIterator<Item = u64>) {
    for (to, word) in to.iter().skip(at).zip(words) {
        to.store(word, Ordering::Relaxed);
    }
}
