//! A clock that is set while packets are stamped with it.

use super::support::*;
use crate::common::*;
use ringside_testkit::{need_root, skip};
use ringside_transmit::{SenderKind, Shape, Sizes};
use rustix::time::{ClockId, Timespec, clock_gettime, clock_settime};

/// The machine's clock, put back when dropped: to what it would show had no process set it.
struct Clock {
    ahead_of_boot_ns: i128,
}

impl Clock {
    fn now_ns(clock: ClockId) -> i128 {
        let now = clock_gettime(clock);
        i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
    }

    /// None where it may not be set.
    fn hold() -> Option<Clock> {
        // The difference is uncertain by the time between the two readings: the best of some.
        let read = |_| {
            let before = Clock::now_ns(ClockId::Boottime);
            let wall = Clock::now_ns(ClockId::Realtime);
            let after = Clock::now_ns(ClockId::Boottime);
            (after - before, wall - (before + after) / 2)
        };
        let (_, ahead_of_boot_ns) = (0..100).map(read).min().unwrap();
        let clock = Clock { ahead_of_boot_ns };
        clock.set(0).then_some(clock)
    }

    /// Sets it to the right time plus `error_ns`.
    fn set(&self, error_ns: i128) -> bool {
        let wall = Clock::now_ns(ClockId::Boottime) + self.ahead_of_boot_ns + error_ns;
        let (tv_sec, tv_nsec) = ((wall / 1_000_000_000) as i64, (wall % 1_000_000_000) as i64);
        clock_settime(ClockId::Realtime, Timespec { tv_sec, tv_nsec }).is_ok()
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[test]
fn a_clock_that_steps_costs_no_frame_and_every_inversion_is_counted() {
    const NAME: &str = "a_clock_that_steps";
    const STEP_NS: i128 = 2_000_000_000;
    const FRAMES: u64 = 200;
    if !need_root(NAME) {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let [directory, file, copy] =
        ["recording", "live.pcapng", "copy.pcapng"].map(|name| folder.path().join(name));
    let capture = |output| network.capture(&["-i", "rx0", "--queues", "2", "-w", arg(output)]);
    let (by_lane, merged) = (capture(&directory), capture(&file));
    let shape = Shape::new(Sizes::fixed(128).unwrap(), 64).unwrap();
    let send = || network.send(SenderKind::Packet, &shape, FRAMES, None);

    let Some(clock) = Clock::hold() else {
        skip(NAME, "the clock may not be set here");
        return;
    };
    send();
    // The clock is wrong for as long as it takes to send a few frames.
    for error_ns in [STEP_NS, -STEP_NS] {
        assert!(clock.set(error_ns));
        send();
        assert!(clock.set(0));
        send();
    }
    drop(clock);

    let sent = 5 * FRAMES;
    let lanes = by_lane.stop().checked_ledger(sent);
    let ledger = merged.stop().checked_ledger(sent);
    for ledger in [&lanes, &ledger] {
        assert_eq!((ledger.taken, ledger.lost()), (sent, 0));
        assert!(ledger.lanes.iter().all(|lane| lane.taken > 0), "{ledger:#?}");
        // Back from the step forward, and the step back.
        assert!(ledger.lanes.iter().all(|lane| lane.inversions >= 2), "{ledger:#?}");
    }
    for (path, lane) in files_in(&directory).iter().zip(&lanes.lanes) {
        assert_eq!(inversions(path), lane.inversions, "{}", path.display());
    }
    let outcome = run_ringside(&["read", "-r", arg(&directory), "-w", arg(&copy)]);
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    for path in [&file, &copy] {
        assert_eq!(packets_by_wireshark(path), sent, "{}", path.display());
        assert_eq!(count(std::slice::from_ref(path)), sent, "{}", path.display());
    }
}

/// Frames of a file stamped earlier than the one before them.
fn inversions(path: &std::path::Path) -> u64 {
    let (mut last, mut inversions) = (None, 0);
    for_each_frame(&[path.to_owned()], |frame, _| {
        let stamp = frame.meta.timestamp;
        inversions += u64::from(last.is_some_and(|last| stamp < last));
        last = Some(stamp);
    });
    inversions
}
