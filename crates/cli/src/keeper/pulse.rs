//! Whether the worker moves: each lane publishes its counters ten times a second, frames or not.
//!
//! A worker that stands still (stopped, stuck in the kernel, starved) says nothing itself, and its
//! frames are lost where nobody counts them for the user; so its keeper does.

use ringside_sys::ring::{Board, RingView};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often it is looked.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// After so long it is told. Far beyond what a loaded machine makes a thread wait.
const STILL: Duration = Duration::from_secs(10);

/// The lanes' publications, as they were seen.
pub struct Pulse {
    view: Arc<RingView>,
    numbers: Vec<u64>,
    moved_at: Instant,
    is_told: bool,
}

impl Pulse {
    /// Of the memory in which a worker publishes; `None` if that is none.
    pub fn of(memory: &OwnedFd) -> Option<Pulse> {
        let view = RingView::attach(memory.try_clone().ok()?).ok()?;
        let mut pulse =
            Pulse { view, numbers: Vec::new(), moved_at: Instant::now(), is_told: false };
        pulse.numbers = pulse.publications();
        Some(pulse)
    }

    /// Looks. Returns what there is to say: when the worker has stood still for long, and when it
    /// moves again.
    pub fn look(&mut self, now: Instant) -> Option<String> {
        let numbers = self.publications();
        let still = now.saturating_duration_since(self.moved_at);
        if numbers != self.numbers {
            (self.numbers, self.moved_at) = (numbers, now);
            let was_told = std::mem::replace(&mut self.is_told, false);
            return was_told
                .then(|| format!("the worker moves again, after {} s", still.as_secs()));
        }
        if still < STILL || std::mem::replace(&mut self.is_told, true) {
            return None;
        }
        Some(format!(
            "the worker has stood still for {} s: no frame is received; the second Ctrl-C (or \
             SIGTERM) ends it, and what it had taken is kept",
            still.as_secs()
        ))
    }

    fn publications(&self) -> Vec<u64> {
        let lanes = 0..self.view.layout().lanes;
        lanes.map(|lane| self.view.publications(lane, Board::Worker)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_sys::ring::{CaptureRing, HugePages, RingLayout};

    #[test]
    fn who_stands_still_is_told_of_once_and_again_when_it_moves() {
        let layout =
            RingLayout { lanes: 2, blocks_per_lane: 4, block_bytes: 1 << 20, lossless_readers: 1 };
        let ring = CaptureRing::create(layout, HugePages::No).unwrap();
        let mut boards = [0, 1].map(|lane| ring.board_writer(lane, Board::Worker).unwrap());
        let mut pulse = Pulse::of(&ring.fd().try_clone_to_owned().unwrap()).unwrap();
        let start = pulse.moved_at;
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(pulse.look(after(9)), None);
        boards[1].publish(&[1]);
        assert_eq!(pulse.look(after(11)), None, "one lane is enough");
        assert_eq!(pulse.look(after(20)), None);
        let told = pulse.look(after(21)).unwrap();
        assert!(told.contains("stood still for 10 s"), "{told}");
        assert_eq!(pulse.look(after(30)), None);
        boards[0].publish(&[1]);
        let told = pulse.look(after(31)).unwrap();
        assert!(told.contains("moves again, after 20 s"), "{told}");
        assert_eq!(pulse.look(after(32)), None);
    }
}
