//! How much free memory the kernel gets.
//!
//! The fill ring is a queue: with many chunks in it each is used again only after all the others,
//! and has left the caches by then. On a veth pair 4,096 chunks make 4.4 million small frames a
//! second where 32,768 make 3.4 (bench/README.md). With few, frames are lost when the worker stands
//! still for a millisecond, as virtual CPUs do. So the depth follows the pauses that are seen: all
//! there is at the start, half as long as no pause comes, twice when one does. Only where frames
//! come so fast that the caches matter: at a lower rate nothing is won, and a pause of a tenth of a
//! second need not lose a frame.

use std::time::{Duration, Instant};

/// Chunks that always go out: a millisecond at 4 million frames a second, and their data fits the
/// second-level cache.
const DEPTH_MIN: u32 = 4096;

/// How long there must be no pause before the depth is halved.
const CALM: Duration = Duration::from_millis(250);

/// From so many frames a second on, memory in the caches is worth more than memory in reserve.
const FAST_PER_SEC: u64 = 1_000_000;

/// The depth of one lane's fill ring.
#[derive(Debug)]
pub(super) struct Depth {
    chunks: u32,
    chunks_max: u32,
    since: Instant,
    /// Most frames that waited at once since then, and how many came.
    waiting_max: u32,
    frames: u64,
}

impl Depth {
    /// The whole memory of `chunks_max` chunks at first.
    pub(super) fn new(chunks_max: u32, now: Instant) -> Depth {
        Depth { chunks: chunks_max, chunks_max, since: now, waiting_max: 0, frames: 0 }
    }

    pub(super) fn chunks(&self) -> u32 {
        self.chunks
    }

    /// So many frames waited when the worker came and took `frames` of them. Returns true if the
    /// depth was changed: a pause that used up half of it asks for twice as much.
    #[inline]
    pub(super) fn note_waiting(&mut self, waiting: u32, frames: u32) -> bool {
        self.frames += u64::from(frames);
        self.waiting_max = self.waiting_max.max(waiting);
        if waiting <= self.chunks / 2 || self.chunks == self.chunks_max {
            return false;
        }
        self.chunks = (self.chunks * 2).min(self.chunks_max);
        true
    }

    /// Time has come to `now`. Returns true if the depth was changed: what was not half used is
    /// halved where frames come fast; elsewhere all is given.
    pub(super) fn note_time(&mut self, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(self.since);
        if elapsed < CALM {
            return false;
        }
        let is_fast = u128::from(self.frames) * 1_000_000_000
            >= u128::from(FAST_PER_SEC) * elapsed.as_nanos();
        let (before, half) = (self.chunks, self.chunks / 2);
        if !is_fast {
            self.chunks = self.chunks_max;
        } else if self.waiting_max <= half / 2 && half >= DEPTH_MIN {
            self.chunks = half;
        }
        (self.since, self.waiting_max, self.frames) = (now, 0, 0);
        self.chunks != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many frames as make the traffic fast, little by little.
    fn fast(depth: &mut Depth) {
        for _ in 0..250 {
            depth.note_waiting(1, 1000);
        }
    }

    #[test]
    fn calm_makes_it_smaller_and_a_pause_larger() {
        let start = Instant::now();
        let mut depth = Depth::new(16_384, start);
        assert_eq!(depth.chunks(), 16_384);
        let mut now = start;
        let mut calm = |depth: &mut Depth| {
            fast(depth);
            now += CALM;
            depth.note_time(now)
        };
        assert!(!depth.note_time(start));
        assert!(calm(&mut depth) && depth.chunks() == 8192);
        assert!(calm(&mut depth) && depth.chunks() == 4096);
        assert!(!calm(&mut depth) && depth.chunks() == 4096, "not below the least");
        assert!(!depth.note_waiting(2048, 0));
        assert!(depth.note_waiting(2049, 0) && depth.chunks() == 8192);
        assert!(depth.note_waiting(5000, 0) && depth.chunks() == 16_384);
        assert!(!depth.note_waiting(16_384, 0), "not above the most");
    }

    #[test]
    fn what_is_used_stays() {
        let start = Instant::now();
        let mut depth = Depth::new(16_384, start);
        fast(&mut depth);
        depth.note_waiting(4097, 0);
        assert!(!depth.note_time(start + CALM), "half of the half was needed");
        assert_eq!(depth.chunks(), 16_384);
        fast(&mut depth);
        assert!(depth.note_time(start + CALM * 2), "not since");
    }

    #[test]
    fn where_frames_come_slowly_all_of_it_is_ready_for_a_pause() {
        let start = Instant::now();
        let mut depth = Depth::new(16_384, start);
        depth.note_waiting(1, 200_000);
        assert!(!depth.note_time(start + CALM));
        fast(&mut depth);
        assert!(depth.note_time(start + CALM * 2) && depth.chunks() == 8192);
        assert!(depth.note_time(start + CALM * 3) && depth.chunks() == 16_384);
    }

    #[test]
    fn a_small_memory_is_used_whole() {
        let mut depth = Depth::new(2048, Instant::now());
        fast(&mut depth);
        assert!(!depth.note_time(Instant::now() + CALM));
        assert!(!depth.note_waiting(2048, 0));
        assert_eq!(depth.chunks(), 2048);
    }
}
