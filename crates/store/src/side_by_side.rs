//! The same done with several files at a time: what a disk has to look for is found sooner if it
//! knows of all of it.

use std::sync::Mutex;
use std::thread;

/// Threads, which wait for the disk most of the time.
const THREADS_MAX: usize = 8;

/// Does `each` with all of `items`, several at a time, and gives what came of it in their order.
pub(crate) fn side_by_side<T, R>(items: Vec<T>, each: impl Fn(T) -> R + Sync) -> Vec<R>
where
    T: Send,
    R: Send,
{
    let threads = THREADS_MAX.min(items.len());
    if threads < 2 {
        return items.into_iter().map(each).collect();
    }
    let mut answers: Vec<Option<R>> = Vec::new();
    answers.resize_with(items.len(), || None);
    let places = Mutex::new(items.into_iter().zip(&mut answers));
    let work = || {
        // A thread that died left the list as it was; its panic ends the scope.
        let next = || places.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
        while let Some((item, answer)) = next() {
            *answer = Some(each(item));
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            // One that the system refuses is done without.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    answers.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_in_order_whatever_is_done_first() {
        for count in [0, 1, 2, 7, 8, 9, 100] {
            let answers = side_by_side((0..count).collect(), |number: u64| number * number);
            assert_eq!(answers, (0..count).map(|number| number * number).collect::<Vec<_>>());
        }
    }
}
