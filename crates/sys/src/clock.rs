//! The system's clocks, in nanoseconds.

use ringside_core::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of UTC now (CLOCK_REALTIME): the clock that stamps frames in the kernel.
pub fn realtime_now() -> Timestamp {
    Timestamp(nanos(ClockId::Realtime))
}

/// Nanoseconds since some fixed moment (CLOCK_MONOTONIC); never steps.
pub fn monotonic_ns() -> u64 {
    nanos(ClockId::Monotonic)
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // A clock that was set before 1970 reads as 1970: `Timestamp` cannot say less.
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Timestamp::from_parts(seconds, nanos).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{SystemTime, UNIX_EPOCH};

    #[test]
    fn both_clocks_go_forward_and_realtime_is_the_systems() {
        let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let now = realtime_now().0;
        let after = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        assert!(before <= now && now <= after);
        let first = monotonic_ns();
        assert!(monotonic_ns() >= first);
    }
}
