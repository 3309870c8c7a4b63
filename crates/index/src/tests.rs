//! What a program accepts is never passed by: every frame is a part of its own here, and each that
//! libpcap's program accepts must be reached by its plan.

mod files;
mod fuzz;
mod growing;
mod roundtrip;

use crate::fields::{Captured, fields};
use crate::key::{Condition, Key};
use crate::lookup::accepted;
use crate::plan::Plan;
use crate::segment::{PARTS_MAX, PartSet};
use ringside_core::{LinkType, Source};
use ringside_filter::{Compiler, Prepared, compile};
use ringside_store::FileSource;
use ringside_testkit::{Random, by_run, capture_files};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// Frames, each with its keys; none if it was cut within a field.
struct Frames {
    link: LinkType,
    frames: Vec<(Vec<u8>, u32, Option<Vec<Key>>)>,
}

fn keys(bytes: &[u8], link: LinkType) -> Option<Vec<Key>> {
    let (frame, mut keys, mut is_cut) = (Captured(bytes), Vec::new(), false);
    fields(link, &frame, &mut |field| match frame.value(&field) {
        Ok(value) => keys.extend(value.map(|value| Key { kind: field.kind, value })),
        Err(_) => is_cut = true,
    });
    (!is_cut).then_some(keys)
}

/// Real frames by link type, some of them cut or changed at random, in pieces of a segment.
fn frames(random: &mut Random) -> Vec<Frames> {
    let mut by_link: BTreeMap<LinkType, Vec<_>> = BTreeMap::new();
    for path in capture_files("index::tests") {
        let Ok(mut source) = FileSource::open(&path) else { continue };
        let mut left = by_run(150_usize, 2_000);
        while let Ok(Some(batch)) = source.next_batch(Duration::MAX) {
            for frame in batch.iter().take(left) {
                let link = batch.interface_of(&frame.meta).unwrap().link_type;
                let mut bytes = frame.bytes.to_vec();
                change(&mut bytes, random);
                let keys = keys(&bytes, link);
                by_link.entry(link).or_default().push((bytes, frame.meta.wire_bytes, keys));
            }
            left = left.saturating_sub(batch.frame_count());
        }
    }
    let pieces = |(link, mut frames): (LinkType, Vec<_>)| {
        let mut pieces = Vec::new();
        while !frames.is_empty() {
            let rest = frames.split_off(frames.len().min(PARTS_MAX));
            pieces.push(Frames { link, frames: std::mem::replace(&mut frames, rest) });
        }
        pieces
    };
    by_link.into_iter().flat_map(pieces).collect()
}

fn change(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() || random.below(4) > 0 {
        return;
    }
    match random.below(3) {
        0 => bytes.truncate(random.below(bytes.len())),
        _ => {
            let head = bytes.len().min(64);
            bytes[random.below(head)] = random.next_u64() as u8;
        }
    }
}

/// An expression of one to four terms, most of them of what some frame has.
fn expression(frames: &Frames, random: &mut Random) -> String {
    let terms = 1 + random.below(4);
    let mut text = term(frames, random);
    for _ in 1..terms {
        let not = if random.below(5) == 0 { "not " } else { "" };
        let joint = ["and", "or"][random.below(2)];
        text = format!("{text} {joint} {not}{}", term(frames, random));
        if random.below(3) == 0 {
            text = format!("({text})");
        }
    }
    text
}

fn term(frames: &Frames, random: &mut Random) -> String {
    let (bytes, ..) = &frames.frames[random.below(frames.frames.len())];
    let at = |offset: usize| bytes.get(offset).copied().unwrap_or(7);
    let network = [14, 16, 18, 0][random.below(4)];
    let v4 = Ipv4Addr::from([12, 13, 14, 15].map(|offset| at(network + offset)));
    let v6 = Ipv6Addr::from(std::array::from_fn::<u8, 16, _>(|offset| at(network + 8 + offset)));
    let port = u16::from_be_bytes([at(network + 22), at(network + 23)]);
    let mac = [6, 7, 8, 9, 10, 11].map(|offset| format!("{:02x}", at(offset))).join(":");
    let side = ["", "src ", "dst "][random.below(3)];
    let bits = 1 + random.below(32);
    let net = Ipv4Addr::from_bits(v4.to_bits() & u32::MAX << (32 - bits));
    let net6 = Ipv6Addr::from_bits(v6.to_bits() & u128::MAX << (128 - bits));
    match random.below(22) {
        0..3 => format!("{side}host {v4}"),
        3 => format!("{side}host {v6}"),
        4..6 => format!("{side}net {net}/{bits}"),
        6 => format!("{side}net {net6}/{bits}"),
        7..10 => format!("{side}port {port}"),
        10 => format!("{side}portrange {}-{port}", port.saturating_sub(random.below(999) as u16)),
        11 => format!("tcp {side}port {port}"),
        12 => format!("ether {side}host {mac}"),
        13 => ["tcp", "udp", "icmp", "icmp6", "arp", "ip", "ip6", "sctp"][random.below(8)].into(),
        14 => format!("ip proto {}", at(network + 9)),
        15 => ["vlan", "mpls", "pppoes", "ether multicast", "stp"][random.below(5)].into(),
        16 => format!("vlan {} and port {port}", at(network + 1)),
        17 => format!("vlan and vlan and host {v4}"),
        18 => format!("mpls {} and host {v4}", at(network + 1)),
        19 => format!("ip[{}] = {}", random.below(24), random.below(256)),
        20 => format!("tcp[13] & {} != 0", 1 << random.below(6)),
        _ => format!("{} {}", ["less", "greater"][random.below(2)], random.below(1500)),
    }
}

#[test]
fn a_plan_reaches_every_frame_that_its_program_accepts() {
    let mut random = Random::new(ringside_testkit::number("RINGSIDE_SEED").unwrap_or(27));
    let all = frames(&mut random);
    let (mut tried, mut pruned, mut rejected) = (0_u64, 0_u64, 0_u64);
    for frames in &all {
        for round in 0..by_run(100, 2_000) {
            let text = expression(frames, &mut random);
            let compiler = Compiler::InProcess { optimise: round % 4 > 0 };
            let Ok(compiled) = compile(&text, frames.link, 0, &compiler) else { continue };
            let Some(plan) = Plan::new(&compiled.program, frames.link) else { continue };
            let filter = Prepared::new(&compiled.program).unwrap();
            let reached = reached(&plan, frames);
            for (number, (bytes, wire_bytes, keys)) in frames.frames.iter().enumerate() {
                let is_accepted = filter.accepts(bytes, *wire_bytes);
                let may_be_there = keys.is_none() || reached.holds(number);
                assert!(may_be_there || !is_accepted, "{text}: {:?}: {bytes:x?}", frames.link);
                rejected += u64::from(!is_accepted);
                pruned += u64::from(!may_be_there);
                tried += 1;
            }
        }
    }
    eprintln!(
        "index: {tried} frames and expressions, {rejected} rejected, {pruned} of them pruned"
    );
    // Each frame alone is the best case: what is not pruned is what no field tells.
    assert!(all.is_empty() || pruned * 10 > rejected * 7, "{pruned} of {rejected}");
}

fn reached(plan: &Plan, frames: &Frames) -> PartSet {
    let conditions = plan.conditions.iter();
    let parts: Vec<_> = conditions
        .map(|condition| {
            let mut set = PartSet::NONE;
            for (number, (.., keys)) in frames.frames.iter().enumerate() {
                let is_meant = |key: &Key| key.kind == condition.kind && condition.holds(key.value);
                if keys.iter().flatten().any(is_meant) {
                    set.add(number);
                }
            }
            set
        })
        .collect();
    accepted(plan, &parts)
}

#[test]
fn what_is_asked_of_one_field_is_pruned_exactly() {
    let plan = |text: &str| {
        let compiler = Compiler::InProcess { optimise: true };
        let program = compile(text, LinkType::ETHERNET, 0, &compiler).unwrap().program;
        Plan::new(&program, LinkType::ETHERNET)
    };
    for (text, conditions) in [
        ("host 10.0.0.1", 4),
        ("src host 10.0.0.1", 2),
        ("ip6 src host 2001:db8::1", 1),
        ("net 10.0.0.0/8", 3),
        ("tcp port 80", 2),
        ("udp portrange 5000-6000", 2),
        ("ether host 02:00:00:00:00:01", 1),
        ("vlan 7", 2),
        ("mpls 100", 2),
    ] {
        let plan = plan(text).unwrap_or_else(|| panic!("{text}"));
        assert!(plan.conditions.len() >= conditions, "{text}: {:?}", plan.conditions);
    }
    // Of a segment one group is read for these, not all from the value on.
    for text in ["host 10.0.0.1", "src host 10.0.0.1", "tcp port 80", "vlan 7"] {
        let conditions = plan(text).unwrap().conditions;
        let is_one = |condition: &Condition| condition.bounds().0 == condition.bounds().1;
        assert!(conditions.iter().all(is_one), "{text}: {conditions:?}");
    }
    for text in ["less 100", "greater 100", "ether[0:2] = 7 or len > 3", "ip protochain 6"] {
        let known = plan(text).map(|plan| plan.conditions);
        // The EtherType may be asked for; nothing else can.
        let is_narrow = known.iter().flatten().any(|c| c.kind != crate::Kind::EtherType);
        assert!(!is_narrow || text.starts_with("ether["), "{text}: {known:?}");
    }
}
