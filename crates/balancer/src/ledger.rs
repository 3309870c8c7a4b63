//! The account of a balancer: where each frame went.

use crate::HealthLedger;
use ringside_balance::balancer::Count;
use ringside_balance::tables::{DOWN, UP};
use ringside_core::ledger::sum;
use ringside_ebpf::balance::{BalanceAccount, BalanceMaps, RealAccount, VipAccount};
use ringside_sys::clock::monotonic_ns;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// All frames of a balancer since it started. Exact once it has stopped, or while none come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Name of the interface.
    pub interface: String,
    /// Frames that its driver received.
    pub received: u64,
    /// Of these, frames to no VIP: the host has them.
    pub passed: u64,
    /// Those in force, the oldest first.
    pub vips: Vec<VipLedger>,
    /// Those that were in force before.
    pub removed: Removed,
}

/// A VIP since it came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VipLedger {
    /// No other VIP or real of this balancer has or had it.
    pub serial: u64,
    /// Its name.
    pub name: String,
    /// Frames by the names of [`Count`]; the fates add up to all that came.
    pub counts: BTreeMap<String, u64>,
    /// Its reals, the oldest first.
    pub reals: Vec<RealLedger>,
    /// Frames that went to reals that are gone.
    pub removed_frames: u64,
    /// Their bytes.
    pub removed_bytes: u64,
}

/// A real since it came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RealLedger {
    /// As of a VIP.
    pub serial: u64,
    /// Its address.
    pub address: IpAddr,
    /// In force: up, draining, drained or down.
    pub state: String,
    /// In force; null where no process knows.
    pub weight: Option<u32>,
    /// Something was set in place of what the file says.
    pub is_set: bool,
    /// Whether it answers; null if it is not asked.
    #[serde(default)]
    pub health: Option<HealthLedger>,
    /// Frames that went to it.
    pub frames: u64,
    /// Their bytes, as they came.
    pub bytes: u64,
    /// Flows that are remembered, and had a packet in the last hour; one of two CPUs counts
    /// twice.
    pub live_flows: u64,
}

/// VIPs that are gone, added up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// How many.
    pub vips: u64,
    /// As of a VIP.
    pub counts: BTreeMap<String, u64>,
    /// Frames of all their reals.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Ledger {
    /// What tables have counted.
    pub(crate) fn of(interface: &str, maps: &BalanceMaps) -> Ledger {
        let now_ns = monotonic_ns();
        let account: BalanceAccount = maps.account(now_ns);
        Ledger {
            interface: interface.to_owned(),
            received: account.received,
            passed: account.passed,
            vips: account.vips.iter().map(|vip| VipLedger::of(vip, now_ns)).collect(),
            removed: Removed {
                vips: account.gone,
                counts: named(&account.gone_counts),
                frames: account.gone_reals[0],
                bytes: account.gone_reals[1],
            },
        }
    }

    /// Frames of one kind, of all VIPs, also of those that are gone.
    pub fn total(&self, what: Count) -> u64 {
        let of = |counts: &BTreeMap<String, u64>| counts.get(what.name()).copied().unwrap_or(0);
        sum(self.vips.iter().map(|vip| of(&vip.counts)).chain([of(&self.removed.counts)]))
    }

    /// Frames that were dropped, for whatever cause.
    pub fn dropped(&self) -> u64 {
        sum(Count::EACH.into_iter().filter(|count| count.is_drop()).map(|count| self.total(count)))
    }

    /// Checks that each frame is where it is said to be; only while none come.
    ///
    /// # Errors
    /// The sum that is wrong, in words.
    pub fn balance(&self) -> Result<(), String> {
        let fates = sum(Count::EACH.into_iter().take(Count::FATES).map(|count| self.total(count)));
        let accounted = sum([self.passed, fates]);
        if self.received != accounted {
            let Ledger { interface, received, .. } = self;
            return Err(format!(
                "{interface}: received {received}, passed and of VIPs {accounted}"
            ));
        }
        for vip in &self.vips {
            let forwarded = vip.counts.get(Count::Forwarded.name()).copied().unwrap_or(0);
            let reals = vip.reals.iter().map(|real| real.frames);
            let at_reals = sum(reals.chain([vip.removed_frames]));
            if forwarded != at_reals {
                let name = &vip.name;
                return Err(format!("{name}: forwarded {forwarded}, to its reals {at_reals}"));
            }
        }
        Ok(())
    }
}

impl VipLedger {
    fn of(vip: &VipAccount, now_ns: u64) -> VipLedger {
        VipLedger {
            serial: vip.serial,
            name: vip.name.clone(),
            counts: named(&vip.counts),
            reals: vip.reals.iter().map(|real| RealLedger::of(real, now_ns)).collect(),
            removed_frames: vip.gone_reals[0],
            removed_bytes: vip.gone_reals[1],
        }
    }
}

impl RealLedger {
    fn of(real: &RealAccount, now_ns: u64) -> RealLedger {
        let state = match real.entry.until_ns {
            UP => "up",
            DOWN => "down",
            until if until <= now_ns => "drained",
            _ => "draining",
        };
        RealLedger {
            serial: real.serial,
            address: real.entry.ip(),
            state: state.to_owned(),
            weight: None,
            is_set: false,
            health: None,
            frames: real.counts[0],
            bytes: real.counts[1],
            live_flows: real.live_flows,
        }
    }
}

fn named(counts: &[u64; Count::ALL]) -> BTreeMap<String, u64> {
    let names = Count::EACH.into_iter().map(|count| count.name().to_owned());
    names.zip(counts.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_is_missing_shows() {
        let mut counts = [0; Count::ALL];
        (counts[Count::Forwarded as usize], counts[Count::NoReal as usize]) = (7, 2);
        // Of all, not another fate.
        counts[Count::Remembered as usize] = 5;
        let vip = VipLedger {
            name: "web".into(),
            counts: named(&counts),
            removed_frames: 7,
            ..VipLedger::default()
        };
        let removed = Removed { vips: 1, counts: named(&counts), ..Removed::default() };
        let ledger =
            Ledger { received: 28, passed: 10, vips: vec![vip], removed, ..Ledger::default() };
        assert_eq!(ledger.balance(), Ok(()));
        assert_eq!((ledger.total(Count::Forwarded), ledger.dropped()), (14, 4));
        let changed = |change: fn(&mut Ledger)| {
            let mut ledger = ledger.clone();
            change(&mut ledger);
            ledger.balance().unwrap_err()
        };
        assert!(changed(|ledger| ledger.received += 1).contains("received 29"));
        assert!(changed(|ledger| ledger.vips[0].removed_frames = 6).contains("its reals 6"));
    }
}
