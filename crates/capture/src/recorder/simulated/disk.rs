//! A disk whose power goes, with the files of one recording.
//!
//! Of each page of a file it keeps what was written since the last sync that succeeded: what a
//! crash leaves is any of these, or sectors of two of them. The same holds for a file's size and
//! name. A sync makes what is there last; one that fails makes nothing last, and what was written
//! before it is never believed again, as Linux has it: until it is written anew, a crash leaves
//! any of it, whatever later syncs say. As with ext4, XFS and btrfs, a sync of a file syncs its
//! name.

use ringside_store::dir::Entry;
use ringside_store::recording::Storage;
use ringside_testkit::Random;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

const PAGE_BYTES: usize = 4096;
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
    /// Nothing.
    OnlySynced,
    /// Anything.
    Any,
}

struct Page {
    versions: Versions<Content>,
    /// A sync of it failed.
    is_lost: bool,
}

struct Body {
    pages: BTreeMap<u64, Page>,
    bytes: Versions<u64>,
    /// `None` while it has none.
    name: Versions<Option<String>>,
}

/// The whole disk.
pub(super) struct State {
    random: Random,
    /// One call in so many fails; 0 for none.
    fault_in: usize,
    /// Calls until the power goes.
    left: usize,
    files: Vec<Body>,
}

/// A handle of the disk.
#[derive(Clone)]
pub(super) struct Disk(Arc<Mutex<State>>);

/// A handle of a file.
pub(super) struct SimulatedFile {
    disk: Disk,
    index: usize,
    is_direct: bool,
    /// Direct writes can be had.
    takes_direct: bool,
}

impl Disk {
    pub(super) fn new(seed: u64, fault_in: usize, calls: usize) -> Disk {
        let random = Random::new(seed);
        Disk(Arc::new(Mutex::new(State { random, fault_in, left: calls, files: Vec::new() })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(super) fn has_crashed(&self) -> bool {
        self.lock().left == 0
    }

    /// Makes a file.
    pub(super) fn create(&self, entry: &Entry, takes_direct: bool) -> io::Result<SimulatedFile> {
        let mut state = self.lock();
        state.call()?;
        let mut name = Versions(vec![None]);
        name.push(Some(text(entry)));
        state.files.push(Body { pages: BTreeMap::new(), bytes: Versions(vec![0]), name });
        let index = state.files.len() - 1;
        Ok(SimulatedFile { disk: self.clone(), index, is_direct: false, takes_direct })
    }

    /// Writes to `directory` what a crash leaves.
    pub(super) fn leave(&self, directory: &Path, crash: Crash) {
        let state = &mut *self.lock();
        for body in &state.files {
            if let Some(name) = body.name.pick(crash, &mut state.random) {
                let file = File::create_new(directory.join(name)).unwrap();
                body.leave(&file, crash, &mut state.random);
            }
        }
    }
}

fn text(entry: &Entry) -> String {
    entry.name().to_str().unwrap().to_owned()
}

impl State {
    /// A call is made: it may fail, and after the last one all do.
    fn call(&mut self) -> io::Result<()> {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            return Err(Errno::IO.into());
        }
        if self.fault_in == 0 || self.random.below(self.fault_in) != 0 {
            return Ok(());
        }
        Err([Errno::IO, Errno::NOSPC][self.random.below(2)].into())
    }
}

impl Body {
    fn write(&mut self, bytes: &[u8], offset: u64) {
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

    fn set_len(&mut self, bytes: u64) {
        let (first, within) = (bytes / PAGE_BYTES as u64, bytes as usize % PAGE_BYTES);
        let beyond: Vec<u64> = self.pages.range(first..).map(|(&page, _)| page).collect();
        for page in beyond {
            let from = if page == first { within } else { 0 };
            self.change(page, |content| content[from..].fill(0));
        }
        self.bytes.push(bytes);
    }

    fn sync(&mut self) {
        self.pages.values_mut().filter(|page| !page.is_lost).for_each(|p| p.versions.settle());
        self.bytes.settle();
        self.name.settle();
    }

    fn lose(&mut self) {
        let unsynced = self.pages.values_mut().filter(|page| page.versions.0.len() > 1);
        unsynced.for_each(|page| page.is_lost = true);
    }

    fn leave(&self, file: &File, crash: Crash, random: &mut Random) {
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

impl SimulatedFile {
    /// A call that does all or nothing.
    fn call(&self, change: impl FnOnce(&mut Body)) -> io::Result<()> {
        let mut state = self.disk.lock();
        state.call()?;
        change(&mut state.files[self.index]);
        Ok(())
    }

    fn another(&self, is_direct: bool) -> SimulatedFile {
        let SimulatedFile { index, takes_direct, .. } = *self;
        SimulatedFile { disk: self.disk.clone(), index, is_direct, takes_direct }
    }
}

impl Storage for SimulatedFile {
    fn write_counted(&self, bytes: &[u8], offset: u64) -> (usize, io::Result<()>) {
        if self.is_direct {
            let is_whole = |number: usize| number.is_multiple_of(PAGE_BYTES);
            assert!(is_whole(bytes.len()) && is_whole(offset as usize), "no direct write");
            assert!(is_whole(bytes.as_ptr().addr()), "nor from such memory");
        }
        let mut state = self.disk.lock();
        let was_there = state.left > 0;
        let result = state.call();
        let written = match (&result, was_there) {
            (Ok(()), _) => bytes.len(),
            (Err(_), false) => 0,
            // It ends anywhere.
            (Err(_), true) => {
                let step = if self.is_direct { PAGE_BYTES } else { 1 };
                state.random.below(bytes.len() + 1) / step * step
            }
        };
        state.files[self.index].write(&bytes[..written], offset);
        (written, result)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.call(|body| body.set_len(bytes))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.call(Body::sync).inspect_err(|_| self.disk.lock().files[self.index].lose())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn write_out(&self, _bytes: u64) -> io::Result<()> {
        self.call(|_| ())
    }

    fn reserve(&self, _from: u64, _bytes: u64) -> io::Result<()> {
        self.call(|_| ())
    }

    fn duplicate(&self) -> io::Result<SimulatedFile> {
        Ok(self.another(false))
    }

    fn open_direct(&self, _entry: &Entry) -> Option<SimulatedFile> {
        self.takes_direct.then(|| self.another(true))
    }

    fn rename(&self, _from: &Entry, to: &Entry) -> io::Result<()> {
        self.call(|body| body.name.push(Some(text(to))))
    }
}
