//! The other end of a balancer's tunnels, on a real server (`bpf/xdp_decap.bpf.c`).

use super::attachment::{BalanceAttachmentConfig, Place};
use super::pinned::VERSION;
use crate::abi::METADATA_FULL_BYTES;
use crate::abi::rules::pair;
use crate::load::{Embedded, Loaded, embedded, test_run};
use crate::pins::{Kind, Pins};
use crate::root::LEAVES;
use crate::{Error, TestRun};
use libbpf_rs::{MapCore, MapHandle};
use ringside_balance::decap::{ADDRESSES_MAX, Decap};
use ringside_balance::hash::address_words;
use ringside_balance::prefix::Prefix;
use ringside_core::ledger::sum;
use ringside_sys::bpf;
use ringside_sys::words::Words64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

static XDP_DECAP: Embedded = embedded!("xdp_decap");

const COUNTS: &str = "decap_count";
const COUNTS_WORDS: usize = 8;

/// A loaded program.
#[derive(Debug)]
pub struct DecapProgram {
    program: OwnedFd,
    counts: DecapTable,
    place: Option<Place>,
}

/// What is counted, in an array that the program writes.
#[derive(Debug)]
struct DecapTable {
    handle: MapHandle,
    words: Words64,
}

impl DecapTable {
    fn of(handle: MapHandle) -> Result<DecapTable, Error> {
        let words = Words64::of_array(&handle, handle.max_entries() as usize * COUNTS_WORDS);
        let words = words.map_err(|e| Error::mapping(COUNTS, e))?;
        Ok(DecapTable { handle, words })
    }

    fn sums(&self) -> DecapCounts {
        let of = |what: usize| {
            let parts = self.words.chunks_exact(COUNTS_WORDS);
            sum(parts.map(|part| part[what].load(Ordering::Relaxed)))
        };
        let (seen, passed, unpacked) = (of(0), of(1), of(2));
        DecapCounts { seen, passed, unpacked, congested: of(3), no_room: of(4) }
    }
}

/// What is pinned, at work without a process or with one.
#[derive(Debug)]
pub struct PinnedDecap {
    directory: PathBuf,
    counts: DecapTable,
}

impl PinnedDecap {
    /// What is in force by these pins, if something is.
    ///
    /// # Errors
    /// Another version of this program has pinned it, it is damaged, or there is no privilege.
    pub fn open(pins: &Pins) -> Result<Option<PinnedDecap>, Error> {
        let Some(set) = pins.in_force() else { return Ok(None) };
        let is_right =
            |map: &MapHandle| map.value_size() as usize == COUNTS_WORDS * size_of::<u64>();
        let handle = MapHandle::from_pinned_path(set.directory.join(COUNTS)).ok();
        let handle = handle.filter(|map| set.version == VERSION && is_right(map));
        let directory = set.directory;
        match handle.and_then(|handle| DecapTable::of(handle).ok()) {
            Some(counts) => Ok(Some(PinnedDecap { directory, counts })),
            None => Err(Error::PinnedForm { path: directory }),
        }
    }

    /// Where its names are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What was counted; exact while no frames come.
    pub fn counts(&self) -> DecapCounts {
        self.counts.sums()
    }
}

/// Frames on all CPUs; each is in one of the last four.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecapCounts {
    /// That came.
    pub seen: u64,
    /// Without a packet in a tunnel that ends here.
    pub passed: u64,
    /// Whose packet goes on in their place.
    pub unpacked: u64,
    /// Dropped: the way was congested, and the packet cannot say so.
    pub congested: u64,
    /// Dropped: the driver cannot move the frame's start.
    pub no_room: u64,
}

impl DecapProgram {
    /// Loads the program; it can be run on test data.
    ///
    /// # Errors
    /// There is no address where tunnels end, or there are too many; no privilege, or the kernel
    /// refused.
    pub fn load(decap: &Decap) -> Result<DecapProgram, Error> {
        DecapProgram::prepared(decap, None)
    }

    /// The same, on an interface of the calling thread's network namespace: packets come out of
    /// tunnels from somewhere in this call on, until it is dropped.
    ///
    /// # Errors
    /// As [`load`](DecapProgram::load); or a foreign program is on the interface, it takes none, or
    /// a balancer is there.
    pub fn open(
        config: &BalanceAttachmentConfig<'_>,
        decap: &Decap,
    ) -> Result<DecapProgram, Error> {
        DecapProgram::put(decap, Place::take(config)?)
    }

    /// The same, and it stays when the process ends. One that is there without a process is
    /// replaced, and no packet is missed; the counts begin anew.
    ///
    /// # Errors
    /// As [`open`](DecapProgram::open); or there is no BPF file system, or a process has the one
    /// that is there.
    pub fn open_to_stay(
        config: &BalanceAttachmentConfig<'_>,
        decap: &Decap,
    ) -> Result<DecapProgram, Error> {
        DecapProgram::put(decap, Place::take_to_stay(config, Kind::Decap)?)
    }

    fn put(decap: &Decap, place: Place) -> Result<DecapProgram, Error> {
        let program = DecapProgram::prepared(decap, Some(place))?;
        if let Some(place) = &program.place {
            let counts = [(COUNTS, program.counts.handle.as_fd())];
            place.put(program.program.as_fd(), VERSION, counts.into_iter())?;
        }
        Ok(program)
    }

    fn prepared(decap: &Decap, place: Option<Place>) -> Result<DecapProgram, Error> {
        let cpus = bpf::cpu_numbers()?;
        let config = config(decap, cpus, place.as_ref())?;
        let leaves = place.as_ref().map(Place::leaves);
        let mut loaded = Loaded::prepared(&XDP_DECAP, Some(&config), |object| {
            for mut map in object.maps_mut() {
                match (map.name().to_str(), leaves) {
                    (Some(LEAVES), Some(leaves)) => map.reuse_fd(leaves)?,
                    (Some(COUNTS), _) => map.set_max_entries(cpus)?,
                    _ => {}
                }
            }
            Ok(())
        })?;
        let counts = DecapTable::of(loaded.map(COUNTS)?)?;
        Ok(DecapProgram { program: loaded.program_fd()?, counts, place })
    }

    /// What was counted; exact while no frames come.
    pub fn counts(&self) -> DecapCounts {
        self.counts.sums()
    }

    /// Takes it off its interface, if it is on one and is not to stay: then its counts do not
    /// change any more.
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

    /// What the kernel refused meanwhile, each with its reason.
    pub fn notes(&self) -> &[String] {
        self.place.as_ref().map_or(&[], Place::notes)
    }

    /// Runs the program once on a copy of `frame`; it is counted.
    ///
    /// # Errors
    /// The kernel refused; a frame of less than 14 bytes is.
    pub fn test_run(&self, frame: &[u8]) -> Result<TestRun, Error> {
        test_run(self.program.as_fd(), frame)
    }
}

impl Drop for DecapProgram {
    fn drop(&mut self) {
        // The kernel refuses only what is not there.
        let _ = self.stop();
    }
}

impl AsFd for DecapProgram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
}

/// `struct decap_config`.
fn config(decap: &Decap, cpus: u32, place: Option<&Place>) -> Result<Vec<u8>, Error> {
    let count = decap.addresses.len();
    let last = decap.addresses.last().filter(|_| count <= ADDRESSES_MAX);
    let last = *last.ok_or(Error::DecapAddresses { count })?;
    let all = decap.addresses.iter().copied().chain(std::iter::repeat(last));
    let mut words: Vec<u64> = all.take(ADDRESSES_MAX).flat_map(address_words).collect();
    let words_of = |prefix: Prefix| address_words(prefix.address());
    let ones = |bits: u8| u64::MAX.checked_shl(64 - u32::from(bits.min(64))).unwrap_or(0);
    let mask_v6 = |prefix: Prefix| [ones(prefix.bits()), ones(prefix.bits().saturating_sub(64))];
    words.extend(decap.source_v6.map_or([0; 2], words_of));
    words.extend(decap.source_v6.map_or([0; 2], mask_v6));
    let mask_v4 = |prefix: Prefix| (ones(prefix.bits()) >> 32) as u32;
    let source_v4 = decap.source_v4.map_or([0; 2], words_of)[1] as u32;
    words.push(pair(source_v4, decap.source_v4.map_or(0, mask_v4)));
    let has = |prefix: Option<Prefix>| u32::from(prefix.is_some());
    words.push(pair(has(decap.source_v6), has(decap.source_v4)));
    words.push(pair(decap.gue_port.into(), cpus));
    let metadata = if place.is_some_and(Place::has_metadata) { METADATA_FULL_BYTES } else { 0 };
    words.push(pair(place.map_or(0, Place::position), metadata));
    let bytes = words.into_iter().flat_map(u64::to_ne_bytes);
    let stays = pair(place.is_some_and(Place::stays).into(), 0).to_ne_bytes();
    Ok(bytes.chain(decap.mac.0).chain([0; 2]).chain(stays).collect())
}
