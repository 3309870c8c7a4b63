//! Reading ahead of what is left when parts are passed by: the kernel is asked for what comes next,
//! so that the disk reads several places at once, of each file that is read.

use super::FileSource;
use crate::part::Part;
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::num::NonZeroU64;

/// Bytes of a file that the kernel is asked for before they are read. They lie in the page cache,
/// which takes them back when memory is scarce.
const AHEAD_BYTES: u64 = 8 << 20;
/// Bytes of one demand: the kernel cuts a larger one to what it reads ahead by itself.
const DEMAND_BYTES: u64 = 128 << 10;

/// How far the kernel was asked.
#[derive(Debug)]
pub(super) struct Ahead {
    file: File,
    /// Up to here in the file.
    at: u64,
    /// Bytes that were asked for, in sum.
    asked_bytes: u64,
    /// How many parts lie behind `at` that are passed by: the first of the list, whose next part
    /// is the last.
    parts: usize,
}

impl Ahead {
    /// Of a file of which nothing is passed by.
    pub(super) fn new(file: File) -> Ahead {
        Ahead { file, at: 0, asked_bytes: 0, parts: 0 }
    }

    /// Of the file this number of parts are passed by.
    pub(super) fn pass_by(&mut self, parts: usize) {
        self.parts = parts;
    }

    /// Asks for what is to be read next of a file of `end` bytes, of which `bytes_read` were read.
    fn ask(&mut self, passes: &[Part], bytes_read: u64, end: u64) {
        while self.at < end && self.asked_bytes < bytes_read + AHEAD_BYTES {
            let next = self.parts.checked_sub(1).and_then(|last| passes.get(last));
            let border = next.map_or(end, |part| part.start).min(end);
            let Some(bytes) = NonZeroU64::new(border.saturating_sub(self.at).min(DEMAND_BYTES))
            else {
                self.at = next.map_or(end, |part| part.end.max(self.at));
                self.parts = self.parts.saturating_sub(1);
                continue;
            };
            // Best effort: what was not read ahead is read when it is needed.
            let _ = fadvise(&self.file, self.at, Some(bytes), Advice::WillNeed);
            self.at += bytes.get();
            self.asked_bytes += bytes.get();
        }
    }
}

impl FileSource {
    /// Has the kernel read ahead, if that was wanted.
    pub(super) fn ask_ahead(&mut self) {
        let (Some(ahead), Some(bytes)) = (&mut self.ahead, self.file_bytes) else { return };
        ahead.ask(&self.passes, self.input.bytes_read(), bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_core::Stamps;

    #[test]
    fn what_is_left_is_asked_for_once_and_never_far_ahead() {
        let part = |start, end| Part { start, end, header: None, frames: 1, stamps: Stamps::NONE };
        let mebibyte = 1 << 20;
        // All but two pieces of one MiB, and what follows 90 MiB.
        let mut passes: Vec<_> = [(0, 10), (11, 12), (12, 40), (41, 90)]
            .map(|(start, end)| part(start * mebibyte, end * mebibyte))
            .into();
        passes.reverse();
        let mut ahead = Ahead::new(tempfile::tempfile().unwrap());
        ahead.pass_by(passes.len());
        let end = 100 * mebibyte;
        ahead.ask(&passes, 0, end);
        assert_eq!((ahead.at, ahead.asked_bytes), (96 * mebibyte, AHEAD_BYTES));
        passes.truncate(1);
        ahead.ask(&passes, mebibyte, end);
        assert_eq!((ahead.at, ahead.asked_bytes), (97 * mebibyte, AHEAD_BYTES + mebibyte));
        ahead.ask(&passes, 1 << 40, end);
        assert_eq!((ahead.at, ahead.asked_bytes), (end, 12 * mebibyte));
    }
}
