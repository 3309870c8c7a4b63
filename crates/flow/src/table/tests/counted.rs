//! Packets that come added up give the records that they give one by one.

use super::*;
use crate::{Counted, Names};
use ringside_record::{Row, object};

/// Adds packets of one direction up.
fn together(packets: &[Packet]) -> Counted {
    let mut all = Counted::one(&packets[0]);
    for packet in &packets[1..] {
        let one = Counted::one(packet);
        assert_eq!((one.key, one.from_high), (all.key, all.from_high));
        all.packets += 1;
        all.octets += one.octets;
        all.ip_octets += one.ip_octets;
        all.last = one.last;
        all.tcp_flags |= one.tcp_flags;
    }
    all
}

/// What records say, without what only a look at each segment tells.
fn known(records: &[Record]) -> Vec<Record> {
    let mut known: Vec<_> = records
        .iter()
        .map(|record| Record { is_followed: true, flow_id: 0, ..record.clone() })
        .collect();
    known.sort_by_key(|record| (record.first_ns(), record.source));
    known
}

#[test]
fn packets_that_come_added_up_make_the_same_records() {
    let mut random = Random::new(7);
    for _ in 0..200 {
        let mut packets = Vec::new();
        let mut at = 0;
        while packets.len() < 100 {
            let (from, to) = (random.below(3) as u32, 7 + random.below(2) as u32);
            let is_back = random.below(2) == 0;
            let one = if is_back { udp(to, from, at) } else { udp(from, to, at) };
            let count = 1 + random.below(4) as u64;
            packets.push(
                (0..count)
                    .map(|more| Packet { stamp: Timestamp(one.stamp.0 + more), ..one })
                    .collect::<Vec<_>>(),
            );
            at += [S / 100, S, 20 * S][random.below(3)];
        }
        let single: Vec<Packet> = packets.concat();
        let expected = run(&mut table(), &single, true);
        let (mut table, mut found) = (table(), Vec::new());
        let mut out = |record| found.push(record);
        for packets in &packets {
            table.add_counted(&together(packets), &mut out);
        }
        table.flush(&mut out);
        assert!(table.ledger().balances(table.held()));
        assert!(found.iter().all(|record| !record.is_followed));
        assert_eq!(known(&found), known(&expected));
    }
}

#[test]
fn a_connection_ends_by_flags_and_what_needs_segments_is_absent() {
    let mut table = table();
    let mut records = Vec::new();
    let both = |first_flags, tcp_flags, from, to, at| Counted {
        packets: 5,
        tcp_flags,
        first_flags,
        ..Counted::one(&tcp(from, to, at, first_flags, 0, 0))
    };
    let (syn, ack, fin) = (Tcp::SYN, Tcp::ACK, Tcp::FIN);
    table.add_counted(&both(syn, syn | ack | fin, 1, 2, 0), &mut |r| records.push(r));
    table.add_counted(&both(syn | ack, syn | ack | fin, 2, 1, 1), &mut |r| records.push(r));
    assert!(records.is_empty());
    // A new one between the same ports, before the first is forgotten.
    table.add_counted(&both(syn, syn | ack, 1, 2, 2), &mut |r| records.push(r));
    assert_eq!(ends(&records), [(EndReason::End, 5, 5)]);
    assert!(records[0].is_initiator_known && !records[0].is_followed);
    assert_eq!((records[0].rtt_responder_ns, records[0].rtt_initiator_ns), (None, None));
    let row = Row { record: &records[0], interface: "eth1" };
    let line = object(Names::Ringside, &row);
    assert!(line.get("packets").is_some() && line.get("retransmissions").is_none(), "{line}");
    table.add_counted(&both(ack, Tcp::RST, 2, 1, 3), &mut |r| records.push(r));
    table.advance(Timestamp(START + 2 * S), &mut |r| records.push(r));
    assert_eq!(records.last().unwrap().end, EndReason::End);
}

#[test]
fn timeouts_change_while_flows_go_on() {
    let mut table = table();
    let mut records = Vec::new();
    assert!(table.set_timeouts(Duration::ZERO, S60).is_err());
    table.add(&udp(1, 2, 0), &|| None, &mut |r| records.push(r));
    table.set_timeouts(Duration::from_secs(3), S60).unwrap();
    // Due by the time-out of before; the next flow by that of now.
    table.add(&udp(3, 4, 15 * S + S / 2), &|| None, &mut |r| records.push(r));
    table.advance(Timestamp(START + 16 * S), &mut |r| records.push(r));
    table.advance(Timestamp(START + 19 * S), &mut |r| records.push(r));
    assert_eq!(ends(&records), [(EndReason::Idle, 1, 0), (EndReason::Idle, 1, 0)]);
}

const S60: Duration = Duration::from_secs(60);
