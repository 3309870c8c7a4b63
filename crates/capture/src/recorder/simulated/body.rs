//! What a file of a simulated disk holds.
//!
//! Of each page it keeps what was written since the last sync that succeeded: what a crash
//! leaves is any of these, or sectors of two of them. The same holds for the file's size. A sync
//! makes what is there last; one that fails makes nothing last, and what was written before it is
//! never believed again, as Linux has it: until it is written anew, a crash leaves any of it,
//! whatever later syncs say.

use ringside_testkit::Random;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

pub(super) const PAGE_BYTES: usize = 4096;
/// What a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// `None` stands for zeros.
type Content = Option<Arc<[u8; PAGE_BYTES]>>;

/// What is on the medium, and what came since: the last is what is read.
struct Versions<T>(Vec<T>);

impl<T: Clone + PartialEq> Versions<T> {
    fn last(&self) -> &T {
        self.0.last().expect("there is always one")
    }

    fn push(&mut self, new: T) {
        if *self.last() != new {
            self.0.push(new);
        }
    }

    fn settle(&mut self) {
        self.0.drain(..self.0.len() - 1);
    }

    fn pick(&self, what_is_left: Crash, random: &mut Random) -> &T {
        match what_is_left {
            Crash::Killed => self.last(),
            Crash::OnlySynced => &self.0[0],
            Crash::Any => &self.0[random.below(self.0.len())],
        }
    }
}

/// What is left of what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crash {
    /// All: the process was killed.
    Killed,
    /// Nothing: the power failed before anything was written out.
    OnlySynced,
    /// Any part of it, at random.
    Any,
}

struct Page {
    versions: Versions<Content>,
    /// A sync of it failed.
    is_lost: bool,
}

pub(super) struct Body {
    pages: BTreeMap<u64, Page>,
    bytes: Versions<u64>,
}

impl Body {
    /// An empty file.
    pub(super) fn new() -> Body {
        Body { pages: BTreeMap::new(), bytes: Versions(vec![0]) }
    }

    /// Bytes of the file.
    pub(super) fn size(&self) -> u64 {
        *self.bytes.last()
    }

    pub(super) fn read(&self, offset: u64, bytes: usize) -> Vec<u8> {
        let end = (offset + bytes as u64).min(*self.bytes.last()).max(offset);
        let mut read = vec![0; (end - offset) as usize];
        let first = offset / PAGE_BYTES as u64;
        for (&number, page) in self.pages.range(first..end.div_ceil(PAGE_BYTES as u64)) {
            let Some(content) = page.versions.last() else { continue };
            let start = number * PAGE_BYTES as u64;
            let (from, to) = (start.max(offset), (start + PAGE_BYTES as u64).min(end));
            read[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&content[(from - start) as usize..(to - start) as usize]);
        }
        read
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        let mut at = 0;
        while at < bytes.len() {
            let place = offset + at as u64;
            let (page, from) = (place / PAGE_BYTES as u64, place as usize % PAGE_BYTES);
            let count = (PAGE_BYTES - from).min(bytes.len() - at);
            self.change(page, |content| {
                content[from..from + count].copy_from_slice(&bytes[at..at + count]);
            });
            at += count;
        }
        let end = offset + bytes.len() as u64;
        self.bytes.push(end.max(*self.bytes.last()));
    }

    fn change(&mut self, page: u64, change: impl FnOnce(&mut [u8; PAGE_BYTES])) {
        let known = self.pages.get(&page);
        let last = known.and_then(|page| page.versions.last().as_deref());
        let mut content = *last.unwrap_or(&[0; PAGE_BYTES]);
        change(&mut content);
        let content = (content != [0; PAGE_BYTES]).then(|| Arc::new(content));
        if content.is_none() && known.is_none() {
            return;
        }
        let new = || Page { versions: Versions(vec![None]), is_lost: false };
        let page = self.pages.entry(page).or_insert_with(new);
        page.versions.push(content);
        // It is written back again, whole.
        page.is_lost = false;
    }

    pub(super) fn set_len(&mut self, bytes: u64) {
        let (first, within) = (bytes / PAGE_BYTES as u64, bytes as usize % PAGE_BYTES);
        let beyond: Vec<u64> = self.pages.range(first..).map(|(&page, _)| page).collect();
        for page in beyond {
            let from = if page == first { within } else { 0 };
            self.change(page, |content| content[from..].fill(0));
        }
        self.bytes.push(bytes);
    }

    pub(super) fn sync(&mut self) {
        self.pages.values_mut().filter(|page| !page.is_lost).for_each(|p| p.versions.settle());
        self.bytes.settle();
    }

    pub(super) fn lose(&mut self) {
        let unsynced = self.pages.values_mut().filter(|page| page.versions.0.len() > 1);
        unsynced.for_each(|page| page.is_lost = true);
    }

    pub(super) fn leave(&self, file: &File, crash: Crash, random: &mut Random) {
        let bytes = *self.bytes.pick(crash, random);
        file.set_len(bytes).unwrap();
        for (&number, page) in &self.pages {
            let at = number * PAGE_BYTES as u64;
            let count = bytes.saturating_sub(at).min(PAGE_BYTES as u64) as usize;
            let mut content = content_of(page.versions.pick(crash, random));
            if crash == Crash::Any && random.below(3) == 0 {
                let other = content_of(page.versions.pick(crash, random));
                for from in (0..PAGE_BYTES).step_by(SECTOR_BYTES).filter(|_| random.below(2) == 0) {
                    content[from..from + SECTOR_BYTES]
                        .copy_from_slice(&other[from..from + SECTOR_BYTES]);
                }
            }
            if content[..count].iter().any(|&byte| byte != 0) {
                file.write_all_at(&content[..count], at).unwrap();
            }
        }
    }
}

fn content_of(content: &Content) -> [u8; PAGE_BYTES] {
    content.as_deref().copied().unwrap_or([0; PAGE_BYTES])
}
