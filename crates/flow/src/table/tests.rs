mod counted;

use super::*;
use crate::key::Around;
use crate::{Segment, Side};
use ringside_core::InterfaceId;
use ringside_testkit::Random;
use ringside_wire::IpProtocol;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

const S: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000 * S;

fn limits() -> Limits {
    Limits { memory_bytes: Limits::MEMORY_BYTES_MIN, ..Limits::default() }
}

fn table() -> FlowTable {
    FlowTable::new(limits()).unwrap()
}

/// A packet between two hosts, `from` and `to`, with ports of their numbers, at START and so much.
fn packet(protocol: IpProtocol, from: u32, to: u32, at_ns: u64) -> Packet {
    let end = |host: u32| (IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + host)), host as u16);
    let around = Around { protocol, vlan: None, tunnel: None, interface: InterfaceId(0) };
    let (key, from_high) = Key::new(end(from), end(to), &around, false);
    Packet {
        key,
        from_high,
        is_question: false,
        stamp: Timestamp(START + at_ns),
        wire_bytes: 114,
        ip_bytes: 100,
        tos: 0,
        mpls_label: None,
        segment: None,
    }
}

fn udp(from: u32, to: u32, at_ns: u64) -> Packet {
    packet(IpProtocol::UDP, from, to, at_ns)
}

fn tcp(from: u32, to: u32, at_ns: u64, flags: u16, sequence: u32, payload_bytes: u32) -> Packet {
    let segment = Some(Segment { sequence, flags, window: 100, payload_bytes });
    Packet { segment, ..packet(IpProtocol::TCP, from, to, at_ns) }
}

/// Adds packets, with the ticks that a pump gives before each, and ends.
fn run(table: &mut FlowTable, packets: &[Packet], ends: bool) -> Vec<Record> {
    let mut records = Vec::new();
    let mut out = |record| records.push(record);
    let mut ticked = 0;
    for packet in packets {
        let tick = packet.stamp.0 / 100_000_000 * 100_000_000;
        if tick > ticked {
            ticked = tick;
            table.advance(Timestamp(tick), &mut out);
        }
        table.add(packet, &|| None, &mut out);
    }
    if ends {
        table.flush(&mut out);
    }
    assert!(table.ledger().balances(table.held()));
    records
}

fn ends(records: &[Record]) -> Vec<(EndReason, u64, u64)> {
    records.iter().map(|r| (r.end, r.forward.packets, r.reverse.packets)).collect()
}

#[test]
fn both_directions_are_one_flow_that_ends_when_it_is_idle() {
    let packets =
        [udp(9, 2, 0), udp(2, 9, S / 2), udp(9, 2, S), udp(1, 3, 15 * S), udp(9, 2, 16 * S)];
    let records = run(&mut table(), &packets, true);
    assert_eq!(
        ends(&records),
        [(EndReason::Idle, 2, 1), (EndReason::Forced, 1, 0), (EndReason::Forced, 1, 0)]
    );
    let first = &records[0];
    assert_eq!(first.source, IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9)), "whoever began");
    assert_eq!((first.source_port, first.destination_port), (9, 2));
    let forward = Side {
        packets: 2,
        octets: 228,
        ip_octets: 200,
        first_ns: START,
        last_ns: START + S,
        ..Side::default()
    };
    assert_eq!(first.forward, forward);
    assert_eq!((first.reverse.first_ns, first.reverse.last_ns), (START + S / 2, START + S / 2));
    let flow_ids: BTreeSet<u64> = records.iter().map(|r| r.flow_id).collect();
    assert_eq!(flow_ids.len(), 3);
}

#[test]
fn a_flow_that_goes_on_has_a_record_a_minute_of_one_id_and_side() {
    let packets: Vec<Packet> = (0..150).map(|second| udp(2, 1, second * S)).collect();
    let records = run(&mut table(), &packets, true);
    assert_eq!(
        ends(&records),
        [(EndReason::Active, 60, 0), (EndReason::Active, 60, 0), (EndReason::Forced, 30, 0)]
    );
    assert!(records.iter().all(|r| r.flow_id == 1 && r.source_port == 2));
    assert_eq!(records[1].first_ns(), START + 60 * S);
}

#[test]
fn what_is_due_first_is_done_first_though_nobody_looked() {
    let mut table = table();
    let mut records = Vec::new();
    for at in (0..60).step_by(10) {
        table.add(&udp(1, 2, at * S), &|| None, &mut |r| records.push(r));
    }
    // Active at 60 s, idle at 65 s: one record, and a packet at 70 s begins another flow.
    table.add(&udp(1, 2, 70 * S), &|| None, &mut |r| records.push(r));
    table.flush(&mut |r| records.push(r));
    assert_eq!(ends(&records), [(EndReason::Active, 6, 0), (EndReason::Forced, 1, 0)]);
    assert_ne!(records[0].flow_id, records[1].flow_id);
}

#[test]
fn tcp_ends_with_both_fins_or_a_reset_and_a_syn_begins_anew() {
    let (syn, ack, fin, rst) = (Tcp::SYN, Tcp::ACK, Tcp::FIN, Tcp::RST);
    let ms = 1_000_000;
    let packets = [
        tcp(5, 1, 0, syn, 100, 0),
        tcp(1, 5, 20 * ms, syn | ack, 500, 0),
        tcp(5, 1, 25 * ms, ack, 101, 0),
        tcp(5, 1, 30 * ms, ack | fin, 101, 10),
        tcp(1, 5, 40 * ms, ack | fin, 501, 0),
        tcp(5, 1, 50 * ms, ack, 112, 0),
        tcp(5, 1, 60 * ms, syn, 9_000, 0),
        tcp(1, 5, 70 * ms, rst | ack, 0, 0),
        udp(8, 9, 3 * S),
    ];
    let records = run(&mut table(), &packets, false);
    assert_eq!(ends(&records), [(EndReason::End, 4, 2), (EndReason::End, 1, 1)]);
    let first = &records[0];
    assert!(first.is_initiator_known);
    assert_eq!(first.rtt_responder_ns, Some(20_000_000));
    assert_eq!(first.rtt_initiator_ns, Some(5_000_000));
    assert_eq!(first.forward.tcp_flags, syn | ack | fin);
    assert_eq!(records[1].reverse.tcp_flags, rst | ack);
    assert_eq!((records[1].rtt_responder_ns, records[1].rtt_initiator_ns), (None, None));
}

#[test]
fn whoever_answers_first_is_not_taken_for_the_initiator() {
    let records = run(&mut table(), &[tcp(7, 3, 0, Tcp::SYN | Tcp::ACK, 1, 0)], true);
    assert_eq!((records[0].source_port, records[0].destination_port), (3, 7));
    assert_eq!((records[0].forward.packets, records[0].reverse.packets), (0, 1));
}

#[test]
fn segments_that_come_again_late_or_without_room_are_counted() {
    let ack = Tcp::ACK;
    let at = |sequence: u32, bytes: u32| tcp(1, 2, 0, ack, sequence, bytes);
    let start = u32::MAX - 50;
    let from = |bytes: u32| start.wrapping_add(bytes);
    let mut no_room = at(from(500), 0);
    no_room.segment.as_mut().unwrap().window = 0;
    let packets = [
        at(from(0), 100),   // crosses the end of sequence numbers
        at(from(200), 100), // behind a gap
        at(from(100), 100), // which this fills
        at(from(100), 100), // again
        at(from(299), 1),   // keeps alive
        at(from(250), 100), // half of it again
        at(from(350), 150),
        no_room,
    ];
    let side = run(&mut table(), &packets, true)[0].forward;
    assert_eq!((side.out_of_order, side.retransmissions, side.zero_windows), (1, 2, 1));
}

#[test]
fn a_full_table_gives_up_one_flow_for_each_that_comes() {
    let mut table = table();
    let (most, reserved) = (table.flows_max(), table.rest.capacity());
    let mut records = Vec::new();
    for host in 0..3 * most as u32 {
        table.add(&udp(host, 0xff_0000, u64::from(host) * 1_000), &|| None, &mut |r| {
            records.push(r);
        });
        assert!(table.flows() <= most);
        if host % 1_000 == 0 {
            assert!(table.ledger().balances(table.held()), "at any time");
        }
    }
    assert_eq!((records.len(), table.rest.capacity()), (2 * most, reserved));
    assert!(records.iter().all(|record| record.end == EndReason::LackOfResources));
    assert_eq!(table.ledger().records[EndReason::LackOfResources.index()], 2 * most as u64);
    table.flush(&mut |r| records.push(r));
    assert_eq!(records.len(), 3 * most);
    assert_eq!((table.flows(), table.held()), (0, Sums::default()));
}

#[test]
fn it_keeps_to_its_memory() {
    for memory_bytes in [2 << 20, 5_000_000, 64 << 20, Limits::MEMORY_BYTES] {
        let table = FlowTable::new(Limits { memory_bytes, ..limits() }).unwrap();
        let flows = RecentTable::<Key, Flow>::bytes(table.flows_max());
        let elsewhere = table.rest.capacity() * size_of::<Rest>() + table.flows_max() * Dues::BYTES;
        let taken = flows + elsewhere + PacketReader::BYTES;
        assert!(taken <= memory_bytes && taken > memory_bytes / 2, "{taken} of {memory_bytes}");
    }
    let table = FlowTable::new(Limits::default()).unwrap();
    assert!(table.flows_max() >= 1_000_000, "{}", table.flows_max());
    assert!(FlowTable::new(Limits { memory_bytes: 1 << 20, ..limits() }).is_err());
    assert!(FlowTable::new(Limits { idle: Duration::ZERO, ..limits() }).is_err());
    assert!(FlowTable::new(Limits { active: Duration::from_secs(1 << 40), ..limits() }).is_err());
}

/// Some thousand packets of few hosts, TCP and UDP, with clocks that go back and stamps that lack.
fn random_packets(random: &mut Random, count: usize, is_sane: bool) -> Vec<Packet> {
    let mut now = 0;
    let packet = |_| {
        now += random.below(200_000_000) as u64;
        let (from, to) = (random.below(60) as u32, 60 + random.below(60) as u32);
        let (from, to) = if random.below(2) == 0 { (from, to) } else { (to, from) };
        let flags = [Tcp::ACK, Tcp::ACK, Tcp::SYN, Tcp::FIN | Tcp::ACK, Tcp::RST][random.below(5)];
        let bytes = random.below(3) as u32 * 700;
        let mut packet = match random.below(2) {
            0 => udp(from, to, now),
            _ => tcp(from, to, now, flags, random.next_u64() as u32 & 0xfff, bytes),
        };
        packet.wire_bytes = 60 + bytes;
        if !is_sane {
            match random.below(400) {
                0 => now = now.saturating_sub(4_000 * S),
                1 => now += 100_000 * S,
                2 => packet.stamp = Timestamp(0),
                3 => packet.stamp = Timestamp(u64::MAX),
                _ => {}
            }
        }
        packet
    };
    (0..count).map(packet).collect()
}

/// Packets and octets of each direction: independent of the table, by a map.
fn by_direction<'p>(packets: impl Iterator<Item = &'p Packet>) -> BTreeMap<(u16, u16, u8), Sums> {
    let mut sums = BTreeMap::new();
    for packet in packets {
        let (low, high) = (packet.key.low().1, packet.key.high().1);
        let ends = if packet.from_high { (high, low) } else { (low, high) };
        *sums.entry((ends.0, ends.1, packet.key.protocol().0)).or_insert(Sums::default()) +=
            Sums::one(packet.wire_bytes);
    }
    sums
}

#[test]
fn every_packet_and_octet_is_in_one_record_whatever_clocks_do() {
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let packets = random_packets(&mut random, 20_000, seed < 2);
        let mut table = table();
        let mut records = Vec::new();
        for (number, packet) in packets.iter().enumerate() {
            table.add(packet, &|| None, &mut |r| records.push(r));
            if random.below(20) == 0 {
                table.advance(packet.stamp, &mut |r| records.push(r));
            }
            if number % 997 == 0 {
                assert!(table.ledger().balances(table.held()), "seed {seed}");
            }
        }
        table.flush(&mut |r| records.push(r));
        assert!(table.ledger().balances(Sums::default()), "seed {seed}");
        assert_eq!(table.ledger().clock_steps > 0, seed >= 2);
        let mut found = BTreeMap::new();
        for record in &records {
            assert!(record.packets() > 0, "no empty records");
            let ways = [
                (record.source_port, record.destination_port, record.forward),
                (record.destination_port, record.source_port, record.reverse),
            ];
            for (from, to, side) in ways.into_iter().filter(|way| way.2.packets > 0) {
                assert!(side.first_ns <= side.last_ns);
                let key = (from, to, record.protocol.0);
                *found.entry(key).or_insert(Sums::default()) +=
                    Sums { packets: side.packets, octets: side.octets };
            }
        }
        assert_eq!(found, by_direction(packets.iter()), "seed {seed}");
    }
}

#[test]
fn ticks_between_packets_change_nothing() {
    let packets = random_packets(&mut Random::new(11), 5_000, true);
    let seldom = run(&mut table(), &packets, true);
    let mut often = Vec::new();
    let mut table = table();
    for packet in &packets {
        // What a quiet live stream promises, up to this packet.
        for behind in (1..30).rev() {
            let low_water = Timestamp(packet.stamp.0 - behind * 7_000_000);
            table.advance(low_water, &mut |r| often.push(r));
        }
        table.add(packet, &|| None, &mut |r| often.push(r));
    }
    table.flush(&mut |r| often.push(r));
    assert_eq!(often, seldom);
}
