//! The Rust side of `bpf/balance/abi.h`: tables as the words that lie in arrays.

use crate::abi::rules::{pair, parts};
use ringside_balance::Tables;
use ringside_balance::flows::WAYS;
use ringside_balance::maglev::NONE;
use ringside_balance::tables::keys::KeyEntry;
use ringside_balance::tables::{Path, RealEntry, VipEntry};
use ringside_wire::MacAddr;

pub const CONTROL_BYTES: usize = 8;
pub const SETTINGS_BYTES: usize = 72;
pub const KEY_BYTES: usize = 32;
pub const VIP_BYTES: usize = 24;
pub const REAL_BYTES: usize = 64;
pub const LINE_BYTES: usize = 64;
pub const SET_BYTES: usize = 576;
pub const GUARD_BYTES: usize = 16;
pub const VIP_COUNTS_BYTES: usize = 128;
pub const REAL_COUNTS_BYTES: usize = 16;
pub const TOTALS_BYTES: usize = 16;
pub const VIP_OWNER_BYTES: usize = 224;
pub const REAL_OWNER_BYTES: usize = 64;
pub const GONE_BYTES: usize = 160;
const DECAP_CONFIG_BYTES: usize = 208;
/// Where `stays` lies in `struct decap_config`.
const DECAP_STAYS_AT: usize = 200;
const CONFIG_BYTES: usize = 56;
/// Where `stays` lies in `struct balance_config`.
const STAYS_AT: usize = 48;

/// Slots of a line (BALANCE_LINE_SLOTS).
pub const LINE_SLOTS: usize = 16;
/// Lengths of prefixes of one version of IP (BALANCE_LENGTHS_MAX).
const LENGTHS: usize = 8;
/// Of a set, in words of 32 bits: where its flows begin, how long each is, and where in one its
/// real stands.
const FLOWS_AT: usize = 2 * WAYS;
const FLOW_WORDS: usize = 16;
const FLOW_REAL_AT: usize = 10;

/// `struct balance_config`.
pub struct Config {
    pub seed: u64,
    pub cpus: u32,
    pub sets: u32,
    pub vips: u32,
    pub reals: u32,
    pub slot_lines: u32,
    pub keys: u32,
    pub position: u32,
    pub metadata: u32,
    pub mac: MacAddr,
    pub stays: bool,
}

impl Config {
    /// Reads `stays` from the bytes of a program.
    pub fn stays_in(bytes: &[u8]) -> bool {
        bytes.len() == CONFIG_BYTES && bytes[STAYS_AT] != 0
    }

    /// True if a program with these bytes differs in its secret seed alone.
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        self.to_bytes().get(size_of::<u64>()..) == bytes.get(size_of::<u64>()..)
    }

    /// The bytes as the C program reads them.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Config { cpus, sets, vips, reals, slot_lines, keys, position, metadata, .. } = *self;
        let words = [cpus, sets, vips, reals, slot_lines, keys, position, metadata];
        let words = words.into_iter().flat_map(u32::to_ne_bytes);
        let mac = self.mac.0.into_iter().chain([0; 2]);
        let is_weakly_ordered = !cfg!(target_arch = "x86_64");
        let stays = pair(self.stays.into(), is_weakly_ordered.into()).to_ne_bytes();
        self.seed.to_ne_bytes().into_iter().chain(words).chain(mac).chain(stays).collect()
    }
}

/// True if an end of tunnels with these constants is to outlive its process.
pub fn decap_stays_in(constants: &[u8]) -> bool {
    constants.len() == DECAP_CONFIG_BYTES && constants[DECAP_STAYS_AT] != 0
}

/// `struct balance_settings`.
pub fn settings(tables: &Tables) -> [u64; SETTINGS_BYTES / 8] {
    let settings = &tables.settings;
    let ([high, low], mask) = settings.source_v6;
    let key_mask = tables.keys.entries.len() as u32 - 1;
    let new_flows_max = settings.new_flows_per_second_max;
    [
        tables.keys.seed,
        high,
        low,
        mask,
        pair(settings.source_v4.0, settings.source_v4.1),
        pair(key_mask, settings.mtu),
        pair(new_flows_max, settings.gue_port.into()),
        lengths(&settings.lengths_v4),
        lengths(&settings.lengths_v6),
    ]
}

/// Each and 1; 0 behind them.
fn lengths(lengths: &[u8]) -> u64 {
    let mut bytes = [0; LENGTHS];
    for (to, bits) in bytes.iter_mut().zip(lengths) {
        *to = bits + 1;
    }
    u64::from_ne_bytes(bytes)
}

/// `struct balance_key`.
pub fn key(entry: &KeyEntry) -> [u64; KEY_BYTES / 8] {
    [entry.key.words[0], entry.key.words[1], entry.key.what, entry.value]
}

/// `struct balance_vip`.
pub fn vip(vip: &VipEntry) -> [u64; VIP_BYTES / 8] {
    [
        pair(vip.slots_at, vip.slots),
        pair(vip.timeout_ticks, vip.flags),
        u64::from_ne_bytes(vip.server_id_bytes),
    ]
}

/// `struct balance_real`.
pub fn real(real: &RealEntry) -> [u64; REAL_BYTES / 8] {
    let mac = real.next_hop.unwrap_or(MacAddr([0; 6])).0;
    let [a, b, c, d, e, f] = mac;
    let hop = [a, b, c, d, e, f, real.next_hop.is_some().into(), real.path as u8];
    let [high, low] = real.address;
    let names = pair(real.serial, real.vip);
    [high, low, real.until_ns, names, u64::from_ne_bytes(hop), 0, 0, 0]
}

/// The same, read: what no balancer wrote is some real all the same.
pub fn real_entry(words: &[u64; REAL_BYTES / 8]) -> RealEntry {
    let (serial, vip) = parts(words[3]);
    let [a, b, c, d, e, f, has_next_hop, path] = words[4].to_ne_bytes();
    RealEntry {
        address: [words[0], words[1]],
        until_ns: words[2],
        serial,
        vip,
        next_hop: (has_next_hop != 0).then_some(MacAddr([a, b, c, d, e, f])),
        path: Path::ALL.into_iter().find(|one| *one as u8 == path).unwrap_or_default(),
    }
}

/// `struct balance_slots`, one after the other; the last line is filled up with none.
pub fn slots(slots: &[u32]) -> impl Iterator<Item = u64> {
    let (pairs, rest) = slots.as_chunks::<2>();
    let rest = rest.first().map(|slot| pair(*slot, NONE));
    pairs.iter().map(|[first, second]| pair(*first, *second)).chain(rest)
}

/// Real and serial number of a flow of a set, whose words are read by `word`.
pub fn flow_owner(word: &impl Fn(usize) -> u32, way: usize) -> (u32, u32) {
    let at = FLOWS_AT + way * FLOW_WORDS + FLOW_REAL_AT;
    (word(at), word(at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_as_the_header_has_them() {
        let config = Config {
            seed: 1,
            cpus: 2,
            sets: 3,
            vips: 4,
            reals: 5,
            slot_lines: 6,
            keys: 7,
            position: 8,
            metadata: 9,
            mac: MacAddr([1, 2, 3, 4, 5, 6]),
            stays: true,
        };
        let bytes = config.to_bytes();
        assert_eq!(bytes.len(), CONFIG_BYTES);
        assert_eq!(bytes[40..48], [1, 2, 3, 4, 5, 6, 0, 0]);
        assert!(Config::stays_in(&bytes) && !Config::stays_in(&bytes[1..]));
        let other = |seed, stays| Config { seed, stays, ..config }.to_bytes();
        assert!(config.is_in(&other(7, true)) && !config.is_in(&other(1, false)));
        assert!(!Config::stays_in(&other(1, false)) && !config.is_in(&[]));
        let entry = RealEntry {
            address: [1, 2],
            until_ns: 3,
            serial: 4,
            vip: 5,
            next_hop: Some(MacAddr([6; 6])),
            path: Path::Gue6,
        };
        let words = real(&entry);
        assert_eq!((words[2], parts(words[3])), (3, (4, 5)));
        assert_eq!(real_entry(&words), entry);
        assert_eq!(words[4].to_ne_bytes(), [6, 6, 6, 6, 6, 6, 1, 4]);
        assert_eq!(lengths(&[32, 0]).to_ne_bytes(), [33, 1, 0, 0, 0, 0, 0, 0]);
        let three: Vec<(u32, u32)> = slots(&[7, 8, 9]).map(parts).collect();
        assert_eq!(three, [(7, 8), (9, NONE)]);
    }
}
