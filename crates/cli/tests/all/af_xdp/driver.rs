//! The driver's own counters, a second witness.

use crate::common::*;
use ringside_core::{Cause, Ledger};

/// What a driver counts for its XDP program, all queues together (`ethtool -S`).
#[derive(Debug, Default)]
pub struct DriverCounts {
    /// Frames that the program saw.
    pub seen: u64,
    /// Frames that it handed on, and that were taken.
    pub redirected: u64,
    /// Frames for which there was no room.
    pub dropped: u64,
}

impl DriverCounts {
    /// As of now.
    pub fn read(network: &Network) -> DriverCounts {
        let text = run_clean("ip", &["netns", "exec", network.receiver(), "ethtool", "-S", "rx0"]);
        let sum = |name: &str| -> u64 {
            let of_queues = text.lines().filter_map(|line| line.trim().split_once(": "));
            let of_queues = of_queues.filter(|(key, _)| {
                let rest = key.strip_prefix("rx_queue_");
                rest.and_then(|rest| rest.split_once('_')).is_some_and(|(_, key)| key == name)
            });
            of_queues.map(|(_, count)| count.parse::<u64>().unwrap()).sum()
        };
        DriverCounts {
            seen: sum("xdp_packets"),
            redirected: sum("xdp_redirect"),
            dropped: sum("drops") + sum("xdp_drops"),
        }
    }

    /// What was added.
    pub fn since(&self, before: &DriverCounts) -> DriverCounts {
        DriverCounts {
            seen: self.seen - before.seen,
            redirected: self.redirected - before.redirected,
            dropped: self.dropped - before.dropped,
        }
    }

    /// The driver has seen the ledger's frames, and did with them what it says.
    pub fn agree_with(&self, backend: &str, ledger: &Ledger) {
        let of = |cause| ledger.dropped.get(&cause).copied().unwrap_or(0);
        if backend == "xdp-ring" {
            // The program discards what it has copied; while no capture takes the queue the host
            // may get some.
            let discarded = ledger.taken..=self.seen - ledger.passed;
            assert_eq!((Some(self.seen), self.redirected), (ledger.received, 0), "{ledger:#?}");
            assert!(discarded.contains(&self.dropped), "{self:?} {ledger:#?}");
            return;
        }
        let dropped = of(Cause::FillRingEmpty) + of(Cause::KernelRingFull);
        assert_eq!(Some(self.seen), ledger.received, "{self:?} {ledger:#?}");
        assert_eq!(self.dropped, dropped, "{self:?} {ledger:#?}");
        let redirected = self.seen - ledger.passed - dropped;
        assert_eq!(self.redirected, redirected, "{self:?} {ledger:#?}");
    }
}
