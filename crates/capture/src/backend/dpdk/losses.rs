//! Lost frames of a device with several lanes.
//!
//! Drivers count them for the device (`imissed`). What they count of each queue (`q_errors`) is
//! something else in each of them: damaged frames too, or those that could not be sent. So no frame
//! is said to be lost by a queue: the first lane reports what the device lost, and once it has
//! ended, those that end later report what was lost since.

use std::sync::{Mutex, PoisonError};

/// What a device lost, divided among its lanes so that each frame is reported once.
#[derive(Debug, Default)]
pub(super) struct Losses(Mutex<Reported>);

#[derive(Debug, Default)]
struct Reported {
    /// The driver's count that lanes have reported, or that was there as the first lane began.
    count: u64,
    first_has_ended: bool,
}

/// A lane's part of them.
#[derive(Debug)]
pub(super) struct LaneLosses {
    pub is_first: bool,
    pub has_ended: bool,
    /// Frames that it reported.
    reported: u64,
}

impl Losses {
    /// The first lane starts at this count of the driver's.
    pub fn start(&self, lane: &LaneLosses, count: u64) {
        if lane.is_first {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).count = count;
        }
    }

    /// What `lane` has to report since its start, if the driver's count is `count` now.
    pub fn of(&self, lane: &mut LaneLosses, count: u64) -> u64 {
        let mut device = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lane.is_first || lane.has_ended && device.first_has_ended {
            lane.reported += count.saturating_sub(device.count);
            device.count = device.count.max(count);
        }
        device.first_has_ended |= lane.is_first && lane.has_ended;
        lane.reported
    }
}

impl LaneLosses {
    pub fn new(is_first: bool) -> LaneLosses {
        LaneLosses { is_first, has_ended: false, reported: 0 }
    }

    /// It may have to report what was lost.
    pub fn may_report(&self) -> bool {
        self.is_first || self.has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lost_frame_is_reported_once_in_whatever_order_lanes_end() {
        // At each step a lane is asked, which ends then or not, by the driver's count: the sum of
        // what all have reported.
        let ask = |order: &[(usize, bool, u64)]| {
            let losses = Losses::default();
            let mut lanes = [0, 1, 2].map(|lane| LaneLosses::new(lane == 0));
            lanes.iter().for_each(|lane| losses.start(lane, 100));
            let mut reported = [0; 3];
            for &(lane, ends, count) in order {
                lanes[lane].has_ended |= ends;
                reported[lane] = losses.of(&mut lanes[lane], count);
            }
            reported
        };
        // While it lives, the first reports all.
        assert_eq!(ask(&[(1, false, 105), (0, false, 107), (2, false, 109)]), [7, 0, 0]);
        // The first ends last: what others were asked is in its number.
        assert_eq!(ask(&[(2, true, 104), (1, true, 105), (0, true, 109)]), [9, 0, 0]);
        // It ends first: the last that ends reports what was lost since.
        assert_eq!(ask(&[(0, true, 103), (2, true, 104), (1, true, 110)]), [3, 6, 1]);
        // A count that went back, as of a driver that was reset, takes nothing back.
        assert_eq!(ask(&[(0, false, 110), (0, true, 90), (1, true, 111)]), [10, 1, 0]);
    }
}
