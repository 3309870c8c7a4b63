//! The arrays of a flow cache, mapped.

use super::abi::{
    CONTROL_EPOCH, CONTROL_WAYS_USED, CONTROL_WORDS, COUNTS_WORDS, Counts, ENTRY_WORDS,
    RING_BEHIND, RING_RECORDS_AT, SET_WORDS, TAKEN_WORDS, WAYS,
};
use crate::Error;
use crate::load::Loaded;
use ringside_sys::words::{Words32, Words64};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

/// How a cache is cut. The kernel takes all of its memory at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowLayout {
    /// Numbers of CPUs; each has a part of its own.
    pub cpus: u32,
    /// Sets of a part, a power of two; each has [`WAYS`] entries.
    pub sets: u32,
    /// Bytes of a part's ring, a power of two and at least 4,096.
    pub ring_bytes: u32,
}

impl FlowLayout {
    /// Entries of a part.
    pub fn entries(&self) -> usize {
        self.sets as usize * WAYS
    }

    /// Bytes of one value of the array of rings.
    pub fn ring_value_bytes(&self) -> usize {
        RING_RECORDS_AT + self.ring_bytes as usize + RING_BEHIND
    }

    /// Bytes of all arrays.
    pub fn memory_bytes(&self) -> usize {
        let words = ENTRY_WORDS + TAKEN_WORDS + SET_WORDS / 2 / WAYS;
        self.cpus as usize * (self.entries() * words * 8 + self.ring_value_bytes())
    }
}

/// Names in `bpf/flows.h`; the order is that of the descriptors that another process gets.
pub(super) const MAPS: [&str; 6] =
    ["flow_control", "flow_counts", "flow_sets", "flow_entries", "flow_rings", "flow_taken"];

/// What program and user space share.
#[derive(Debug)]
pub struct FlowMaps {
    descriptors: [OwnedFd; MAPS.len()],
    /// How it is cut.
    pub layout: FlowLayout,
    /// Words of control ([`CONTROL_EPOCH`](super::abi::CONTROL_EPOCH)).
    pub control: Words64,
    /// Sets of all parts.
    pub sets: Words32,
    /// Entries of all parts.
    pub entries: Words64,
    /// Rings of all parts.
    pub rings: Words64,
    /// What was taken of each entry. The program leaves it alone.
    pub taken: Words64,
    counts: Words64,
}

impl FlowMaps {
    pub(super) fn of(loaded: &Loaded, layout: FlowLayout) -> Result<FlowMaps, Error> {
        let copy = |name| -> Result<OwnedFd, Error> {
            let copy = loaded.map(name)?.as_fd().try_clone_to_owned();
            copy.map_err(|e| Error::kernel(format!("cannot keep the map {name}"), e.into()))
        };
        let [control, counts, sets, entries, rings, taken] = MAPS;
        let descriptors = [
            copy(control)?,
            copy(counts)?,
            copy(sets)?,
            copy(entries)?,
            copy(rings)?,
            copy(taken)?,
        ];
        let maps = FlowMaps::mapped(layout, descriptors)?;
        // 0 stands for an epoch that never was.
        maps.control[CONTROL_EPOCH].store(1, Ordering::Release);
        Ok(maps)
    }

    pub(super) fn mapped(
        layout: FlowLayout,
        descriptors: [OwnedFd; MAPS.len()],
    ) -> Result<FlowMaps, Error> {
        let cpus = layout.cpus as usize;
        let entries = cpus * layout.entries();
        let words = |at: usize, count: usize| {
            let words = Words64::of_array(&descriptors[at], count);
            words.map_err(|e| Error::mapping(MAPS[at], e))
        };
        let sets = Words32::of_array(&descriptors[2], cpus * layout.sets as usize * SET_WORDS);
        Ok(FlowMaps {
            control: words(0, CONTROL_WORDS)?,
            counts: words(1, cpus * COUNTS_WORDS)?,
            sets: sets.map_err(|e| Error::mapping(MAPS[2], e))?,
            entries: words(3, entries * ENTRY_WORDS)?,
            rings: words(4, cpus * layout.ring_value_bytes() / 8)?,
            taken: words(5, entries * TAKEN_WORDS)?,
            layout,
            descriptors,
        })
    }

    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.descriptors.iter().map(AsFd::as_fd)
    }

    /// What all CPUs counted: exact while no frames come.
    pub fn counts(&self) -> Counts {
        let mut all = Counts::default();
        for cpu in self.counts.chunks_exact(COUNTS_WORDS) {
            all.add(&std::array::from_fn(|at| cpu[at].load(Ordering::Relaxed)));
        }
        all
    }

    /// Ways of each set that are used, 1 to [`WAYS`]: the other entries stay as they are, and are
    /// found again when there are more ways.
    pub fn set_ways(&self, ways: usize) {
        self.control[CONTROL_WAYS_USED].store(ways.clamp(1, WAYS) as u64, Ordering::Relaxed);
    }

    /// See [`set_ways`](FlowMaps::set_ways).
    pub fn ways(&self) -> usize {
        self.control[CONTROL_WAYS_USED].load(Ordering::Relaxed) as usize
    }
}
