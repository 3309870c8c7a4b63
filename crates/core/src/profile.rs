//! Profiling counters of a lane, for tuning (HPCAP, section 3.4).

use serde::{Deserialize, Serialize};

/// Classes of batch sizes: 1, 2 to 3, 4 to 7, and so on to 256.
pub const BATCH_CLASSES: usize = 9;

/// What a lane's backend counted of its own work since the start. Nothing here is a frame lost:
/// that is the ledger's business.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// What the worker does while no frame is there.
    pub waiting: String,
    /// Batches by their number of frames; class `n` holds those of `2^n` to `2^(n+1) - 1`.
    pub batches: [u64; BATCH_CLASSES],
    /// Waits before which nothing had come since the wait before.
    pub empty_polls: u64,
    /// Times that the kernel was found without memory to receive into.
    pub fill_starved: u64,
    /// Pieces of memory that the kernel is given to receive into, now.
    pub fill_level: u32,
    /// Most frames that waited in the ring at once.
    pub ring_high_water: u32,
    /// Pieces of memory given back to the kernel.
    pub returned: u64,
    /// Times that some were.
    pub returns: u64,
    /// Turns of a driver ring (`xdp-ring`) back over what had just been read: the worker is near.
    pub laps_back: u64,
    /// Turns ahead to where it had been before such a turn back: the worker was not near any more.
    pub laps_ahead: u64,
    /// Turns to the start of the ring.
    pub laps_round: u64,
}

/// The profile of a lane, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneProfile {
    /// Interface of the lane.
    pub interface: String,
    /// Queue or fanout member.
    pub queue: u16,
    /// What was counted.
    #[serde(flatten)]
    pub profile: Profile,
}

impl Profile {
    /// Chunks that went back to the kernel each time that some did, on average.
    pub fn returned_per_batch(&self) -> u64 {
        self.returned / self.returns.max(1)
    }
}

/// The class of a batch of `frames` frames, at least 1.
#[inline]
pub fn batch_class(frames: usize) -> usize {
    (frames.max(1).ilog2() as usize).min(BATCH_CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_have_classes() {
        let classes = [0, 1, 2, 3, 4, 255, 256, 1000].map(batch_class);
        assert_eq!(classes, [0, 0, 1, 1, 2, 7, 8, 8]);
    }
}
