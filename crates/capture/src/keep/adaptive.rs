//! A cap that shrinks while the ring fills and grows back when it empties.
//!
//! Below a quarter of the ring the cap is the longest, above three quarters the shortest, and in
//! between it falls geometrically: each eighth of the ring takes the same part of it away. So
//! whatever a disk takes, the cap settles where as much comes as goes. It shrinks at once, and
//! grows only towards what would hold if the ring were an eighth fuller, an eighth of itself every
//! 10 ms: a disk that takes blocks by the dozen does not make it swing.

use ringside_core::Timestamp;
use ringside_ring::CaptureRing;
use std::sync::Arc;

/// Shortest cap that may be asked for: the shortest Ethernet frame, and most headers.
pub const CAP_BYTES_MIN: u32 = 64;

/// Parts of the ring.
const FULL_BELOW: f64 = 0.25;
const LEAST_ABOVE: f64 = 0.75;
const HYSTERESIS: f64 = 0.125;

/// How often the cap may grow, by the stamps of frames, and by which part of itself.
const GROW_EVERY_NS: u64 = 10_000_000;
const GROW_PART: u32 = 8;

/// Between what a cap may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveBounds {
    /// Bytes that are kept of a frame in any case, and its headers if they are longer.
    pub min: u32,
    /// Bytes that are kept while there is room.
    pub max: u32,
}

/// The cap of a lane.
pub(super) struct AdaptiveCap {
    ring: Arc<CaptureRing>,
    lane: usize,
    state: State,
}

impl AdaptiveCap {
    /// For a lane of a ring that a lossless reader empties.
    pub(super) fn new(bounds: AdaptiveBounds, ring: Arc<CaptureRing>, lane: usize) -> AdaptiveCap {
        AdaptiveCap { ring, lane, state: State::new(bounds) }
    }

    /// Looks how full the ring is; `now` is the time of the frames.
    pub(super) fn look(&mut self, now: Timestamp) {
        let blocks = self.ring.layout().blocks_per_lane;
        self.state.see(self.ring.blocks_held(self.lane) as f64 / blocks as f64, now);
    }

    /// Bytes that are kept of a frame now.
    pub(super) fn bytes(&self) -> u32 {
        self.state.cap
    }
}

/// The cap, and when it grew last.
struct State {
    bounds: AdaptiveBounds,
    cap: u32,
    grown_at: Timestamp,
}

impl State {
    fn new(bounds: AdaptiveBounds) -> State {
        State { bounds, cap: bounds.max, grown_at: Timestamp(0) }
    }

    /// Takes in the part of the ring that is in use.
    fn see(&mut self, fill: f64, now: Timestamp) {
        let target = self.target(fill);
        if target < self.cap {
            self.cap = target;
            self.grown_at = now;
            return;
        }
        let target = self.target(fill + HYSTERESIS);
        // Time may go back: then it counts from there.
        if target > self.cap && now.0.abs_diff(self.grown_at.0) >= GROW_EVERY_NS {
            self.cap = target.min(self.cap + self.cap / GROW_PART + 1);
            self.grown_at = now;
        }
    }

    fn target(&self, fill: f64) -> u32 {
        let AdaptiveBounds { min, max } = self.bounds;
        let part = ((fill - FULL_BELOW) / (LEAST_ABOVE - FULL_BELOW)).clamp(0.0, 1.0);
        let target = f64::from(max) * (f64::from(min) / f64::from(max)).powf(part);
        (target.round() as u32).clamp(min, max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOUNDS: AdaptiveBounds = AdaptiveBounds { min: 96, max: 1514 };

    #[test]
    fn it_shrinks_at_once_and_grows_step_by_step() {
        let mut state = State::new(BOUNDS);
        let mut now = 0;
        let mut see = |state: &mut State, fill: f64| {
            now += GROW_EVERY_NS;
            state.see(fill, Timestamp(now));
            state.cap
        };
        assert_eq!(see(&mut state, 0.25), 1514);
        let half = see(&mut state, 0.5);
        assert_eq!(half, 381, "half way: the geometric mean");
        assert_eq!(see(&mut state, 0.9), 96);
        assert_eq!(see(&mut state, 0.7), 96, "an eighth fuller it would be the same");
        assert_eq!(see(&mut state, 0.1), 96 + 96 / GROW_PART + 1);
        let mut steps = 1;
        while see(&mut state, 0.1) < 1514 {
            steps += 1;
        }
        assert!((15..30).contains(&steps), "{steps} steps");
    }

    #[test]
    fn it_settles_where_as_much_comes_as_goes() {
        // A ring of 1,000 frames of full length, a disk that takes a fifth of what comes.
        let (mut state, mut held) = (State::new(BOUNDS), 0.0);
        let (mut least, mut most) = (u32::MAX, 0);
        for step in 0..200_000u64 {
            held = (held + f64::from(state.cap) / 1514.0 - 0.2_f64).max(0.0);
            assert!(held < 1000.0, "the ring is full after {step} frames");
            state.see(held / 1000.0, Timestamp(step * 1_000_000));
            if step > 100_000 {
                (least, most) = (least.min(state.cap), most.max(state.cap));
            }
        }
        assert!(least >= 290 && most <= 320, "{least} to {most}");
    }

    proptest! {
        #[test]
        fn it_keeps_its_bounds(
            min in 64u32..3000, spread in 1u32..260_000,
            seen in prop::collection::vec((0.0f64..1.2, any::<u64>()), 1..200),
        ) {
            let bounds = AdaptiveBounds { min, max: min + spread };
            let mut state = State::new(bounds);
            for (fill, now) in seen {
                let before = state.cap;
                state.see(fill, Timestamp(now));
                prop_assert!((bounds.min..=bounds.max).contains(&state.cap));
                prop_assert!(state.cap <= before + before / GROW_PART + 1, "no leap");
                prop_assert!(fill < LEAST_ABOVE || state.cap == bounds.min);
            }
        }
    }
}
