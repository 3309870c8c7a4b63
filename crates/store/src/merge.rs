//! Merging lanes into one order of time: pure logic, the same for live lanes and for files.
//!
//! A lane's *order key* is the running maximum of its stamps, so the order within a lane is never
//! broken, whatever its clock did. An item is given out when every other lane has an item too or
//! has promised (by its low-water mark) that nothing earlier will come; ties go to the lower lane.
//! A live merge waits for such a promise for a limited time only: after `hold_ns` it goes on, and
//! what then comes late is given out late, flagged and counted. Nothing is ever dropped.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

/// Merges items of type `T`. How many a lane queues is up to the caller, who need not push more
/// while [`queued`](Merger::queued) says that the lane is not drained.
#[derive(Debug)]
pub struct Merger<T> {
    lanes: Vec<LaneQueue<T>>,
    /// The first item of every lane that has one, smallest key first.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    /// Every other lane that is not finished, by the smallest key that its next item can have.
    awaited: BTreeSet<(u64, usize)>,
    hold_ns: Option<u64>,
    /// Largest key given out.
    emitted: u64,
    late: u64,
}

#[derive(Debug)]
struct LaneQueue<T> {
    queue: VecDeque<Queued<T>>,
    /// Running maximum of the stamps: the key of the last item pushed.
    key: u64,
    /// No later item has a smaller stamp, as the lane promised.
    low_water: u64,
}

#[derive(Debug)]
struct Queued<T> {
    key: u64,
    arrived_ns: u64,
    item: T,
}

impl<T> LaneQueue<T> {
    /// The smallest key that an item can have that is pushed next, if the lane keeps its word.
    fn floor(&self) -> u64 {
        self.key.max(self.low_water)
    }

    fn is_finished(&self) -> bool {
        self.low_water == u64::MAX
    }
}

/// An item that is given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Popped<T> {
    /// Lane from which it comes.
    pub lane: usize,
    /// Its order key: the running maximum of the lane's stamps.
    pub key: u64,
    /// True if something with a larger key was given out before it.
    pub late: bool,
    /// The item.
    pub item: T,
}

impl<T> Merger<T> {
    /// A merge of `lanes` lanes. `hold_ns` is how long an item is held back at most, in
    /// nanoseconds of the caller's monotonic clock; `None` (files) waits as long as it takes.
    pub fn new(lanes: usize, hold_ns: Option<u64>) -> Merger<T> {
        let lane = |_| LaneQueue { queue: VecDeque::new(), key: 0, low_water: 0 };
        let awaited = (0..lanes).map(|lane| (0, lane)).collect();
        let lanes = (0..lanes).map(lane).collect();
        Merger { lanes, heads: BinaryHeap::new(), awaited, hold_ns, emitted: 0, late: 0 }
    }

    /// Adds the next item of `lane`, which bears `stamp` and arrived at `now_ns` of the monotonic
    /// clock (any value in a merge that holds without limit).
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn push(&mut self, lane: usize, stamp: u64, now_ns: u64, item: T) {
        let entry = &mut self.lanes[lane];
        if entry.queue.is_empty() {
            self.awaited.remove(&(entry.floor(), lane));
        }
        entry.key = entry.key.max(stamp);
        entry.queue.push_back(Queued { key: entry.key, arrived_ns: now_ns, item });
        if entry.queue.len() == 1 {
            self.heads.push(Reverse((entry.key, lane)));
        }
    }

    /// Notes that `lane` has passed by items that no reader gets, up to `stamp`: what follows them
    /// stays behind them.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn pass(&mut self, lane: usize, stamp: u64) {
        self.raise(lane, |entry| entry.key = entry.key.max(stamp));
    }

    /// Notes the promise of `lane` that no later item bears a stamp below `low_water`; a finished
    /// lane promises `u64::MAX`. A promise is never taken back.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn advance(&mut self, lane: usize, low_water: u64) {
        self.raise(lane, |entry| entry.low_water = entry.low_water.max(low_water));
    }

    /// Has `change` raise what is known of a lane, and keeps its place among those that are
    /// awaited.
    fn raise(&mut self, lane: usize, change: impl FnOnce(&mut LaneQueue<T>)) {
        let entry = &mut self.lanes[lane];
        let before = (entry.floor(), entry.is_finished());
        change(entry);
        let is_moved = before != (entry.floor(), entry.is_finished());
        let is_awaited =
            is_moved && entry.queue.is_empty() && self.awaited.remove(&(before.0, lane));
        if is_awaited && !entry.is_finished() {
            self.awaited.insert((entry.floor(), lane));
        }
    }

    /// The next item, if there is one that need not be held back any longer at `now_ns`.
    pub fn pop(&mut self, now_ns: u64) -> Option<Popped<T>> {
        let &Reverse((key, lane)) = self.heads.peek()?;
        if self.blocking_lane().is_some() && self.expires_ns().is_none_or(|at| now_ns < at) {
            return None;
        }
        self.heads.pop();
        let entry = &mut self.lanes[lane];
        let queued = entry.queue.pop_front().expect("a lane in `heads` has an item");
        if let Some(next) = entry.queue.front() {
            self.heads.push(Reverse((next.key, lane)));
        } else if !entry.is_finished() {
            self.awaited.insert((entry.floor(), lane));
        }
        let late = key < self.emitted;
        self.emitted = self.emitted.max(key);
        self.late += u64::from(late);
        Some(Popped { lane, key, late, item: queued.item })
    }

    /// The lane for whose next item or promise the merge waits: the one without an item that may
    /// still bring the earliest. `None` if the next item can be given out, or if every lane is
    /// finished and drained.
    pub fn blocking_lane(&self) -> Option<usize> {
        let &earliest = self.awaited.first()?;
        let Some(&Reverse(head)) = self.heads.peek() else { return Some(earliest.1) };
        (earliest < head).then_some(earliest.1)
    }

    /// When, in the caller's monotonic clock, the item held longest will be given out whatever
    /// happens. `None` if nothing is held, or without a limit.
    pub fn expires_ns(&self) -> Option<u64> {
        let oldest = self.lanes.iter().filter_map(|lane| Some(lane.queue.front()?.arrived_ns));
        Some(oldest.min()?.saturating_add(self.hold_ns?))
    }

    /// No item that is given out from now on has a smaller key, but for late ones; `u64::MAX` if
    /// none will come.
    pub fn low_water(&self) -> u64 {
        let head = self.heads.peek().map(|&Reverse((key, _))| key);
        let awaited = self.awaited.first().map(|&(floor, _)| floor);
        head.into_iter().chain(awaited).min().unwrap_or(u64::MAX)
    }

    /// Items of `lane` that wait.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn queued(&self, lane: usize) -> usize {
        self.lanes[lane].queue.len()
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Items that were given out late.
    pub fn late(&self) -> u64 {
        self.late
    }
}

#[cfg(test)]
mod tests;
