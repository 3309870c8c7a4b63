//! Rules and addresses by the hundred thousand, always the same ones.

use super::super::flood;
use super::super::load::GENERATED_ADDRESS;
use std::fmt::Write;
use std::net::Ipv4Addr;

/// Documentation addresses (RFC 5737) and what follows them: no sender here has one.
const FIRST_HOST: u32 = 0xc000_0201;
/// The sources of generated frames, 10.16.0.0 and those behind it.
const FIRST_SOURCE: u32 = 0x0a10_0000;
/// Exact rules are for conversations from here, which do not take place.
const FIRST_EXACT: u32 = 0x6400_0000;
/// Prefix lengths, and ports of both kinds, of wildcard rules.
const LENGTHS: [u32; 12] = [8, 12, 16, 18, 20, 21, 22, 24, 26, 28, 30, 32];
const PORTS: [&str; 5] = ["80", "443", "1024-", "5060-5090", "53,123"];

/// Numbers without an order (splitmix64).
fn scattered(number: u32) -> u64 {
    let mut value = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Rules that drop, of which none is for a generated frame: about TCP alone the wildcards, between
/// prefixes and to ports; the exact ones for one conversation each.
pub(in super::super) fn rules(wildcards: u32, exact: u32) -> String {
    let mut text = String::new();
    for number in 0..wildcards {
        let dice = scattered(number);
        let side = |name: &str, dice: u64| {
            let length = LENGTHS[(dice % LENGTHS.len() as u64) as usize];
            let address = (dice >> 16) as u32 & u32::MAX << (32 - length);
            format!("{name} ip {}/{length} ", Ipv4Addr::from_bits(address))
        };
        text.push_str(&side("src", dice));
        text.push_str(&side("dst", scattered(!number)));
        let port = PORTS[(dice >> 56) as usize % PORTS.len()];
        let _ = writeln!(text, "tcp dst port {port} => drop");
    }
    for number in 0..exact {
        let (source, port) = (Ipv4Addr::from_bits(FIRST_EXACT + number), 1024 + number % 60_000);
        let _ = writeln!(
            text,
            "src ip {source} dst ip 10.9.8.7 udp src port {port} dst port 53 => drop"
        );
    }
    text
}

/// Source addresses, those of the flood among them, with `between` between them. The others lie as
/// far apart as the flood's do not.
pub(in super::super) fn addresses(count: u32, between: &str) -> String {
    let others = (flood::SOURCES..count).map(|number| FIRST_EXACT + 257 * number);
    let all = sources().take(count as usize).chain(others.map(Ipv4Addr::from_bits));
    all.map(|address| address.to_string()).collect::<Vec<String>>().join(between)
}

/// The sources of the flood.
pub(in super::super) fn sources() -> impl Iterator<Item = Ipv4Addr> {
    (0..flood::SOURCES).map(|number| Ipv4Addr::from_bits(FIRST_SOURCE + number))
}

/// Addresses of which only the last is that of generated frames.
pub(in super::super) fn hosts(count: u32) -> Vec<String> {
    let others = (1..count).map(|number| Ipv4Addr::from_bits(FIRST_HOST + number).to_string());
    others.chain([GENERATED_ADDRESS.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_rules::language::{self, Sets};
    use std::collections::HashSet;

    #[test]
    fn the_rules_are_rules() {
        let set = language::parse(rules(1000, 1000).as_bytes(), &mut Sets::none()).unwrap();
        assert_eq!(set.rules.len(), 2000);
    }

    #[test]
    fn the_addresses_differ_and_the_flood_is_among_them() {
        let text = addresses(100_000, "\n");
        let addresses: HashSet<&str> = text.lines().collect();
        assert_eq!(addresses.len(), 100_000);
        assert!(addresses.contains("10.16.0.0") && addresses.contains("10.16.39.15"));
        assert!(!addresses.contains("10.16.39.16"));
    }

    #[test]
    fn the_last_host_is_the_one() {
        assert_eq!(hosts(3), ["192.0.2.2", "192.0.2.3", "198.18.0.1"]);
        assert_eq!(hosts(1), ["198.18.0.1"]);
        assert_eq!(hosts(1000).iter().collect::<HashSet<_>>().len(), 1000);
    }
}
