//! When connections are looked at: a word for each, so that a packet costs nothing.

use ringside_core::time::NANOS_PER_SEC;

/// Second at which the connection of a place is to be looked at; `NEVER` without one.
#[derive(Debug, Default)]
pub(crate) struct Dues {
    words: Vec<u32>,
    /// Second of the last look.
    looked: u32,
}

const NEVER: u32 = u32::MAX;

impl Dues {
    /// A place is to be looked at when time has come to `due_ns`.
    pub(crate) fn set(&mut self, place: usize, due_ns: u64) {
        if place >= self.words.len() {
            self.words.resize(place + 1, NEVER);
        }
        self.words[place] = second(due_ns);
    }

    pub(crate) fn clear(&mut self, place: usize) {
        if let Some(word) = self.words.get_mut(place) {
            *word = NEVER;
        }
    }

    /// Places that are due, if a second has begun since the last look.
    pub(crate) fn due(&mut self, now_ns: u64, due: &mut Vec<usize>) {
        let now = (now_ns / NANOS_PER_SEC).min(u64::from(NEVER) - 1) as u32;
        if now <= self.looked {
            return;
        }
        self.looked = now;
        due.extend(
            self.words.iter().enumerate().filter(|(_, word)| **word <= now).map(|(at, _)| at),
        );
    }
}

/// The first second that is not before.
fn second(ns: u64) -> u32 {
    ns.div_ceil(NANOS_PER_SEC).min(u64::from(NEVER) - 1) as u32
}
