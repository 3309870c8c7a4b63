//! The balancer: `bpf/xdp_balance.bpf.c`, its tables, and what it counts. [`DecapProgram`] is the
//! other end of its tunnels, on a real server.
//!
//! A [`BalanceProgram`] has two generations of tables. What [`BalanceProgram::change`] writes goes
//! to the one that is not in force, and one word makes it the current one: a frame is decided by
//! the old tables or the new ones. The old ones count on for the time that the new ones say, for
//! flows that are not remembered. What the tables mean is the business of `ringside-balance`. One
//! that is to stay ([`BalanceProgram::open_to_stay`]) goes on without its process, and the next
//! process goes on with its tables.

mod account;
mod attachment;
mod books;
mod check;
mod decap;
mod maps;
mod pinned;
mod room;

pub use account::{BalanceAccount, RealAccount, VipAccount};
pub use attachment::BalanceAttachmentConfig;
pub use check::{CHECK_SLOTS, CheckWays};
pub use decap::{DecapCounts, DecapProgram, PinnedDecap};
pub use maps::BalanceMaps;
pub use pinned::PinnedBalance;
pub use room::BalanceRoom;

use crate::abi::METADATA_FULL_BYTES;
use crate::abi::balance as abi;
use crate::load::{Embedded, Loaded, embedded, test_run};
use crate::pins::{self, Kind, PROGRAM};
use crate::root::LEAVES;
use crate::{Error, TestRun};
use abi::Config;
use attachment::Place;
use books::{Books, Owned};
use libbpf_rs::OpenObject;
use pinned::VERSION;
use ringside_balance::Tables;
use ringside_balance::balancer::Count;
use ringside_sys::bpf;
use ringside_wire::MacAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

static XDP_BALANCE: Embedded = embedded!("xdp_balance");

/// A loaded balancer with its tables.
#[derive(Debug)]
pub struct BalanceProgram {
    program: OwnedFd,
    maps: BalanceMaps,
    books: Books,
    seed: u64,
    place: Option<Place>,
}

/// What became of a balancer that was there without a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// There was none.
    None,
    /// It goes on, with what it counted and remembers.
    GoesOn,
    /// Another one is in its place, which counts and remembers anew: it could not be read, has too
    /// little room, or was made for other frames.
    Replaced,
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
        program.put()?;
        Ok(program)
    }

    /// The same, and it stays when the process ends. One that is there without a process goes on if
    /// it can: then `tables` are asked to follow those that are known.
    ///
    /// # Errors
    /// As [`open`](BalanceProgram::open); or there is no BPF file system, or a process has the one
    /// that is there.
    pub fn open_to_stay(
        config: &BalanceAttachmentConfig<'_>,
        tables: impl Fn(Option<&Tables>) -> Tables,
        (flows, mac): (u32, MacAddr),
        now_ns: u64,
    ) -> Result<(BalanceProgram, Tables, Before), Error> {
        let place = Place::take_to_stay(config, Kind::Balancer)?;
        let was_there = place.before().is_some();
        let found = found(&place, flows, mac);
        let mut place = Some(place);
        if let Some((program, maps, seed)) = found {
            let books = maps.books();
            let mut program = BalanceProgram { program, maps, books, seed, place };
            let next = tables(Some(&program.known()));
            if fits(&next, program.maps.room()).is_ok() {
                program.change(&next, now_ns)?;
                return Ok((program, next, Before::GoesOn));
            }
            place = program.place.take();
        }
        let tables = tables(None);
        let room = BalanceRoom::twice(&tables, flows);
        let program = BalanceProgram::prepared(&tables, &room, mac, place)?;
        program.put()?;
        let before = if was_there { Before::Replaced } else { Before::None };
        Ok((program, tables, before))
    }

    /// What is known of the tables in force.
    fn known(&self) -> Tables {
        let vips = self.books.vips.iter();
        let vips = vips.map(|vip| (vip.state == Owned::Live).then(|| vip.name.clone()));
        Tables::known(vips.collect(), self.maps.reals())
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
        let config = constants_for(room, cpus, mac, seed, place.as_ref());
        let mut loaded = Loaded::prepared(&XDP_BALANCE, Some(&config.to_bytes()), |object| {
            size(object, room, cpus, place.as_ref().map(Place::leaves))
        })?;
        let maps = BalanceMaps::of(&loaded, room, cpus)?;
        let books = Books::empty(room.vips, room.reals).next(tables, &maps);
        maps.write(tables, &books, 0);
        maps.control().store(0, Ordering::Release);
        Ok(BalanceProgram { program: loaded.program_fd()?, maps, books, seed, place })
    }

    /// Puts it in its place.
    fn put(&self) -> Result<(), Error> {
        let Some(place) = &self.place else { return Ok(()) };
        place.put(self.program.as_fd(), VERSION, self.maps.objects())
    }

    /// Goes on with `tables`, which follow the current ones. May take some ten milliseconds. Tables
    /// that say the same are no change: those before the current ones count on for their time.
    ///
    /// # Errors
    /// There is too little room for them; the current ones stay in force.
    pub fn change(&mut self, tables: &Tables, now_ns: u64) -> Result<(), Error> {
        fits(tables, self.maps.room())?;
        if self.books.has_vips_of(tables) && self.maps.is_in_force(tables) {
            return Ok(());
        }
        let generation = self.maps.generation();
        // The tables before the current ones do not count any more, and no CPU looks at them.
        self.maps.control().store(generation, Ordering::Release);
        bpf::wait_until_left();
        let next = generation ^ 1;
        let books = self.books.next(tables, &self.maps);
        self.maps.write(tables, &books, next);
        let until_ns = now_ns.saturating_add(tables.settings.change_window_ns);
        self.maps.control().store(next | until_ns << 1, Ordering::Release);
        self.books = books;
        Ok(())
    }

    /// Takes it off its interface, if it is on one and is not to stay. When this returns, no CPU is
    /// within the program: its counts do not change any more. May take some ten milliseconds.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.place.take().map_or(Ok(()), Place::leave)
    }

    /// Puts it to its place again if nothing is there; true if so.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn put_back_if_gone(&self) -> Result<bool, Error> {
        let place = self.place.as_ref();
        place.map_or(Ok(false), |place| place.put_back_if_gone(self.program.as_fd()))
    }

    /// Its tables, and what was counted.
    pub fn maps(&self) -> &BalanceMaps {
        &self.maps
    }

    /// Bytes of all its tables.
    pub fn memory_bytes(&self) -> usize {
        self.maps.memory_bytes()
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

    /// What was counted at the index of a VIP on all CPUs, by [`Count`]; exact while no frames
    /// come.
    pub fn counts(&self, vip: u32) -> [u64; Count::ALL] {
        self.maps.vip_counts(vip)
    }

    /// Frames that went to the index of a real, and the bytes in which they came.
    pub fn real_counts(&self, real: u32) -> [u64; 2] {
        self.maps.real_counts(real)
    }

    /// Frames that were seen, and those of them that passed; the others are counted at VIPs.
    pub fn totals(&self) -> [u64; 2] {
        self.maps.totals()
    }

    /// Lets time pass for what is remembered: every flow was idle for so much longer, and a CPU's
    /// second began so much earlier.
    pub fn age(&self, by_ns: u64) {
        self.maps.age(by_ns);
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

/// Program, tables and seed of the balancer that is there by pins, if it is such as would be made
/// now.
fn found(place: &Place, flows: u32, mac: MacAddr) -> Option<(OwnedFd, BalanceMaps, u64)> {
    let set = place.before().filter(|set| set.version == VERSION)?;
    let maps = BalanceMaps::pinned(&set.directory)?;
    let program = bpf::pinned(&set.directory.join(PROGRAM)).ok()?;
    let constants = pins::constants(set.program)?;
    let seed = u64::from_ne_bytes(*constants.first_chunk()?);
    let wanted = BalanceRoom { flows, ..*maps.room() };
    let config = constants_for(&wanted, bpf::cpu_numbers().ok()?, mac, seed, Some(place));
    config.is_in(&constants).then_some((program, maps, seed))
}

fn constants_for(
    room: &BalanceRoom,
    cpus: u32,
    mac: MacAddr,
    seed: u64,
    place: Option<&Place>,
) -> Config {
    Config {
        seed,
        cpus,
        sets: room.sets(),
        vips: room.vips,
        reals: room.reals,
        slot_lines: room.lines(),
        keys: room.keys,
        position: place.map_or(0, Place::position),
        metadata: match place {
            Some(place) if place.has_metadata() => METADATA_FULL_BYTES,
            _ => 0,
        },
        mac,
        stays: place.is_some_and(Place::stays),
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
