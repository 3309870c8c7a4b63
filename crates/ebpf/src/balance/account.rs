//! What a balancer counted, by who had which index.

use super::books::{Owned, add, since};
use super::maps::BalanceMaps;
use ringside_balance::balancer::Count;
use ringside_balance::tables::RealEntry;
use std::collections::HashMap;

/// How long after its last packet a flow counts as live.
const LIVE_NS: u64 = 3_600_000_000_000;

/// What was counted; exact while no frames come. Received is passed and the fates of all VIPs, also
/// of those that are gone; what a VIP forwarded is what its reals have, also those that are gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BalanceAccount {
    /// Frames that were seen.
    pub received: u64,
    /// Of these, frames that are no VIP's.
    pub passed: u64,
    /// Those in the tables, by serial number.
    pub vips: Vec<VipAccount>,
    /// Those that are gone: how many,
    pub gone: u64,
    /// and what they counted,
    pub gone_counts: [u64; Count::ALL],
    /// frames and bytes of their reals.
    pub gone_reals: [u64; 2],
}

/// What a VIP counted since it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VipAccount {
    /// No other VIP or real of this balancer has or had it.
    pub serial: u64,
    /// Its name.
    pub name: String,
    /// By [`Count`].
    pub counts: [u64; Count::ALL],
    /// Its reals in the tables, by serial number.
    pub reals: Vec<RealAccount>,
    /// Frames and bytes of those that are gone.
    pub gone_reals: [u64; 2],
}

/// What a real got since it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealAccount {
    /// As of a VIP.
    pub serial: u64,
    /// As it is in the tables.
    pub entry: RealEntry,
    /// Frames and bytes, as they came.
    pub counts: [u64; 2],
    /// Flows that are remembered, and had a packet in the last hour.
    pub live_flows: u64,
}

impl BalanceMaps {
    /// What was counted so far.
    pub fn account(&self, now_ns: u64) -> BalanceAccount {
        let [received, passed] = self.totals();
        let (books, entries) = (self.books(), self.reals());
        let live_flows = self.live_flows(&entries, now_ns, LIVE_NS);
        let gone = books.gone;
        // Indices of reals by the serial number of their VIP.
        let mut reals_of: HashMap<u64, Vec<usize>> = HashMap::new();
        for (at, real) in books.reals.iter().enumerate() {
            if real.state != Owned::None {
                reals_of.entry(real.vip).or_default().push(at);
            }
        }
        let mut account = BalanceAccount {
            received,
            passed,
            vips: Vec::new(),
            gone: gone.vips,
            gone_counts: gone.counts,
            gone_reals: gone.reals,
        };
        for (index, vip) in (0..).zip(books.vips).filter(|(_, vip)| vip.state != Owned::None) {
            let (serial, name, is_live) = (vip.serial, vip.name, vip.state == Owned::Live);
            let mut its = VipAccount {
                serial,
                name,
                counts: since(&self.vip_counts(index), &vip.before),
                reals: Vec::new(),
                gone_reals: vip.gone,
            };
            for at in reals_of.remove(&serial).unwrap_or_default() {
                let real = &books.reals[at];
                let counts = since(&self.real_counts(at as u32), &real.before);
                if real.state == Owned::Leaving {
                    add(&mut its.gone_reals, &counts);
                    continue;
                }
                let (serial, entry, live_flows) = (real.serial, entries[at], live_flows[at]);
                its.reals.push(RealAccount { serial, entry, counts, live_flows });
            }
            its.reals.sort_unstable_by_key(|real| real.serial);
            match is_live {
                true => account.vips.push(its),
                false => account.note_gone(&its),
            }
        }
        account.vips.sort_unstable_by_key(|vip| vip.serial);
        account
    }
}

impl BalanceAccount {
    fn note_gone(&mut self, vip: &VipAccount) {
        self.gone += 1;
        add(&mut self.gone_counts, &vip.counts);
        add(&mut self.gone_reals, &vip.gone_reals);
        for real in &vip.reals {
            add(&mut self.gone_reals, &real.counts);
        }
    }
}
