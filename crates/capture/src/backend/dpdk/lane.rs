//! A receive queue of DPDK's as a supply.

use super::drivers::Stamps;
use super::link::Link;
use super::losses::{LaneLosses, Losses};
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
    pub losses: Losses,
}

/// A receive queue.
pub(super) struct DpdkQueue {
    pub queue: Queue,
    pub shared: Arc<Shared>,
    pub losses: LaneLosses,
    /// That of the card, watched by its first lane.
    pub link: Option<Link>,
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
            self.shared.losses.start(&self.losses, counters.missed);
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
        let waiting = self.queue.finish() as u64;
        self.losses.has_ended = true;
        Ok(waiting)
    }

    fn missed(&mut self) -> u64 {
        // A card's counters are read one by one, over its bus: not where they are not needed.
        let counters = self.losses.may_report().then(|| self.shared.port.counters());
        let count = counters.and_then(Result::ok).map_or(0, |counters| counters.missed);
        self.shared.losses.of(&mut self.losses, count)
    }

    fn watch(&mut self) {
        if let Some(link) = &mut self.link {
            link.watch(&self.shared.port);
        }
    }
}
