//! A receive ring of netmap's as a supply.

use crate::backend::polled::{Supply, Taken};
use crate::backend::source_error;
use ringside_core::SourceError;
use ringside_sys::netmap::ReceiveRing;
use ringside_sys::{SysError, bpf};
use std::time::Duration;

/// Longest wait at a time: what is to be done meanwhile is done soon.
const WAIT_MAX: Duration = Duration::from_millis(5);

/// A ring.
pub(super) struct NetmapLane {
    pub ring: ReceiveRing,
}

impl Supply for NetmapLane {
    fn start(&mut self) -> Result<(), SourceError> {
        self.ring.discard().map_err(source_error)
    }

    fn receive(&mut self) -> Result<usize, SourceError> {
        self.ring.receive().map_err(source_error)
    }

    fn frames(&self) -> impl Iterator<Item = Taken> + '_ {
        self.ring.frames().map(|frame| Taken {
            offset: frame.offset,
            bytes: frame.bytes,
            wire_bytes: frame.bytes,
            // The kernel has one time for all that it hands over at once: so have we.
            stamp: None,
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
        self.ring.wait(left.min(WAIT_MAX))
    }

    fn finish(&mut self) -> Result<u64, SourceError> {
        // Frames that a driver is just handing over are there after that.
        bpf::wait_until_left();
        self.ring.finish().map_err(source_error)
    }

    fn missed(&mut self) -> u64 {
        0
    }
}
