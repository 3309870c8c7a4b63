//! How much free memory the kernel gets.
//!
//! The fill ring is a queue: with many chunks in it each is used again only after all the others,
//! and has left the caches by then. On a veth pair 4,096 chunks make 4.4 million small frames a
//! second where 32,768 make 3.4 (bench/README.md). With few, frames are lost when the worker stands
//! still for a millisecond, as virtual CPUs do. So at low rates the kernel gets all there is: there
//! nothing is won by less, and a pause of a tenth of a second need not lose a frame. At high rates
//! it gets little, twice as much whenever a pause used up half of it, and little again after a
//! second without one: a deep ring would be too slow for what a shallow one takes.

use std::time::{Duration, Instant};

/// Chunks that always go out: a millisecond at 4 million frames a second, and their data fits the
/// second-level cache.
const DEPTH_MIN: u32 = 4096;

/// How often the traffic is judged: as often as the worker reads its counters.
const WINDOW: Duration = Duration::from_millis(100);

/// How long the depth stays after a pause: pauses come in groups.
const HOLD: Duration = Duration::from_secs(1);

/// From this rate in frames a second on, memory in the caches is worth more than memory in reserve.
const FAST_PER_SEC: u64 = 1_000_000;

/// The depth of one lane's fill ring.
#[derive(Debug)]
pub(super) struct Depth {
    chunks: u32,
    chunks_min: u32,
    chunks_max: u32,
    /// Since the traffic was judged: most frames that waited at once, how many came, and whether a
    /// pause used up half of the depth.
    since: Instant,
    waiting_max: u32,
    frames: u64,
    was_paused: bool,
    hold_until: Instant,
}

impl Depth {
    /// All of `chunks_max` chunks at first; for ever where the driver puts frames there itself: it
    /// takes chunks for its whole ring in advance.
    pub(super) fn new(chunks_max: u32, is_zero_copy: bool, now: Instant) -> Depth {
        let chunks_min = if is_zero_copy { chunks_max } else { DEPTH_MIN.min(chunks_max) };
        Depth {
            chunks: chunks_max,
            chunks_min,
            chunks_max,
            since: now,
            waiting_max: 0,
            frames: 0,
            was_paused: false,
            hold_until: now,
        }
    }

    pub(super) fn chunks(&self) -> u32 {
        self.chunks
    }

    /// `waiting` frames waited when the worker came and took `frames` of them. Returns true if the
    /// depth was changed: a pause that used up half of it asks for twice as much.
    #[inline]
    pub(super) fn note_waiting(&mut self, waiting: u32, frames: u32) -> bool {
        self.frames += u64::from(frames);
        self.waiting_max = self.waiting_max.max(waiting);
        if waiting <= self.chunks / 2 {
            return false;
        }
        self.was_paused = true;
        let before = self.chunks;
        self.chunks = (before * 2).min(self.chunks_max);
        self.chunks != before
    }

    /// Time has come to `now`. Returns true if the depth was changed.
    pub(super) fn note_time(&mut self, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(self.since);
        if elapsed < WINDOW {
            return false;
        }
        let is_fast = u128::from(self.frames) * 1_000_000_000
            >= u128::from(FAST_PER_SEC) * elapsed.as_nanos();
        if self.was_paused {
            self.hold_until = now + HOLD;
        }
        let before = self.chunks;
        if !is_fast {
            self.chunks = self.chunks_max;
        } else if now >= self.hold_until && self.waiting_max <= self.chunks / 4 {
            // What waited at most fits twice.
            let needed = (self.waiting_max * 2).next_power_of_two();
            self.chunks = needed.clamp(self.chunks_min, self.chunks);
        }
        (self.since, self.waiting_max, self.frames) = (now, 0, 0);
        self.was_paused = false;
        self.chunks != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Traffic of a window with `frames` frames, of which at most `waiting` waited at once.
    fn window(depth: &mut Depth, now: &mut Instant, frames: u32, waiting: u32) -> u32 {
        for _ in 0..100 {
            depth.note_waiting(waiting, frames / 100);
        }
        *now += WINDOW;
        depth.note_time(*now);
        depth.chunks()
    }

    const FAST: u32 = 400_000;
    const SLOW: u32 = 50_000;

    #[test]
    fn fast_traffic_gets_little_and_slow_traffic_all() {
        let mut now = Instant::now();
        let mut depth = Depth::new(16_384, false, now);
        assert_eq!(depth.chunks(), 16_384);
        assert!(!depth.note_time(now), "too early to tell");
        assert_eq!(window(&mut depth, &mut now, FAST, 64), 4096);
        assert_eq!(window(&mut depth, &mut now, FAST, 2000), 4096, "that fits");
        assert_eq!(window(&mut depth, &mut now, SLOW, 64), 16_384);
        assert_eq!(window(&mut depth, &mut now, FAST, 3000), 8192, "what waited fits twice");
    }

    #[test]
    fn a_pause_doubles_it_for_a_second() {
        let mut now = Instant::now();
        let mut depth = Depth::new(16_384, false, now);
        assert_eq!(window(&mut depth, &mut now, FAST, 64), 4096);
        assert!(depth.note_waiting(2049, 64) && depth.chunks() == 8192);
        assert!(depth.note_waiting(5000, 64) && depth.chunks() == 16_384);
        assert!(!depth.note_waiting(16_384, 64), "not above the most");
        // The pause counts from the end of its window on.
        let windows = (HOLD.as_millis() / WINDOW.as_millis()) as usize;
        for _ in 0..windows {
            assert_eq!(window(&mut depth, &mut now, FAST, 64), 16_384);
        }
        assert_eq!(window(&mut depth, &mut now, FAST, 64), 4096);
    }

    #[test]
    fn a_small_memory_and_that_of_a_driver_are_used_whole() {
        let mut now = Instant::now();
        let (mut small, mut drivers) =
            (Depth::new(2048, false, now), Depth::new(16_384, true, now));
        assert_eq!(window(&mut small, &mut now, FAST, 64), 2048);
        assert_eq!(window(&mut small, &mut now, FAST, 2048), 2048);
        assert_eq!(window(&mut drivers, &mut now, FAST, 64), 16_384);
    }
}
