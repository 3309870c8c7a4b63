//! The worker's heartbeat: each lane publishes its counters ten times a second, frames or not.
//!
//! A worker that stands still (stopped, stuck in the kernel, starved) reports nothing itself, and
//! frames are lost meanwhile without a word to the user; so its keeper reports it.

use ringside_ring::{Board, RingView};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often it is checked.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// A worker that has not moved for this long is reported: far longer than a loaded machine makes a
/// thread wait.
const STILL: Duration = Duration::from_secs(10);
/// A keeper that has not checked for this long was stopped itself, most likely with its worker.
const UNCHECKED: Duration = Duration::from_secs(5);

/// The lanes' publications, as they were last seen.
pub struct Heartbeat {
    view: Arc<RingView>,
    numbers: Vec<u64>,
    moved_at: Instant,
    checked_at: Instant,
    is_reported: bool,
}

impl Heartbeat {
    /// Of the memory in which a worker publishes; `None` if it is not such memory.
    pub fn of(memory: &OwnedFd) -> Option<Heartbeat> {
        let view = RingView::attach(memory.try_clone().ok()?).ok()?;
        let (now, numbers) = (Instant::now(), publications(&view));
        let (moved_at, checked_at, is_reported) = (now, now, false);
        Some(Heartbeat { view, numbers, moved_at, checked_at, is_reported })
    }

    /// Checks. Returns what there is to report: once that the worker stands still, and once that it
    /// moves again.
    pub fn check(&mut self, now: Instant) -> Option<String> {
        let unchecked = now.saturating_duration_since(self.checked_at);
        self.checked_at = now;
        if unchecked >= UNCHECKED {
            self.moved_at = now;
        }
        let numbers = publications(&self.view);
        let still = now.saturating_duration_since(self.moved_at);
        if numbers != self.numbers {
            (self.numbers, self.moved_at) = (numbers, now);
            let was_reported = std::mem::replace(&mut self.is_reported, false);
            return was_reported
                .then(|| format!("the worker moves again, after {} s", still.as_secs()));
        }
        if still < STILL || std::mem::replace(&mut self.is_reported, true) {
            return None;
        }
        Some(format!(
            "the worker has stood still for {} s: no frame is received; the second Ctrl-C (or \
             SIGTERM) ends it, and what it had taken is kept",
            still.as_secs()
        ))
    }
}

fn publications(view: &RingView) -> Vec<u64> {
    (0..view.layout().lanes).map(|lane| view.publications(lane, Board::Worker)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_ring::{CaptureRing, HugePages, RingLayout};

    const LAYOUT: RingLayout =
        RingLayout { lanes: 2, blocks_per_lane: 4, block_bytes: 1 << 20, lossless_readers: 1 };

    /// Checks each second from `first` to `last`; what was reported, and when.
    fn checked(heartbeat: &mut Heartbeat, start: Instant, first: u64, last: u64) -> Vec<String> {
        let at = |second| start + Duration::from_secs(second);
        let reports = (first..=last)
            .filter_map(|second| Some(format!("{second}: {}", heartbeat.check(at(second))?)));
        reports.collect()
    }

    #[test]
    fn who_stands_still_is_reported_once_and_again_when_it_moves() {
        let ring = CaptureRing::create(LAYOUT, HugePages::No).unwrap();
        let mut boards = [0, 1].map(|lane| ring.board_writer(lane, Board::Worker).unwrap());
        let mut heartbeat = Heartbeat::of(&ring.fd().try_clone_to_owned().unwrap()).unwrap();
        let start = heartbeat.moved_at;
        assert!(checked(&mut heartbeat, start, 1, 9).is_empty());
        boards[1].publish(&[1]);
        assert!(checked(&mut heartbeat, start, 10, 19).is_empty(), "one lane is enough");
        let reports = checked(&mut heartbeat, start, 20, 29);
        assert_eq!(reports.len(), 1, "{reports:?}");
        assert!(reports[0].starts_with("20: the worker has stood still for 10 s"), "{reports:?}");
        boards[0].publish(&[1]);
        let reports = checked(&mut heartbeat, start, 30, 39);
        assert_eq!(reports, ["30: the worker moves again, after 20 s"]);
    }

    #[test]
    fn who_was_stopped_with_its_worker_reports_nothing() {
        let ring = CaptureRing::create(LAYOUT, HugePages::No).unwrap();
        let mut heartbeat = Heartbeat::of(&ring.fd().try_clone_to_owned().unwrap()).unwrap();
        let start = heartbeat.moved_at;
        assert!(checked(&mut heartbeat, start, 1, 2).is_empty());
        assert!(checked(&mut heartbeat, start, 100, 109).is_empty());
        assert_eq!(checked(&mut heartbeat, start, 110, 120).len(), 1);
    }
}
