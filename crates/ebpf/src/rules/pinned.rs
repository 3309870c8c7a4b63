//! Rules that are in force without a process, as far as they can be read.

use super::Words64;
use super::counters::{COUNTS_BYTES, Counters, OFFENDER_BYTES, TOTALS_BYTES, Totals};
use super::program::{CONTROL_DEFAULT, TEXT_BYTES};
use crate::Error;
use crate::abi::rules::{Fate, parts};
use crate::pins::{InForce, PROGRAM, Pins};
use libbpf_rs::{MapCore, MapHandle};
use ringside_sys::bpf;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Version of what the arrays hold: another one is not read.
pub(super) const VERSION: u32 = 1;
/// The texts read are at most this many times the size of their array. They do not overlap, but a
/// place may be written anew for another rule while all are read.
const TEXTS_READ_TIMES: usize = 2;

/// Pinned rules that are in force. Nothing here changes them.
#[derive(Debug)]
pub struct PinnedRules {
    directory: PathBuf,
    program: OwnedFd,
    tables: Tables,
}

/// What can be read of a set. Another program may have written there, so that nothing in it is
/// believed.
#[derive(Debug)]
struct Tables {
    control: Words64,
    counters: Counters,
    titles: Words64,
    texts: Words64,
}

impl PinnedRules {
    /// What is in force by these pins, if something is.
    ///
    /// # Errors
    /// Another version of this program has pinned it, it is damaged, or there is no privilege.
    pub fn open(pins: &Pins) -> Result<Option<PinnedRules>, Error> {
        pins.in_force().as_ref().map(PinnedRules::of).transpose()
    }

    pub(super) fn of(set: &InForce) -> Result<PinnedRules, Error> {
        let form = || Error::PinnedForm { path: set.directory.clone() };
        if set.version != VERSION {
            return Err(form());
        }
        PinnedRules::read(&set.directory).ok_or_else(form)
    }

    fn read(directory: &Path) -> Option<PinnedRules> {
        let (totals, parts) = array(directory, "totals", TOTALS_BYTES)?;
        let (counts, places) = array(directory, "counts", COUNTS_BYTES)?;
        let (offenders, _) = array(directory, "offenders", OFFENDER_BYTES)?;
        let cpus = parts.checked_sub(1)?;
        let slots = places / Counters::parts(cpus);
        let words = array(directory, "control", (CONTROL_DEFAULT + 1) * size_of::<u64>())?;
        let tables = Tables {
            control: words.0,
            counters: Counters { cpus, slots, totals, counts, offenders },
            titles: array(directory, "titles", size_of::<u64>())?.0,
            texts: array(directory, "texts", TEXT_BYTES)?.0,
        };
        let program = bpf::pinned(&directory.join(PROGRAM)).ok()?;
        Some(PinnedRules { directory: directory.to_owned(), program, tables })
    }

    /// Where its names are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Frames are judged and counted, and go on.
    pub fn is_dry(&self) -> bool {
        self.tables.is_dry()
    }

    /// The fate of frames that no rule decides about.
    pub fn default_fate(&self) -> Fate {
        self.tables.default_fate()
    }

    /// Frames since they were first pinned: exact while none come.
    pub fn totals(&self) -> Totals {
        self.tables.counters.totals()
    }

    /// As [`RulesProgram::offenders`](super::RulesProgram::offenders), of this set.
    pub fn offenders(&self) -> impl Iterator<Item = ([u64; 2], u64, u64)> {
        self.tables.counters.offenders()
    }

    /// The text of each rule, and what it counted: frames, bytes.
    pub fn rules(&self) -> impl Iterator<Item = (String, (u64, u64))> {
        self.tables.rules()
    }

    pub(super) fn into_program(self) -> OwnedFd {
        self.program
    }
}

impl Tables {
    fn is_dry(&self) -> bool {
        self.control_word() >> 32 != 0
    }

    fn default_fate(&self) -> Fate {
        Fate::of(self.control_word() as u32).unwrap_or(Fate::Pass)
    }

    fn control_word(&self) -> u64 {
        self.control[CONTROL_DEFAULT].load(Ordering::Acquire)
    }

    fn rules(&self) -> impl Iterator<Item = (String, (u64, u64))> {
        let titles = self.titles.iter().take(self.counters.slots).enumerate();
        let mut words_left = TEXTS_READ_TIMES * self.texts.len();
        titles.filter_map(move |(slot, title)| {
            let (first, bytes) = parts(title.load(Ordering::Acquire));
            let words = self.words(first as usize, bytes as usize)?;
            words_left = words_left.checked_sub(words.len())?;
            Some((text(words, bytes as usize), self.counters.of(slot as u32)))
        })
    }

    /// Where the text of a rule lies; none of a slot without a rule.
    fn words(&self, first: usize, bytes: usize) -> Option<&[AtomicU64]> {
        let from = first.checked_mul(TEXT_BYTES / size_of::<u64>())?;
        let until = from.checked_add(bytes.div_ceil(size_of::<u64>()))?;
        self.texts.get(from..until).filter(|words| !words.is_empty())
    }
}

fn text(words: &[AtomicU64], bytes: usize) -> String {
    let mut text: Vec<u8> =
        words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
    text.truncate(bytes);
    String::from_utf8_lossy(&text).into_owned()
}

/// The words of an array with values of `bytes` bytes each, and how many values there are.
fn array(directory: &Path, name: &str, bytes: usize) -> Option<(Words64, usize)> {
    let map = MapHandle::from_pinned_path(directory.join(name)).ok()?;
    let count = map.max_entries() as usize;
    let is_right = map.value_size() as usize == bytes;
    let words = Words64::of_array(map.as_fd(), count * bytes / size_of::<u64>());
    words.ok().filter(|_| is_right).map(|words| (words, count))
}

#[cfg(test)]
mod tests;
