//! The balancer: `bpf/xdp_balance.bpf.c`, its tables, and what it counts. [`DecapProgram`] is the
//! other end of its tunnels, on a real server.
//!
//! A [`BalanceProgram`] has two generations of tables. What [`BalanceProgram::change`] writes goes
//! to the one that is not in force, and one word makes it the current one: a frame is decided by
//! the old tables or the new ones. The old ones count on for the time that the new ones say, for
//! flows that are not remembered. What the tables mean is the business of `ringside-balance`.

mod abi;
mod attachment;
mod decap;

pub use attachment::BalanceAttachmentConfig;
pub use decap::{DecapCounts, DecapProgram};

use crate::abi::METADATA_FULL_BYTES;
use crate::load::{Embedded, Loaded, embedded, test_run};
use crate::root::LEAVES;
use crate::{Error, TestRun};
use abi::{Config, LINE_SLOTS};
use attachment::Place;
use libbpf_rs::OpenObject;
use ringside_balance::Tables;
use ringside_balance::balancer::Count;
use ringside_balance::flows::WAYS;
use ringside_balance::tables::ticks;
use ringside_core::ledger::sum;
use ringside_sys::bpf;
use ringside_sys::words::{Words32, Words64};
use ringside_wire::MacAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

static XDP_BALANCE: Embedded = embedded!("xdp_balance");

/// Room in the tables; the kernel takes all of it at the start, for two generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalanceRoom {
    /// VIPs.
    pub vips: u32,
    /// Reals of all VIPs.
    pub reals: u32,
    /// Slots of all VIPs.
    pub slots: u32,
    /// Entries of the index, a power of two.
    pub keys: u32,
    /// Flows that each CPU remembers, a power of two and at least 8.
    pub flows: u32,
}

impl BalanceRoom {
    /// What `tables` take, and as much again of each kind.
    pub fn twice(tables: &Tables, flows: u32) -> BalanceRoom {
        let twice = |count: usize| (2 * count).max(LINE_SLOTS) as u32;
        BalanceRoom {
            vips: twice(tables.vips.len()),
            reals: twice(tables.reals.len()),
            slots: twice(tables.slots.len()),
            keys: twice(tables.keys.entries.len()),
            flows,
        }
    }

    /// Sets of flows of each CPU.
    fn sets(&self) -> u32 {
        (self.flows / WAYS as u32).max(1)
    }

    /// Lines of slots of a generation.
    fn lines(&self) -> u32 {
        self.slots.div_ceil(LINE_SLOTS as u32).max(1)
    }

    /// Bytes of all tables, with this number of CPUs.
    pub fn memory_bytes(&self, cpus: u32) -> usize {
        let bytes = |(entries, bytes): (u32, usize)| entries as usize * bytes;
        TABLES.iter().filter_map(|table| self.entries(table, cpus)).map(bytes).sum()
    }

    /// Entries of a table, and the bytes of each.
    fn entries(&self, table: &str, cpus: u32) -> Option<(u32, usize)> {
        Some(match table {
            "balance_controls" => (1, abi::CONTROL_BYTES),
            "balance_setting" => (2, abi::SETTINGS_BYTES),
            "balance_keys" => (2 * self.keys, abi::KEY_BYTES),
            "balance_vips" => (2 * self.vips, abi::VIP_BYTES),
            "balance_reals" => (2 * self.reals, abi::REAL_BYTES),
            "balance_lines" => (2 * self.lines(), abi::LINE_BYTES),
            "balance_flows" => (cpus * self.sets(), abi::SET_BYTES),
            "balance_guards" => (cpus, abi::GUARD_BYTES),
            "balance_vip_count" => (cpus * self.vips, abi::VIP_COUNTS_BYTES),
            "balance_real_count" => (cpus * self.reals, abi::REAL_COUNTS_BYTES),
            "balance_total" => (cpus, abi::TOTALS_BYTES),
            _ => return None,
        })
    }
}

/// Names of the tables in `bpf/balance/work.h`.
const TABLES: [&str; 11] = [
    "balance_controls",
    "balance_setting",
    "balance_keys",
    "balance_vips",
    "balance_reals",
    "balance_lines",
    "balance_flows",
    "balance_guards",
    "balance_vip_count",
    "balance_real_count",
    "balance_total",
];

/// The tables, mapped.
#[derive(Debug)]
struct Maps {
    control: Words64,
    settings: Words64,
    keys: Words64,
    vips: Words64,
    reals: Words64,
    lines: Words64,
    flows: Words32,
    vip_counts: Words64,
    real_counts: Words64,
    totals: Words64,
}

impl Maps {
    fn of(loaded: &Loaded, room: &BalanceRoom, cpus: u32) -> Result<Maps, Error> {
        let words = |table: &'static str| {
            let (entries, bytes) = room.entries(table, cpus).unwrap_or_default();
            let words = Words64::of_array(loaded.map(table)?, entries as usize * bytes / 8);
            words.map_err(|e| Error::mapping(table, e))
        };
        let flows = room.entries("balance_flows", cpus).unwrap_or_default();
        let flows_map = loaded.map("balance_flows")?;
        Ok(Maps {
            control: words("balance_controls")?,
            settings: words("balance_setting")?,
            keys: words("balance_keys")?,
            vips: words("balance_vips")?,
            reals: words("balance_reals")?,
            lines: words("balance_lines")?,
            flows: Words32::of_array(flows_map, flows.0 as usize * flows.1 / 4)
                .map_err(|e| Error::mapping("balance_flows", e))?,
            vip_counts: words("balance_vip_count")?,
            real_counts: words("balance_real_count")?,
            totals: words("balance_total")?,
        })
    }
}

/// A loaded balancer with its tables.
#[derive(Debug)]
pub struct BalanceProgram {
    program: OwnedFd,
    maps: Maps,
    room: BalanceRoom,
    cpus: u32,
    seed: u64,
    generation: u64,
    place: Option<Place>,
}

impl BalanceProgram {
    /// Makes the tables and loads the program, for an interface with this hardware address; frames
    /// for others pass. It can be run on test data.
    ///
    /// # Errors
    /// No privilege, no memory, too little room for `tables`, or the kernel refused.
    pub fn load(
        tables: &Tables,
        room: &BalanceRoom,
        mac: MacAddr,
    ) -> Result<BalanceProgram, Error> {
        BalanceProgram::prepared(tables, room, mac, None)
    }

    /// The same, on an interface of the calling thread's network namespace: packets to VIPs go to
    /// reals from somewhere in this call on, until it is dropped.
    ///
    /// # Errors
    /// As [`load`](BalanceProgram::load); or a foreign program is on the interface, it takes none,
    /// or another balancer is there.
    pub fn open(
        config: &BalanceAttachmentConfig<'_>,
        tables: &Tables,
        room: &BalanceRoom,
        mac: MacAddr,
    ) -> Result<BalanceProgram, Error> {
        let place = Place::take(config)?;
        let program = BalanceProgram::prepared(tables, room, mac, Some(place))?;
        if let Some(place) = &program.place {
            place.put(program.program.as_fd())?;
        }
        Ok(program)
    }

    fn prepared(
        tables: &Tables,
        room: &BalanceRoom,
        mac: MacAddr,
        place: Option<Place>,
    ) -> Result<BalanceProgram, Error> {
        fits(tables, room)?;
        let cpus = bpf::cpu_numbers()?;
        // A secret of each balancer: no sender can choose flows that fall on one set.
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), cpus);
        let config = Config {
            seed,
            cpus,
            sets: room.sets(),
            vips: room.vips,
            reals: room.reals,
            slot_lines: room.lines(),
            keys: room.keys,
            position: place.as_ref().map_or(0, Place::position),
            metadata: match &place {
                Some(place) if place.has_metadata() => METADATA_FULL_BYTES,
                _ => 0,
            },
            mac,
        };
        let mut loaded = Loaded::prepared(&XDP_BALANCE, Some(&config.to_bytes()), |object| {
            size(object, room, cpus, place.as_ref().map(Place::leaves))
        })?;
        let maps = Maps::of(&loaded, room, cpus)?;
        let program = loaded.program_fd()?;
        let (room, generation) = (*room, 0);
        let program = BalanceProgram { program, maps, room, cpus, seed, generation, place };
        program.write(tables, 0);
        program.maps.control[0].store(0, Ordering::Release);
        Ok(program)
    }

    /// Goes on with `tables`, which follow the current ones. May take some ten milliseconds.
    ///
    /// # Errors
    /// There is too little room for them; the current ones stay in force.
    pub fn change(&mut self, tables: &Tables, now_ns: u64) -> Result<(), Error> {
        fits(tables, &self.room)?;
        // The tables before the current ones do not count any more, and no CPU looks at them.
        self.maps.control[0].store(self.generation, Ordering::Release);
        bpf::wait_until_left();
        let next = self.generation ^ 1;
        self.write(tables, next);
        let until_ns = now_ns.saturating_add(tables.settings.change_window_ns);
        self.maps.control[0].store(next | until_ns << 1, Ordering::Release);
        self.generation = next;
        Ok(())
    }

    fn write(&self, tables: &Tables, generation: u64) {
        let Maps { settings, keys, vips, reals, lines, .. } = &self.maps;
        let at = |entries: u32, bytes: usize| generation as usize * entries as usize * bytes / 8;
        put(settings, at(1, abi::SETTINGS_BYTES), abi::settings(tables));
        let entries = tables.keys.entries.iter().flat_map(abi::key);
        put(keys, at(self.room.keys, abi::KEY_BYTES), entries);
        let all = tables.vips.iter().copied().chain(std::iter::repeat(Default::default()));
        let all = all.take(self.room.vips as usize).flat_map(|vip| abi::vip(&vip));
        put(vips, at(self.room.vips, abi::VIP_BYTES), all);
        let all = tables.reals.iter().copied().chain(std::iter::repeat(Default::default()));
        let all = all.take(self.room.reals as usize).flat_map(|real| abi::real(&real));
        put(reals, at(self.room.reals, abi::REAL_BYTES), all);
        put(lines, at(self.room.lines(), abi::LINE_BYTES), abi::slots(&tables.slots));
    }

    /// Takes it off its interface, if it is on one. When this returns, no CPU is within the
    /// program: its counts do not change any more. May take some ten milliseconds.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.place.take().map_or(Ok(()), Place::leave)
    }

    /// Bytes of all its tables.
    pub fn memory_bytes(&self) -> usize {
        self.room.memory_bytes(self.cpus)
    }

    /// What they would be of a balancer with room for twice these tables.
    ///
    /// # Errors
    /// The number of CPUs cannot be read.
    pub fn memory_for(tables: &Tables, flows: u32) -> Result<usize, Error> {
        Ok(BalanceRoom::twice(tables, flows).memory_bytes(bpf::cpu_numbers()?))
    }

    /// What the kernel refused meanwhile, each with its reason.
    pub fn notes(&self) -> &[String] {
        self.place.as_ref().map_or(&[], Place::notes)
    }

    /// What was counted of a VIP on all CPUs, by [`Count`]; exact while no frames come.
    pub fn counts(&self, vip: u32) -> [u64; Count::ALL] {
        std::array::from_fn(|what| {
            let words = abi::VIP_COUNTS_BYTES / 8;
            let part = |cpu: u32| (cpu * self.room.vips + vip) as usize * words + what;
            sum((0..self.cpus).map(|cpu| load(&self.maps.vip_counts, part(cpu))))
        })
    }

    /// Frames that went to a real, and the bytes in which they came.
    pub fn real_counts(&self, real: u32) -> [u64; 2] {
        std::array::from_fn(|what| {
            let words = abi::REAL_COUNTS_BYTES / 8;
            let part = |cpu: u32| (cpu * self.room.reals + real) as usize * words + what;
            sum((0..self.cpus).map(|cpu| load(&self.maps.real_counts, part(cpu))))
        })
    }

    /// Frames that were seen, and those of them that passed; the others are counted at VIPs.
    pub fn totals(&self) -> [u64; 2] {
        std::array::from_fn(|what| {
            let words = abi::TOTALS_BYTES / 8;
            sum((0..self.cpus).map(|cpu| load(&self.maps.totals, cpu as usize * words + what)))
        })
    }

    /// Of each real, flows that are remembered and had a packet within `idle_max_ns`: how far a
    /// real that drains has come. `reals` are those of the tables in force.
    pub fn live_flows(&self, tables: &Tables, now_ns: u64, idle_max_ns: u64) -> Vec<u64> {
        let mut live = vec![0; tables.reals.len()];
        for set in self.maps.flows.chunks_exact(abi::SET_BYTES / 4) {
            let word = |at: usize| set[at].load(Ordering::Relaxed);
            for way in 0..WAYS {
                let idle = ticks(now_ns).wrapping_sub(word(WAYS + way));
                let (real, serial) = abi::flow_owner(&word, way);
                let is_live = word(way) != 0 && idle <= ticks(idle_max_ns);
                match tables.reals.get(real as usize) {
                    Some(entry) if is_live && entry.serial == serial => live[real as usize] += 1,
                    _ => {}
                }
            }
        }
        live
    }

    /// Lets time pass for what is remembered: every flow was idle for so much longer.
    pub fn age(&self, by_ns: u64) {
        for set in self.maps.flows.chunks_exact(abi::SET_BYTES / 4) {
            for last in &set[WAYS..2 * WAYS] {
                let before = last.load(Ordering::Relaxed);
                last.store(before.wrapping_sub(ticks(by_ns)), Ordering::Relaxed);
            }
        }
    }

    /// The secret seed of the hash of flows.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Runs the program once on a copy of `frame`; it is counted.
    ///
    /// # Errors
    /// The kernel refused; a frame of less than 14 bytes is.
    pub fn test_run(&self, frame: &[u8]) -> Result<TestRun, Error> {
        test_run(self.program.as_fd(), frame)
    }
}

impl Drop for BalanceProgram {
    fn drop(&mut self) {
        // The kernel refuses only what is not there.
        let _ = self.stop();
    }
}

impl AsFd for BalanceProgram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
}

fn load(words: &Words64, at: usize) -> u64 {
    words.get(at).map_or(0, |word| word.load(Ordering::Relaxed))
}

/// Writes words from `at` on, as far as there is room.
fn put(to: &Words64, at: usize, words: impl IntoIterator<Item = u64>) {
    for (to, word) in to.iter().skip(at).zip(words) {
        to.store(word, Ordering::Relaxed);
    }
}

fn fits(tables: &Tables, room: &BalanceRoom) -> Result<(), Error> {
    let parts = [
        ("VIPs", tables.vips.len(), room.vips),
        ("reals", tables.reals.len(), room.reals),
        ("slots", tables.slots.len(), room.slots),
        ("entries of the index", tables.keys.entries.len(), room.keys),
    ];
    for (what, count, room) in parts {
        if count > room as usize {
            return Err(Error::BalanceRoom { what, count, room });
        }
    }
    Ok(())
}

fn size(
    object: &mut OpenObject,
    room: &BalanceRoom,
    cpus: u32,
    leaves: Option<BorrowedFd<'_>>,
) -> Result<(), libbpf_rs::Error> {
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if let Some(leaves) = leaves.filter(|_| name == LEAVES) {
            map.reuse_fd(leaves)?;
        } else if let Some((entries, _)) = room.entries(&name, cpus) {
            map.set_max_entries(entries)?;
        }
    }
    Ok(())
}
