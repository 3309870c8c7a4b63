//! How large a balancer's tables are.

use super::abi::{self, LINE_SLOTS};
use ringside_balance::Tables;
use ringside_balance::config::SLOTS_SUM_MAX;
use ringside_balance::flows::WAYS;

/// Room in the tables; the kernel takes all of it at the start, for two generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalanceRoom {
    /// VIPs.
    pub vips: u32,
    /// Reals of all VIPs.
    pub reals: u32,
    /// Slots of all VIPs.
    pub slots: u32,
    /// Entries of the index, a power of two.
    pub keys: u32,
    /// Flows that each CPU remembers, a power of two and at least 8.
    pub flows: u32,
}

/// Names of the tables in `bpf/balance/work.h`.
pub(super) const TABLES: [&str; 14] = [
    "balance_controls",
    "balance_setting",
    "balance_keys",
    "balance_vips",
    "balance_reals",
    "balance_lines",
    "balance_vip_own",
    "balance_real_own",
    "balance_gones",
    "balance_flows",
    "balance_guards",
    "balance_vip_count",
    "balance_real_count",
    "balance_total",
];

impl BalanceRoom {
    /// What `tables` take, and as much again of each kind, as far as a configuration may have it.
    pub fn twice(tables: &Tables, flows: u32) -> BalanceRoom {
        let twice = |count: usize, most: usize| (2 * count).clamp(LINE_SLOTS, most) as u32;
        let [vips, reals] = tables.room().map(|count| count as u32);
        BalanceRoom {
            vips,
            reals,
            slots: twice(tables.slots.len(), SLOTS_SUM_MAX),
            keys: twice(tables.keys.entries.len(), u32::MAX as usize),
            flows,
        }
    }

    /// Sets of flows of each CPU.
    pub(super) fn sets(&self) -> u32 {
        (self.flows / WAYS as u32).max(1)
    }

    /// Lines of slots of a generation.
    pub(super) fn lines(&self) -> u32 {
        self.slots.div_ceil(LINE_SLOTS as u32).max(1)
    }

    /// Bytes of all tables, with this number of CPUs.
    pub fn memory_bytes(&self, cpus: u32) -> usize {
        let bytes = |(entries, bytes): (u32, usize)| entries as usize * bytes;
        TABLES.iter().filter_map(|table| self.entries(table, cpus)).map(bytes).sum()
    }

    /// Entries of a table, and the bytes of each.
    pub(super) fn entries(&self, table: &str, cpus: u32) -> Option<(u32, usize)> {
        Some(match table {
            "balance_controls" => (1, abi::CONTROL_BYTES),
            "balance_setting" => (2, abi::SETTINGS_BYTES),
            "balance_keys" => (2 * self.keys, abi::KEY_BYTES),
            "balance_vips" => (2 * self.vips, abi::VIP_BYTES),
            "balance_reals" => (2 * self.reals, abi::REAL_BYTES),
            "balance_lines" => (2 * self.lines(), abi::LINE_BYTES),
            "balance_vip_own" => (2 * self.vips, abi::VIP_OWNER_BYTES),
            "balance_real_own" => (2 * self.reals, abi::REAL_OWNER_BYTES),
            "balance_gones" => (2, abi::GONE_BYTES),
            "balance_flows" => (cpus.saturating_mul(self.sets()), abi::SET_BYTES),
            "balance_guards" => (cpus, abi::GUARD_BYTES),
            "balance_vip_count" => (cpus.saturating_mul(self.vips), abi::VIP_COUNTS_BYTES),
            "balance_real_count" => (cpus.saturating_mul(self.reals), abi::REAL_COUNTS_BYTES),
            "balance_total" => (cpus, abi::TOTALS_BYTES),
            _ => return None,
        })
    }

    /// The room of tables with these entries, and their number of CPUs; none if no room has such
    /// tables.
    pub(super) fn of(entries: impl Fn(&str) -> Option<u32>) -> Option<(BalanceRoom, u32)> {
        let half = |table: &str| entries(table).map(|count| count / 2);
        let cpus = entries("balance_guards").filter(|cpus| *cpus > 0)?;
        let room = BalanceRoom {
            vips: half("balance_vips")?,
            reals: half("balance_reals")?,
            slots: half("balance_lines")?.checked_mul(LINE_SLOTS as u32)?,
            keys: half("balance_keys")?,
            flows: (entries("balance_flows")? / cpus).checked_mul(WAYS as u32)?,
        };
        let is_right = |table: &&str| {
            let expected = room.entries(table, cpus).map(|(count, _)| count);
            expected.is_some() && entries(table) == expected
        };
        TABLES.iter().all(is_right).then_some((room, cpus))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_is_known_by_its_tables() {
        let room = BalanceRoom { vips: 16, reals: 40, slots: 4096, keys: 64, flows: 1024 };
        let entries = |table: &str| room.entries(table, 3).map(|(count, _)| count);
        assert_eq!(BalanceRoom::of(entries), Some((room, 3)));
        let wrong =
            |table: &str| entries(table).map(|count| count + u32::from(table.contains("own")));
        assert_eq!(BalanceRoom::of(wrong), None);
        assert_eq!(BalanceRoom::of(|_| Some(0)), None);
        assert_eq!(BalanceRoom::of(|_| Some(u32::MAX)), None);
    }
}
