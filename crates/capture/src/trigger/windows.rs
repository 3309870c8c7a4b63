//! Which frames a trigger keeps: pure logic over stamps.
//!
//! A hit at time T keeps the frames stamped from T − before to T + after, in every lane. A frame is
//! decided as soon as a window holds it, or as soon as no later hit can reach back to it.

use std::collections::VecDeque;

/// Windows that do not touch, kept at a time. With frames that wait in memory for seconds, and a
/// window for each hit, more are not kept apart: the two oldest become one, which keeps more.
const WINDOWS_MAX: usize = 4096;

/// What is to become of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It lies in a window.
    Keep,
    /// No window holds it, and none will.
    Discard,
    /// A later hit may reach back to it.
    Wait,
}

/// The windows around the hits so far.
pub(super) struct Windows {
    before_ns: u64,
    after_ns: u64,
    /// First and last stamp of each, in order of time, with gaps between them.
    windows: VecDeque<(u64, u64)>,
}

impl Windows {
    pub(super) fn new(before_ns: u64, after_ns: u64) -> Windows {
        Windows { before_ns, after_ns, windows: VecDeque::new() }
    }

    /// A frame stamped `stamp` matched.
    pub(super) fn hit(&mut self, stamp: u64) {
        let mut start = stamp.saturating_sub(self.before_ns);
        let mut end = stamp.saturating_add(self.after_ns);
        // Hits come nearly in order, so the place is found from the back.
        let mut at = self.windows.len();
        while at > 0 && self.windows[at - 1].0 > end {
            at -= 1;
        }
        while at > 0 && self.windows[at - 1].1 >= start {
            let joined = self.windows.remove(at - 1).expect("at - 1 is an index");
            start = start.min(joined.0);
            end = end.max(joined.1);
            at -= 1;
        }
        self.windows.insert(at, (start, end));
        if self.windows.len() > WINDOWS_MAX {
            let oldest = self.windows.pop_front().expect("more than the limit");
            let next = self.windows.front_mut().expect("more than the limit");
            next.0 = oldest.0;
        }
    }

    /// Decides about a frame stamped `stamp`, when every frame stamped before `scanned` has been
    /// looked at in every lane.
    pub(super) fn decide(&self, stamp: u64, scanned: u64) -> Decision {
        let at = self.windows.partition_point(|window| window.1 < stamp);
        if self.windows.get(at).is_some_and(|window| window.0 <= stamp) {
            Decision::Keep
        } else if stamp < scanned.saturating_sub(self.before_ns) {
            Decision::Discard
        } else {
            Decision::Wait
        }
    }

    /// True if every frame stamped from `first` to `last` is discarded.
    pub(super) fn discards_all(&self, first: u64, last: u64, scanned: u64) -> bool {
        let at = self.windows.partition_point(|window| window.1 < first);
        let apart = self.windows.get(at).is_none_or(|window| window.0 > last);
        apart && last < scanned.saturating_sub(self.before_ns)
    }

    /// Forgets the windows that end before `stamp`: every lane has decided about all before it.
    pub(super) fn forget_before(&mut self, stamp: u64) {
        while self.windows.front().is_some_and(|window| window.1 < stamp) {
            self.windows.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_reaches_back_and_forward_and_both_ends_belong_to_it() {
        let mut windows = Windows::new(30, 60);
        windows.hit(100);
        for (stamp, decision) in [
            (69, Decision::Discard),
            (70, Decision::Keep),
            (160, Decision::Keep),
            (161, Decision::Wait),
        ] {
            assert_eq!(windows.decide(stamp, 100), decision, "{stamp}");
        }
        assert_eq!(windows.decide(161, 192), Decision::Discard);
    }

    #[test]
    fn hits_in_any_order_keep_the_union() {
        let mut windows = Windows::new(5, 5);
        let hits = [100, 50, 108, 300, 55, 104, 200, 7];
        hits.iter().for_each(|&hit| windows.hit(hit));
        for stamp in 0..400_u64 {
            let near = hits.iter().any(|&hit: &u64| hit.abs_diff(stamp) <= 5);
            assert_eq!(windows.decide(stamp, u64::MAX) == Decision::Keep, near, "{stamp}");
        }
        let pairs: Vec<_> = windows.windows.iter().copied().collect();
        assert!(pairs.windows(2).all(|pair| pair[0].1 < pair[1].0), "{pairs:?}");
        windows.forget_before(206);
        assert_eq!(windows.windows.len(), 1);
    }

    #[test]
    fn windows_are_bounded_and_never_lose_a_frame_to_keep() {
        let mut windows = Windows::new(1, 1);
        let hits: Vec<u64> = (0..10_000).map(|index| 10 + index * 10).collect();
        hits.iter().for_each(|&hit| windows.hit(hit));
        assert_eq!(windows.windows.len(), WINDOWS_MAX);
        assert!(hits.iter().all(|&hit| windows.decide(hit, u64::MAX) == Decision::Keep));
    }
}
