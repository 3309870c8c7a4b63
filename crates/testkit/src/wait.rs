//! Waiting in tests: bounded, and long enough that a busy machine fails none.

use std::time::{Duration, Instant};

/// How long anything is waited for.
pub const WAIT_MAX: Duration = Duration::from_secs(150);

/// Between two looks.
const POLL: Duration = Duration::from_millis(5);

/// Waits until `done`; panics with `what` after [`WAIT_MAX`].
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    wait_for(what, || done().then_some(()));
}

/// Waits until there is something; panics with `what` after [`WAIT_MAX`].
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < WAIT_MAX, "waited {WAIT_MAX:?} for {what}");
        std::thread::sleep(POLL);
    }
}
