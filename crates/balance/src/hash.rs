//! The hash by which every instance chooses the same real.
//!
//! It is part of the configuration's meaning: two balancers that share traffic, or one before and
//! after an update, must agree, so the constants never change. Words are read as the wire has them,
//! first byte highest, and every machine computes the same. It is no secret and withstands no
//! attacker: who knows it can choose flows that go to one real, with any hash that is the same
//! everywhere. What must not be foreseen, the place of a flow in the flow table, has a secret seed.

use std::net::IpAddr;

/// Seed of flows: which slot of the lookup table.
pub const SEED_FLOW: u64 = 0x5249_4e47_464c_4f57;
/// Seed of reals: where a real's permutation of the slots begins.
pub const SEED_OFFSET: u64 = 0x5249_4e47_4f46_4653;
/// Seed of reals: by how many slots its permutation goes on.
pub const SEED_SKIP: u64 = 0x5249_4e47_534b_4950;
/// Seed of the index of VIPs, to which a number of the try is added.
pub const SEED_KEYS: u64 = 0x5249_4e47_4b45_5953;

/// One word more, as `mix` of `bpf/headers.h`.
fn mix(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ hash >> 32
}

/// Hash of words. The word 0 behind them has the last one reach every bit.
pub fn hash(seed: u64, words: &[u64]) -> u64 {
    mix(words.iter().fold(seed, |hash, word| mix(hash, *word)), 0)
}

/// An address as two words; IPv4 as its address within IPv6 (::ffff:0:0/96).
pub fn address_words(address: IpAddr) -> [u64; 2] {
    let bits = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    [(bits >> 64) as u64, bits as u64]
}

/// The slot of a hash among `slots`: its upper half, scaled.
pub fn slot(hash: u64, slots: u32) -> u32 {
    (((hash >> 32) * u64::from(slots)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These never change: instances of different versions must agree.
    #[test]
    fn hashes_are_those_that_they_always_were() {
        assert_eq!(hash(SEED_FLOW, &[]), 0xdabe_942f_0868_320c);
        let words = address_words("192.0.2.1".parse().unwrap());
        assert_eq!(words, [0, 0xffff_c000_0201]);
        assert_eq!(hash(SEED_OFFSET, &words), 0x7cad_6c29_da27_f5df);
        let words = address_words("2001:db8::1".parse().unwrap());
        assert_eq!(words, [0x2001_0db8_0000_0000, 1]);
        assert_eq!(hash(SEED_SKIP, &words), 0xc275_b0b1_e69c_ecc9);
    }

    #[test]
    fn slots_are_evenly_hit_by_neighbouring_ports() {
        const SLOTS: u32 = 97;
        let mut hits = [0u32; SLOTS as usize];
        for port in 0..97_000u64 {
            hits[slot(hash(SEED_FLOW, &[1, 2, port << 32 | 6]), SLOTS) as usize] += 1;
        }
        // 1,000 each; the deviation of chance is 32.
        assert!(hits.iter().all(|hits| (800..1200).contains(hits)), "{hits:?}");
        assert_eq!(slot(u64::MAX, SLOTS), SLOTS - 1);
    }
}
