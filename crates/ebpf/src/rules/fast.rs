//! The fast path (`bpf/fast.h`): a program for the first rules of a set, in front of the one for
//! all of them.

use super::attachment::RulesAttachment;
use super::program::RulesProgram;
use super::{Words32, Words64};
use crate::abi::METADATA_FULL_BYTES;
use crate::abi::fast::{Config, Layout, PAGE_ENTRIES};
use crate::load::{Embedded, Loaded, embedded, test_run};
use crate::pins::PROGRAM;
use crate::root::{LEAVES, fd_array};
use crate::{Error, TestRun};
use libbpf_rs::{MapHandle, OpenObject};
use ringside_sys::bpf::FdArray;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

/// For rules that ask about ports and protocols, for those that ask about addresses, and for both.
static XDP_FAST_PORT: Embedded = embedded!("xdp_fast_port");
static XDP_FAST_HOST: Embedded = embedded!("xdp_fast_host");
static XDP_FAST: Embedded = embedded!("xdp_fast");

/// The array that leads to the general program.
const GENERAL: &str = "general";
/// Arrays of the general program in which this one counts, too.
const SHARED: [&str; 3] = ["totals", "counts", "offenders"];
/// Its own.
const OWN: [&str; 3] = ["pages", "prefixes", "ranks"];

/// What its arrays hold.
#[derive(Clone, Debug)]
pub struct FastTables {
    /// Where they are.
    pub layout: Layout,
    /// Entries of rules, by the value of a byte.
    pub pages: Vec<[u32; PAGE_ENTRIES]>,
    /// Hash tables of prefixes: each in the upper half of a word, its entry in the lower.
    pub prefixes: Vec<u64>,
    /// The slot of each rank.
    pub ranks: Vec<u64>,
}

/// A fast path with its tables, which do not change any more.
#[derive(Debug)]
pub struct FastProgram {
    program: OwnedFd,
    maps: Vec<(&'static str, MapHandle)>,
    /// Held: when no process holds it and no name is left, the kernel empties it.
    general: FdArray,
    rules: usize,
    bytes: usize,
}

impl FastProgram {
    /// Loads it in front of `general`, for the same attachment; without one it can only be run on
    /// test data. The rules of the tables are the first of the general program's.
    ///
    /// # Errors
    /// No privilege, no memory, or the kernel refused.
    pub fn load(
        tables: &FastTables,
        general: &RulesProgram,
        attachment: Option<&RulesAttachment>,
    ) -> Result<FastProgram, Error> {
        let has_metadata = attachment.is_none_or(RulesAttachment::has_metadata);
        let config = Config {
            position: attachment.map_or(0, RulesAttachment::position),
            metadata: if has_metadata { METADATA_FULL_BYTES } else { 0 },
            slots: general.sizes().slots as u32,
            offenders: general.options().offenders,
            stays: attachment.is_some_and(RulesAttachment::is_pinned).into(),
            layout: &tables.layout,
            source_seed: general.seed(),
        };
        let object = match (tables.pages.is_empty(), tables.prefixes.is_empty()) {
            (true, _) => &XDP_FAST_HOST,
            (_, true) => &XDP_FAST_PORT,
            _ => &XDP_FAST,
        };
        let mut loaded = Loaded::prepared(object, Some(&config.to_bytes()), |object| {
            prepare(object, tables, general, attachment.map(RulesAttachment::leaves))
        })?;
        let maps = OWN.into_iter().map(|name| Ok((name, loaded.map(name)?)));
        let maps = maps.collect::<Result<Vec<_>, Error>>()?;
        fill(&maps, tables)?;
        let array = fd_array(&loaded.map(GENERAL)?)?;
        array.set(0, general.as_fd())?;
        let words = size_of_val(&*tables.prefixes) + size_of_val(&*tables.ranks);
        let bytes = size_of_val(&*tables.pages) + words;
        let (program, rules) = (loaded.program_fd()?, tables.ranks.len());
        Ok(FastProgram { program, maps, general: array, rules, bytes })
    }

    /// How many rules it decides about.
    pub fn rules(&self) -> usize {
        self.rules
    }

    /// Bytes of its own tables.
    pub fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// Runs it once on a copy of `frame`; it is counted.
    ///
    /// # Errors
    /// The kernel refused; a frame of less than 14 bytes is.
    pub fn test_run(&self, frame: &[u8]) -> Result<TestRun, Error> {
        test_run(self.program.as_fd(), frame)
    }

    /// What must stay where its process does not, in addition to what the general program has.
    pub(super) fn objects(&self) -> impl Iterator<Item = (&'static str, BorrowedFd<'_>)> {
        let maps = self.maps.iter().map(|(name, map)| (*name, map.as_fd()));
        maps.chain([(GENERAL, self.general.as_fd()), (PROGRAM, self.as_fd())])
    }
}

impl AsFd for FastProgram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
}

/// Sizes its own arrays, and takes those that it shares.
fn prepare(
    object: &mut OpenObject,
    tables: &FastTables,
    general: &RulesProgram,
    leaves: Option<BorrowedFd<'_>>,
) -> Result<(), libbpf_rs::Error> {
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        match (name.as_str(), leaves) {
            ("pages", _) => map.set_value_size(bytes_of(&tables.pages))?,
            ("prefixes", _) => map.set_value_size(bytes_of(&tables.prefixes))?,
            ("ranks", _) => map.set_max_entries(tables.ranks.len() as u32)?,
            (LEAVES, Some(leaves)) => map.reuse_fd(leaves)?,
            (name, _) if SHARED.contains(&name) => map.reuse_fd(general.map(name))?,
            _ => {}
        }
    }
    Ok(())
}

/// Bytes of a table that is one value, which is not empty.
fn bytes_of<T>(table: &[T]) -> u32 {
    size_of_val(table).max(size_of::<u64>()) as u32
}

fn fill(maps: &[(&'static str, MapHandle)], tables: &FastTables) -> Result<(), Error> {
    for (name, map) in maps {
        let refused = |e| Error::mapping(name, e);
        let words = match *name {
            "prefixes" => &tables.prefixes,
            "ranks" => &tables.ranks,
            _ => {
                let entries = tables.pages.as_flattened();
                let words = Words32::of_array(map, entries.len()).map_err(refused)?;
                for (to, entry) in words.iter().zip(entries) {
                    to.store(*entry, Ordering::Relaxed);
                }
                continue;
            }
        };
        let array = Words64::of_array(map, words.len()).map_err(refused)?;
        for (to, word) in array.iter().zip(words) {
            to.store(*word, Ordering::Relaxed);
        }
    }
    Ok(())
}
