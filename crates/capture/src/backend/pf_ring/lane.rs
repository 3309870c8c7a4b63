//! A ring of PF_RING's as a supply.

use crate::backend::polled::{Supply, Taken};
use ringside_core::{SourceError, Timestamp, TimestampKind};
use ringside_pfring::{BURST_FRAMES, PfRingError, Received, Ring};
use ringside_sys::{SysError, bpf};
use std::io;
use std::time::Duration;

/// Longest wait at a time: what is to be done meanwhile is done soon.
const WAIT_MAX: Duration = Duration::from_millis(5);

/// Frames that are still read at the end where it is not known how many there are: more than the
/// ring of a card holds.
const UNCOUNTED_MAX: u64 = 64 << 10;

/// A ring.
pub(super) struct PfRingLane {
    ring: Ring,
    device: String,
    stamped_by: TimestampKind,
    dropped_before: u64,
    /// Frames that are still to be read, once it has ended.
    left: Option<u64>,
}

impl PfRingLane {
    pub fn new(ring: Ring, device: &str, stamped_by: TimestampKind) -> PfRingLane {
        let device = device.to_owned();
        PfRingLane { ring, device, stamped_by, dropped_before: 0, left: None }
    }

    fn failed(&self, error: PfRingError) -> SourceError {
        SourceError::Io {
            context: format!("PF_RING on {}", self.device),
            source: io::Error::other(error),
        }
    }

    /// A frame's time, and whose it is: PF_RING gives the kernel's where the card gave none.
    fn stamp(&self, frame: &Received) -> Option<(Timestamp, TimestampKind)> {
        let kind = match self.stamped_by {
            TimestampKind::Hardware if frame.stamps_agree => TimestampKind::Kernel,
            kind => kind,
        };
        (frame.stamp_ns > 0).then_some((Timestamp(frame.stamp_ns), kind))
    }
}

impl Supply for PfRingLane {
    fn start(&mut self) -> Result<(), SourceError> {
        self.dropped_before = self.ring.statistics().map_or(0, |counted| counted.dropped);
        self.ring.enable().map_err(|error| self.failed(error))
    }

    fn receive(&mut self) -> Result<usize, SourceError> {
        let most = self.left.map_or(BURST_FRAMES, |left| left.min(BURST_FRAMES as u64) as usize);
        let count = self.ring.receive(most).map_err(|error| self.failed(error))?;
        if let Some(left) = &mut self.left {
            *left -= count as u64;
            if *left == 0 || count == 0 {
                *left = 0;
                self.ring.disable();
            }
        }
        Ok(count)
    }

    fn frames(&self) -> impl Iterator<Item = Taken> + '_ {
        self.ring.frames().map(|frame| Taken {
            offset: frame.offset,
            bytes: frame.bytes,
            wire_bytes: frame.wire_bytes,
            stamp: self.stamp(&frame),
            hash: None,
        })
    }

    fn memory(&self) -> &[u8] {
        self.ring.memory()
    }

    fn is_empty(&mut self) -> bool {
        self.ring.is_empty()
    }

    fn wait(&self, left: Duration) -> Result<(), SysError> {
        self.ring.wait(left.min(WAIT_MAX));
        Ok(())
    }

    fn finish(&mut self) -> Result<u64, SourceError> {
        // Frames that the kernel is just handing over are in the ring after that.
        bpf::wait_until_left();
        let queued = self.ring.queued();
        self.left = Some(queued.unwrap_or(UNCOUNTED_MAX));
        Ok(queued.unwrap_or(0))
    }

    fn missed(&mut self) -> u64 {
        let dropped = self.ring.statistics().map_or(self.dropped_before, |counted| counted.dropped);
        dropped.saturating_sub(self.dropped_before)
    }
}
