//! Batches on disk until they are delivered: `docs/formats/outlet-spool.md`.

use crate::batch::{BODY_BYTES_MAX, Batch, HEAD_BYTES, Head};
use crate::files::Files;
use ringside_flow::RecordSums;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};

/// Ending of the files' names.
const ENDING: &str = ".batch";

/// Digits of their numbers: names in order are batches in order.
const DIGITS: usize = 20;

/// What a disk gives to files at a time: a short batch costs so much.
const BLOCK_BYTES: u64 = 4096;

/// Most batches: what is known of each is in memory.
const BATCHES_MAX: usize = 1 << 20;

/// A queue of files. One batch is out at a time, the oldest, and stays until it is settled.
pub(crate) struct Spool {
    files: Box<dyn Files>,
    bytes_max: u64,
    /// Oldest first.
    entries: VecDeque<Entry>,
    /// The first one was handed out: whether it was delivered may be unknown.
    is_out: bool,
    next_number: u64,
    bytes: u64,
    found: Found,
}

struct Entry {
    number: u64,
    held: RecordSums,
    bytes: u64,
}

/// What a start found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// What earlier runs left.
    pub held: RecordSums,
    /// Batches whose writing was cut short; they are gone.
    pub half_written: u64,
    /// Files that are no whole batch; they are gone.
    pub damaged: u64,
}

/// What became of records when a batch was to be added.
#[derive(Debug)]
pub(crate) struct Appended {
    /// It is in the spool; false if there was no room for it.
    pub is_kept: io::Result<bool>,
    /// What had to go for it.
    pub dropped: RecordSums,
}

impl Spool {
    /// With what earlier runs left there.
    pub fn open(mut files: Box<dyn Files>, bytes_max: u64) -> io::Result<Spool> {
        let (mut entries, mut found, mut bytes) = (Vec::new(), Found::default(), 0);
        let mut last = 0;
        for (name, length) in files.list()? {
            if is_half_written(&name) {
                files.remove(&name)?;
                found.half_written += 1;
            }
            let Some(number) = number(&name) else { continue };
            last = last.max(number);
            match Head::of_file(&files.read(&name, HEAD_BYTES as u64)?, length) {
                Some(Head { held, .. }) if entries.len() < BATCHES_MAX => {
                    found.held += held;
                    bytes += cost(length);
                    entries.push(Entry { number, held, bytes: cost(length) });
                }
                _ => {
                    files.remove(&name)?;
                    found.damaged += 1;
                }
            }
        }
        entries.sort_by_key(|entry| entry.number);
        let next_number = last.saturating_add(1);
        let entries = entries.into();
        Ok(Spool { files, bytes_max, entries, is_out: false, next_number, bytes, found })
    }

    /// What the start found.
    pub fn found(&self) -> Found {
        self.found
    }

    /// Bytes that its files take.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a batch behind all others. Where there is no room for it the oldest go, but not the one
    /// that is out.
    pub fn append(&mut self, batch: &Batch) -> Appended {
        let mut dropped = RecordSums::default();
        let is_kept = self.try_append(batch, &mut dropped);
        Appended { is_kept, dropped }
    }

    fn try_append(&mut self, batch: &Batch, dropped: &mut RecordSums) -> io::Result<bool> {
        let file = batch.to_file();
        let bytes = cost(file.len() as u64);
        let of_out = self.entries.front().map_or(0, |first| first.bytes);
        if bytes + if self.is_out { of_out } else { 0 } > self.bytes_max {
            // Nothing that could go makes room for it.
            return Ok(false);
        }
        while self.bytes + bytes > self.bytes_max || self.entries.len() >= BATCHES_MAX {
            match self.remove(usize::from(self.is_out))? {
                Some(held) => *dropped += held,
                None => return Ok(false),
            }
        }
        let number = self.write(&file)?;
        self.entries.push_back(Entry { number, held: batch.held, bytes });
        self.bytes += bytes;
        Ok(true)
    }

    /// A file has its name when all of it is on the disk.
    fn write(&mut self, file: &[u8]) -> io::Result<u64> {
        let number = self.next_number;
        self.next_number += 1;
        let (name, part) = (name(number), format!(".{}", name(number)));
        let written = self.files.write(&part, file).and_then(|()| self.files.rename(&part, &name));
        if let Err(error) = written {
            let _ = self.files.remove(&part);
            return Err(error);
        }
        // It has its name: whether that outlives a power cut does not make it less delivered.
        let _ = self.files.sync();
        Ok(number)
    }

    /// The oldest batch, which is out until it is [`settled`](Spool::settled). `InvalidData`: it is
    /// damaged.
    pub fn first(&mut self) -> io::Result<Option<Batch>> {
        let Some(first) = self.entries.front() else { return Ok(None) };
        let name = name(first.number);
        let file = self.files.read(&name, HEAD_BYTES as u64 + BODY_BYTES_MAX + 1)?;
        let batch = Batch::from_file(&file).filter(|batch| batch.held == first.held);
        let damaged = || io::Error::new(ErrorKind::InvalidData, format!("{name} is damaged"));
        self.is_out = true;
        batch.map(Some).ok_or_else(damaged)
    }

    /// The batch that is out was delivered, or is given up: what was in it. A file that cannot be
    /// removed is delivered once more by the next start.
    pub fn settled(&mut self) -> (RecordSums, io::Result<()>) {
        self.is_out = false;
        match self.remove(0) {
            Ok(held) => (held.unwrap_or_default(), Ok(())),
            Err(error) => (self.forget(0).unwrap_or_default(), Err(error)),
        }
    }

    /// Removes the batch that was appended last.
    pub fn take_back(&mut self) {
        // What stays is delivered by the next start.
        let _ = self.remove(self.entries.len().wrapping_sub(1));
    }

    fn remove(&mut self, index: usize) -> io::Result<Option<RecordSums>> {
        let Some(entry) = self.entries.get(index) else { return Ok(None) };
        match self.files.remove(&name(entry.number)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(self.forget(index)),
        }
    }

    fn forget(&mut self, index: usize) -> Option<RecordSums> {
        let entry = self.entries.remove(index)?;
        self.bytes -= entry.bytes;
        Some(entry.held)
    }
}

fn cost(length: u64) -> u64 {
    length.next_multiple_of(BLOCK_BYTES)
}

fn name(number: u64) -> String {
    format!("{number:0DIGITS$}{ENDING}")
}

fn number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(ENDING).filter(|digits| digits.len() == DIGITS)?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    // Others come behind it.
    digits.parse().ok().filter(|number| is_number && *number < u64::MAX / 2)
}

fn is_half_written(file: &str) -> bool {
    file.strip_prefix('.').is_some_and(|name| number(name).is_some())
}

#[cfg(test)]
mod tests;
