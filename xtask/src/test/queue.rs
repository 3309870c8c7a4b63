//! What is still to be done by several threads, some of it in turn.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Items in order. Of those that go in turn, one is out at a time: they are taken by one thread,
/// the first that meets one, and all others go on with the rest.
pub struct Queue<T>(Mutex<Left<T>>);

struct Left<T> {
    in_turn: VecDeque<T>,
    /// With how many of those in turn come before them.
    others: VecDeque<(usize, T)>,
    /// How many of those in turn were taken.
    taken: usize,
    is_one_out: bool,
}

/// An item that was taken.
pub struct Next<T> {
    pub item: T,
    is_in_turn: bool,
}

impl<T> Queue<T> {
    pub fn new(items: Vec<T>, is_in_turn: impl Fn(&T) -> bool) -> Queue<T> {
        let (mut in_turn, mut others) = (VecDeque::new(), VecDeque::new());
        for item in items {
            if is_in_turn(&item) {
                in_turn.push_back(item);
            } else {
                others.push_back((in_turn.len(), item));
            }
        }
        Queue(Mutex::new(Left { in_turn, others, taken: 0, is_one_out: false }))
    }

    /// The next one that may run now. None if nothing is left, or only what goes in turn while one
    /// of it is out: who has that one takes the rest.
    pub fn next(&self) -> Option<Next<T>> {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = left.others.front().is_none_or(|(before, _)| *before > left.taken);
        if is_due
            && !left.is_one_out
            && let Some(item) = left.in_turn.pop_front()
        {
            (left.taken, left.is_one_out) = (left.taken + 1, true);
            return Some(Next { item, is_in_turn: true });
        }
        left.others.pop_front().map(|(_, item)| Next { item, is_in_turn: false })
    }

    /// Says that it is done.
    pub fn done(&self, next: &Next<T>) {
        if next.is_in_turn {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).is_one_out = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_in_turn_wait_for_each_other_alone() {
        let queue = Queue::new(vec!["a1", "a2", "b", "a3", "c"], |item| item.starts_with('a'));
        let next = || queue.next();
        let a1 = next().unwrap();
        let b = next().unwrap();
        assert_eq!((a1.item, b.item), ("a1", "b"), "a2 waits for a1, b does not");
        queue.done(&b);
        queue.done(&a1);
        let a2 = next().unwrap();
        assert_eq!((a2.item, next().unwrap().item), ("a2", "c"));
        assert!(next().is_none(), "a3 is left for who has a2");
        queue.done(&a2);
        assert_eq!(next().unwrap().item, "a3");
        assert!(next().is_none());
    }

    #[test]
    fn several_threads_take_each_once_and_never_two_in_turn() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let queue = Queue::new((0..1000).collect(), |item| item % 3 == 0);
        let (out, sum) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Some(next) = queue.next() {
                        if next.is_in_turn {
                            assert_eq!(out.fetch_add(1, Ordering::SeqCst), 0);
                            std::thread::yield_now();
                            out.fetch_sub(1, Ordering::SeqCst);
                        }
                        sum.fetch_add(next.item, Ordering::SeqCst);
                        queue.done(&next);
                    }
                });
            }
        });
        assert_eq!(sum.into_inner(), 999 * 1000 / 2);
    }
}
