//! How much free memory the kernel gets.
//!
//! The fill ring is a queue: with many chunks in it each is used again only after all the others,
//! and has left the caches by then. On a veth pair 4,096 chunks make 4.4 million small frames a
//! second where 32,768 make 3.4 (bench/README.md). With few, frames are lost when the worker stands
//! still for a millisecond, as virtual CPUs do. So the depth follows the pauses that are seen: all
//! there is at the start, half as long as no pause comes, twice when one does.

use std::time::{Duration, Instant};

/// Chunks that always go out: a millisecond at 4 million frames a second, and their data fits the
/// second-level cache.
const DEPTH_MIN: u32 = 4096;

/// How long there must be no pause before the depth is halved.
const CALM: Duration = Duration::from_millis(250);

/// The depth of one lane's fill ring.
#[derive(Debug)]
pub(super) struct Depth {
    chunks: u32,
    chunks_max: u32,
    /// Most frames that waited at once since then.
    since: Instant,
    waiting_max: u32,
}

impl Depth {
    /// The whole memory of `chunks_max` chunks at first.
    pub(super) fn new(chunks_max: u32, now: Instant) -> Depth {
        Depth { chunks: chunks_max, chunks_max, since: now, waiting_max: 0 }
    }

    pub(super) fn chunks(&self) -> u32 {
        self.chunks
    }

    /// So many frames waited when the worker came. Returns true if the depth was changed: a pause
    /// that used up half of it asks for twice as much.
    #[inline]
    pub(super) fn note_waiting(&mut self, waiting: u32) -> bool {
        self.waiting_max = self.waiting_max.max(waiting);
        if waiting <= self.chunks / 2 || self.chunks == self.chunks_max {
            return false;
        }
        self.chunks = (self.chunks * 2).min(self.chunks_max);
        true
    }

    /// Time has come to `now`. Returns true if the depth was changed: what was not half used is
    /// halved.
    pub(super) fn note_time(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) < CALM {
            return false;
        }
        let half = self.chunks / 2;
        let is_calm = self.waiting_max <= half / 2 && half >= DEPTH_MIN;
        (self.since, self.waiting_max) = (now, 0);
        if is_calm {
            self.chunks = half;
        }
        is_calm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calm_makes_it_smaller_and_a_pause_larger() {
        let start = Instant::now();
        let mut depth = Depth::new(16_384, start);
        assert_eq!(depth.chunks(), 16_384);
        let mut now = start;
        let mut calm = |depth: &mut Depth| {
            now += CALM;
            depth.note_time(now)
        };
        assert!(!depth.note_time(start));
        assert!(calm(&mut depth) && depth.chunks() == 8192);
        assert!(calm(&mut depth) && depth.chunks() == 4096);
        assert!(!calm(&mut depth) && depth.chunks() == 4096, "not below the least");
        assert!(!depth.note_waiting(2048));
        assert!(depth.note_waiting(2049) && depth.chunks() == 8192);
        assert!(depth.note_waiting(5000) && depth.chunks() == 16_384);
        assert!(!depth.note_waiting(16_384), "not above the most");
    }

    #[test]
    fn what_is_used_stays() {
        let start = Instant::now();
        let mut depth = Depth::new(16_384, start);
        depth.note_waiting(4097);
        assert!(!depth.note_time(start + CALM), "half of the half was needed");
        assert_eq!(depth.chunks(), 16_384);
        assert!(depth.note_time(start + CALM * 2), "not since");
    }

    #[test]
    fn a_small_memory_is_used_whole() {
        let mut depth = Depth::new(2048, Instant::now());
        assert!(!depth.note_time(Instant::now() + CALM));
        assert!(!depth.note_waiting(2048));
        assert_eq!(depth.chunks(), 2048);
    }
}
