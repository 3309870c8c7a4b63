//! A feed under loom: what is taken is what was put in, in order, whatever the threads' turns.

use super::bounded;
use crate::feed::{BlockFeed, ToldRun};
use loom::sync::Arc;
use loom::thread::{spawn, yield_now};
use ringside_testkit::by_run;

/// One more than is queued: a place is written over once.
const RUNS: u64 = 3;

/// Each word of a run tells the other, so that one of another run shows.
fn run(number: u64) -> ToldRun {
    ToldRun { sequence: number + 1, blocks: number + 11 }
}

#[test]
fn loom_a_feed_gives_every_run_in_order_or_is_left() {
    bounded(by_run(2, 3), || {
        let feed = Arc::new(BlockFeed::default());
        let writer_side = feed.clone();
        let teller = spawn(move || {
            (0..RUNS).for_each(|number| writer_side.tell(run(number)));
            writer_side.finish();
        });
        let mut taken = 0;
        loop {
            // Before the look at the queue: that is all then.
            let is_finished = feed.is_finished();
            match feed.take() {
                Some(next) => {
                    assert_eq!(next, run(taken), "run {taken}");
                    taken += 1;
                }
                None if is_finished => break,
                None => yield_now(),
            }
        }
        teller.join().unwrap();
        assert!(taken == RUNS || feed.is_left(), "{taken} of {RUNS}, and the feed is not left");
    });
}
