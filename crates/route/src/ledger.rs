//! The account of a router: where each frame went.

use crate::Asked;
use ringside_core::ledger::sum;
use ringside_ebpf::route::{Cause, Counts};
use ringside_netdev::DeviceStatistics;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All frames of a router since it started. Exact once it has stopped, or while none come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Each interface, in the order in which they were named.
    pub interfaces: Vec<InterfaceLedger>,
    /// What neighbours were asked.
    pub neighbours: Asked,
}

/// Frames that came in by an interface, and frames that left by it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceLedger {
    /// Its name.
    pub interface: String,
    /// Its number.
    pub ifindex: u32,
    /// True if frames leave by it; false if what leads there is left to the host.
    pub is_member: bool,
    /// Frames that its driver received.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Of these, frames that were given to other interfaces.
    pub forwarded: u64,
    /// Of these, frames that were left to the host, by cause; causes without frames are left out.
    pub passed: BTreeMap<String, u64>,
    /// Frames that other interfaces gave to this one.
    pub given: u64,
    /// Their bytes, as they came in.
    pub given_bytes: u64,
    /// Of these, frames that were handed to its driver.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Of those given, frames that the kernel dropped before: the interface had gone down, or the
    /// frame with all that is behind the packet was too long for it.
    pub lost: u64,
    /// What its driver counted meanwhile.
    pub device: DeviceCounts,
}

/// What a driver counted since the router started, of all that it sent, the host's own too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCounts {
    /// Frames sent.
    pub sent: u64,
    /// Frames that could not be sent.
    pub send_errors: u64,
    /// Frames to be sent that were dropped, as for want of room.
    pub send_dropped: u64,
}

impl DeviceCounts {
    /// From what it had counted before and counts now.
    pub(crate) fn between(before: &DeviceStatistics, now: &DeviceStatistics) -> DeviceCounts {
        let since = |count: fn(&DeviceStatistics) -> u64| count(now).saturating_sub(count(before));
        DeviceCounts {
            sent: since(|counts| counts.tx_packets),
            send_errors: since(|counts| counts.tx_errors),
            send_dropped: since(|counts| counts.tx_dropped),
        }
    }
}

impl InterfaceLedger {
    /// Notes what came in.
    pub(crate) fn note(&mut self, counts: &Counts) {
        self.received = counts.received;
        self.received_bytes = counts.received_bytes;
        self.forwarded = counts.of(Cause::Forwarded);
        let passed = Cause::ALL.into_iter().filter(|cause| *cause != Cause::Forwarded);
        let passed = passed.map(|cause| (cause.name().to_owned(), counts.of(cause)));
        self.passed = passed.filter(|(_, frames)| *frames > 0).collect();
    }

    /// Frames that were left to the host, for whatever cause.
    pub fn passed_total(&self) -> u64 {
        sum(self.passed.values().copied())
    }
}

impl Ledger {
    /// Checks that each frame is where it is said to be; only of a router that has stopped.
    ///
    /// # Errors
    /// The sum that is wrong, in words.
    pub fn balance(&self) -> Result<(), String> {
        for one in &self.interfaces {
            let accounted = sum([one.forwarded, one.passed_total()]);
            if one.received != accounted {
                let InterfaceLedger { interface, received, .. } = one;
                return Err(format!(
                    "{interface}: received {received}, forwarded and passed {accounted}"
                ));
            }
            if one.given != sum([one.sent, one.lost]) {
                let InterfaceLedger { interface, given, sent, lost, .. } = one;
                return Err(format!("{interface}: given {given}, sent {sent}, lost {lost}"));
            }
        }
        let total = |count: fn(&InterfaceLedger) -> u64| sum(self.interfaces.iter().map(count));
        let (forwarded, given) = (total(|one| one.forwarded), total(|one| one.given));
        if forwarded != given {
            return Err(format!("forwarded {forwarded}, given to interfaces {given}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_is_missing_shows() {
        let mut counts = Counts { received: 10, ..Counts::default() };
        counts.causes[Cause::Forwarded as usize] = 7;
        counts.causes[Cause::TooLong as usize] = 3;
        let mut a = InterfaceLedger { interface: "a".into(), ..InterfaceLedger::default() };
        a.note(&counts);
        assert_eq!(a.passed, BTreeMap::from([("too_long".to_owned(), 3)]));
        let b = InterfaceLedger { given: 7, sent: 6, lost: 1, ..InterfaceLedger::default() };
        let ledger = Ledger { interfaces: vec![a, b], ..Ledger::default() };
        assert_eq!(ledger.balance(), Ok(()));
        let changed = |change: fn(&mut Vec<InterfaceLedger>)| {
            let mut ledger = ledger.clone();
            change(&mut ledger.interfaces);
            ledger.balance().unwrap_err()
        };
        assert!(changed(|all| all[0].received += 1).contains("received 11"));
        assert!(changed(|all| all[1].lost = 0).contains("lost 0"));
        assert!(changed(|all| (all[1].given, all[1].lost) = (8, 2)).contains("forwarded 7"));
    }
}
