//! A routing table as large as the Internet's, made up: prefixes of the lengths that it has, and
//! the addresses that frames are sent to, each with a route of its own.

use std::collections::HashSet;
use std::fmt::Write;
use std::net::Ipv4Addr;

/// Destinations of the frames.
pub(super) const DESTINATIONS: u32 = 4000;
/// From one destination to the next: they lie in every part of the upper half of the addresses.
pub(super) const DESTINATION_STEP: u32 = 400_009;
/// The first of them; all lie below 224.0.0.0.
pub(super) const FIRST_DESTINATION: u32 = 0x8000_0001;
/// Lengths of prefixes and their share in a thousand, about as in the Internet's table.
const LENGTHS: [(u8, u32); 12] = [
    (24, 600),
    (23, 100),
    (22, 110),
    (21, 50),
    (20, 45),
    (19, 30),
    (18, 18),
    (17, 10),
    (16, 22),
    (15, 6),
    (14, 5),
    (13, 4),
];
/// 198.19.0.0/16 (`site::ROUTE`).
const TAKEN: (u32, u8) = (0xc613_0000, 16);
/// Any number: the table is the same in every run.
const SEED: u64 = 0x0052_494e_4753_4944;

/// Destination `n` of [`DESTINATIONS`].
fn destination(n: u32) -> u32 {
    FIRST_DESTINATION + n * DESTINATION_STEP
}

/// Lines for `ip -batch` that add `count` different routes over a next hop: one for each
/// destination, the others anywhere from 16.0.0.0 on.
pub(super) fn routes(count: u32, via: &str) -> String {
    let mut random = Random(SEED);
    // The small table's, which is there.
    let mut seen = HashSet::from([TAKEN]);
    let mut lines = String::with_capacity(count as usize * 44);
    let mut destinations = (0..DESTINATIONS).map(destination);
    while seen.len() <= count as usize {
        let number = random.next();
        let bits = length((number % 1000) as u32);
        let address = destinations.next().unwrap_or((number >> 32) as u32);
        let prefix = address >> (32 - bits) << (32 - bits);
        if !is_free(prefix) || !seen.insert((prefix, bits)) {
            continue;
        }
        let _ = writeln!(lines, "route add {}/{bits} via {via}", Ipv4Addr::from(prefix));
    }
    lines
}

/// Loopback, 127.0.0.0/8, is no destination; the host's own networks lie below 16.0.0.0.
fn is_free(prefix: u32) -> bool {
    let first = prefix >> 24;
    (16..224).contains(&first) && first != 127
}

fn length(share: u32) -> u8 {
    let mut below = 0;
    let found = LENGTHS.iter().find(|(_, part)| {
        below += part;
        share < below
    });
    found.map_or(24, |(bits, _)| *bits)
}

/// SplitMix64 (Steele and others, "Fast splittable pseudorandom number generators", 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_destination_has_a_route_and_no_two_are_the_same() {
        let count = 20_000;
        let text = routes(count, "10.2.0.2");
        let prefix = |line: &str| {
            let (address, bits) = line.split(' ').nth(2)?.split_once('/')?;
            Some((u32::from(address.parse::<Ipv4Addr>().ok()?), bits.parse::<u8>().ok()?))
        };
        let table: HashSet<(u32, u8)> = text.lines().filter_map(prefix).collect();
        assert_eq!(table.len(), count as usize);
        for n in 0..DESTINATIONS {
            let address = destination(n);
            assert!(address < 0xe000_0000);
            let covers = |bits: u8| table.contains(&(address >> (32 - bits) << (32 - bits), bits));
            assert!((13..=24).any(covers), "{}", Ipv4Addr::from(address));
        }
        let of_24 = table.iter().filter(|(_, bits)| *bits == 24).count();
        assert!((count / 2..count * 7 / 10).contains(&(of_24 as u32)), "{of_24}");
    }

    #[test]
    fn shares_add_up() {
        assert_eq!(LENGTHS.iter().map(|(_, share)| share).sum::<u32>(), 1000);
        assert_eq!([0, 599, 600, 999].map(length), [24, 24, 23, 13]);
    }
}
