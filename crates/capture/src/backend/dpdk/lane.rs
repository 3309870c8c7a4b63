//! A receive queue of DPDK's as a supply.

use super::drivers::Stamps;
use crate::backend::polled::{Supply, Taken};
use ringside_core::{SourceError, Timestamp, TimestampKind};
use ringside_dpdk::{Port, Queue, Received};
use ringside_sys::SysError;
use std::sync::Arc;
use std::time::Duration;

/// Longest sleep while no frame comes: nothing wakes who polls.
const IDLE_SLEEP: Duration = Duration::from_micros(500);

/// What the lanes of a device share.
pub(super) struct Shared {
    pub port: Arc<Port>,
    /// Nothing came before the start: its frames wait.
    pub plays_files: bool,
    pub stamps: Stamps,
}

/// A receive queue.
pub(super) struct DpdkQueue {
    pub queue: Queue,
    pub shared: Arc<Shared>,
    /// The driver's losses are of all queues together: the first lane tells them.
    pub is_first: bool,
    /// The driver's count of missed frames at the start.
    pub missed_before: u64,
}

impl Stamps {
    /// What the driver says of a frame's time.
    fn of(&self, frame: &Received) -> Option<(Timestamp, TimestampKind)> {
        let stamp = frame.stamp.filter(|_| self.kind != TimestampKind::Poll)?;
        Some((Timestamp(stamp.saturating_mul(self.unit_ns)), self.kind))
    }
}

impl Supply for DpdkQueue {
    fn start(&mut self) -> Result<(), SourceError> {
        // Drivers without a card receive from their opening on.
        if !self.shared.plays_files {
            self.queue.discard();
        }
        if let Ok(counters) = self.shared.port.counters() {
            self.missed_before = counters.missed;
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<usize, SourceError> {
        Ok(self.queue.receive())
    }

    fn frames(&self) -> impl Iterator<Item = Taken> + '_ {
        self.queue.frames().map(|frame| Taken {
            offset: frame.offset,
            bytes: frame.bytes,
            wire_bytes: frame.wire_bytes,
            stamp: self.shared.stamps.of(&frame),
            hash: frame.hash,
        })
    }

    fn memory(&self) -> &[u8] {
        self.queue.memory()
    }

    fn is_empty(&mut self) -> bool {
        self.queue.waiting() == 0
    }

    fn wait(&self, left: Duration) -> Result<(), SysError> {
        std::thread::sleep(IDLE_SLEEP.min(left));
        Ok(())
    }

    fn finish(&mut self) -> Result<u64, SourceError> {
        Ok(self.queue.finish() as u64)
    }

    fn missed(&mut self) -> u64 {
        let counters = self.is_first.then(|| self.shared.port.counters()).and_then(Result::ok);
        counters.map_or(0, |now| now.missed.saturating_sub(self.missed_before))
    }
}
