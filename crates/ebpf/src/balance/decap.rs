//! The other end of a balancer's tunnels, on a real server (`bpf/xdp_decap.bpf.c`).

use super::attachment::{BalanceAttachmentConfig, Place};
use crate::abi::METADATA_FULL_BYTES;
use crate::abi::rules::pair;
use crate::load::{Embedded, Loaded, embedded, test_run};
use crate::root::LEAVES;
use crate::{Error, TestRun};
use ringside_balance::decap::{ADDRESSES_MAX, Decap};
use ringside_balance::hash::address_words;
use ringside_balance::prefix::Prefix;
use ringside_core::ledger::sum;
use ringside_sys::bpf;
use ringside_sys::words::Words64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

static XDP_DECAP: Embedded = embedded!("xdp_decap");

const COUNTS_WORDS: usize = 8;

/// A loaded program.
#[derive(Debug)]
pub struct DecapProgram {
    program: OwnedFd,
    counts: Words64,
    place: Option<Place>,
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
        let program = DecapProgram::prepared(decap, Some(Place::take(config)?))?;
        if let Some(place) = &program.place {
            place.put(program.program.as_fd())?;
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
                    (Some("decap_count"), _) => map.set_max_entries(cpus)?,
                    _ => {}
                }
            }
            Ok(())
        })?;
        let counts = Words64::of_array(loaded.map("decap_count")?, cpus as usize * COUNTS_WORDS);
        let counts = counts.map_err(|e| Error::mapping("decap_count", e))?;
        Ok(DecapProgram { program: loaded.program_fd()?, counts, place })
    }

    /// What was counted; exact while no frames come.
    pub fn counts(&self) -> DecapCounts {
        let of = |what: usize| {
            let parts = self.counts.chunks_exact(COUNTS_WORDS);
            sum(parts.map(|part| part[what].load(Ordering::Relaxed)))
        };
        DecapCounts {
            seen: of(0),
            passed: of(1),
            unpacked: of(2),
            congested: of(3),
            no_room: of(4),
        }
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
        if let Some(place) = self.place.take() {
            // The kernel refuses only what is not there.
            let _ = place.leave();
        }
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
    Ok(bytes.chain(decap.mac.0).chain([0; 2]).collect())
}
