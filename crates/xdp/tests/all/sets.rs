//! Address sets in the driver have the addresses that they have in user space.

use ringside_core::LinkType;
use ringside_ebpf::Verdict;
use ringside_filter::Compiler;
use ringside_inspect::DissectedFrame;
use ringside_rules::engine::Engine;
use ringside_rules::engine::Fate;
use ringside_rules::language::{self, RuleSet, Sets};
use ringside_testkit::{Random, need_root};
use ringside_xdp::{DriverRules, Options};
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

fn v4_frame(source: u32, destination: u32) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0];
    frame.extend([0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0]);
    frame.extend(source.to_be_bytes());
    frame.extend(destination.to_be_bytes());
    frame.extend([0, 1, 0, 2, 0, 8, 0, 0]);
    frame
}

fn v6_frame(source: u128, destination: u128) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x86, 0xdd];
    frame.extend([0x60, 0, 0, 0, 0, 8, 17, 64]);
    frame.extend(source.to_be_bytes());
    frame.extend(destination.to_be_bytes());
    frame.extend([0, 1, 0, 2, 0, 8, 0, 0]);
    frame
}

/// Addresses, prefixes and ranges of every width, and addresses at their borders.
fn files(random: &mut Random) -> (String, Vec<u32>, Vec<u128>) {
    let (mut text, mut v4, mut v6) = (String::new(), vec![0, u32::MAX], vec![0, u128::MAX]);
    let wide =
        |random: &mut Random| u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
    for at in 0..2000 {
        // Most are narrow, so that most of the space stays free.
        let width = if at % 200 == 0 { 6 } else { 14 + random.below(19) as u32 };
        let first = random.next_u64() as u32;
        let last = first.saturating_add((random.next_u64() as u32).checked_shr(width).unwrap_or(0));
        let _ = writeln!(text, "{}-{}", Ipv4Addr::from_bits(first), Ipv4Addr::from_bits(last));
        v4.extend([first, last, first.wrapping_sub(1), last.wrapping_add(1), first ^ 0x1234]);
        let width = if at % 200 == 0 { 6 } else { 14 + random.below(115) as u32 };
        let first = wide(random);
        let last = first.saturating_add(wide(random).checked_shr(width).unwrap_or(0));
        let _ = writeln!(text, "{}-{}", Ipv6Addr::from_bits(first), Ipv6Addr::from_bits(last));
        v6.extend([first, last, first.wrapping_sub(1), last.wrapping_add(1)]);
        v6.push(first.wrapping_add(1 << 64));
    }
    (text, v4, v6)
}

fn load(text: &str, folder: &std::path::Path) -> RuleSet {
    language::parse(text.as_bytes(), &mut Sets::in_folder(folder)).unwrap()
}

#[test]
fn addresses_at_the_borders_of_a_set() {
    if !need_root("address sets in XDP") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let (text, mut v4, mut v6) = files(&mut random);
        std::fs::write(folder.path().join("some"), text).unwrap();
        std::fs::write(folder.path().join("few"), "10.0.0.0/8\n2001:db8::/32\n").unwrap();
        let set = load(
            "1: src ip @some not dst ip @few => drop
             2: ip @few not src ip @some => count
             3: dst ip @some,192.0.2.0/24 => drop
             default pass",
            folder.path(),
        );
        v4.extend((0..2000).map(|_| random.next_u64() as u32));
        v4.extend([0x0a00_0001, 0xc000_0201]);
        v6.extend([0x2001_0db8 << 96, (0x2001_0db8 << 96) + 5]);
        let driver = DriverRules::unattached(set.clone(), &Options::default()).unwrap();
        let compiler = Compiler::InProcess { optimise: true };
        let mut engine = Engine::new(set, LinkType::ETHERNET, &compiler).unwrap();
        let mut dropped = 0u32;
        for round in 0..20_000 {
            let frame = match round % 2 {
                0 => v4_frame(v4[random.below(v4.len())], v4[random.below(v4.len())]),
                _ => v6_frame(v6[random.below(v6.len())], v6[random.below(v6.len())]),
            };
            let dissected = DissectedFrame::new(&frame, frame.len() as u32, LinkType::ETHERNET);
            let is_dropped =
                engine.judge(&dissected).fate == Fate::Verdict(language::Verdict::Drop);
            let verdict = driver.test_run(&frame).unwrap().verdict;
            assert_eq!(verdict == Verdict::Drop, is_dropped, "{seed}: {frame:02x?}");
            dropped += u32::from(is_dropped);
        }
        assert!((3_000..19_000).contains(&dropped), "{dropped}");
        for ((rule, counts, _), (_, expected)) in driver.rules().zip(engine.counts()) {
            assert_eq!(counts, expected, "{rule}");
        }
    }
}

/// A set that is new has no room in tables that were made before: larger ones take their place, and
/// what was counted stays.
#[test]
fn a_rule_with_a_new_set_comes_to_new_tables() {
    if !need_root("a new address set in XDP") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("late"), "203.0.113.0/24\n").unwrap();
    let set = load("1: src ip 192.0.2.1 => drop", folder.path());
    let mut driver = DriverRules::unattached(set, &Options::default()).unwrap();
    let [early, late] = [0xc000_0201, 0xcb00_7105].map(|source| v4_frame(source, 1));
    assert_eq!(driver.test_run(&early).unwrap().verdict, Verdict::Drop);
    assert_eq!(driver.test_run(&late).unwrap().verdict, Verdict::Pass);
    let rule = load("2: src ip @late => drop", folder.path()).rules.remove(0);
    driver.add(rule).unwrap();
    assert_eq!(driver.test_run(&early).unwrap().verdict, Verdict::Drop);
    assert_eq!(driver.test_run(&late).unwrap().verdict, Verdict::Drop);
    let frames: Vec<u64> = driver.rules().map(|(_, counts, _)| counts.frames).collect();
    assert_eq!((frames, driver.totals().seen()), (vec![2, 1], 4));
}
