mod decoder;
mod judges;
mod parser;

use super::*;
use crate::names::tests::record;
use crate::{RecordSink, Side, Sums};
use decoder::{Decoder, Fields, Message};
use ringside_testkit::{Random, fuzz};
use ringside_wire::{IpProtocol, TunnelId};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const S: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000 * S;

/// Any record with at least one packet.
pub(super) fn any_record(random: &mut Random) -> Record {
    let mut number = |bits: u32| random.next_u64() >> (64 - bits);
    let mut side = |has_packets: bool| {
        if !has_packets {
            return Side::default();
        }
        let packets = 1 + number(20);
        let first_ns = START - number(36);
        Side {
            packets,
            octets: packets * (60 + number(10)),
            ip_octets: packets * (46 + number(10)),
            first_ns,
            last_ns: first_ns + number(35),
            tcp_flags: number(12) as u16,
            tos: number(8) as u8,
            mpls_label: (number(1) == 0).then_some(number(20) as u32),
            ..Side::default()
        }
    };
    let (forward, reverse) = [(true, true), (true, false), (false, true)]
        .map(|(forward, reverse)| (side(forward), side(reverse)))[random.below(3)];
    let protocols = [IpProtocol::TCP, IpProtocol::UDP, IpProtocol::ICMP, IpProtocol::GRE];
    let (from, to): (IpAddr, IpAddr) = match random.below(2) {
        0 => {
            let mut address = || Ipv4Addr::from_bits(random.next_u64() as u32).into();
            (address(), address())
        }
        _ => {
            let mut address = || Ipv6Addr::from_bits(u128::from(random.next_u64()) << 33).into();
            (address(), address())
        }
    };
    Record {
        flow_id: random.next_u64(),
        part: 1,
        end: crate::EndReason::ALL[random.below(5)],
        source: from,
        destination: to,
        source_port: random.next_u64() as u16 & 0xff,
        destination_port: random.next_u64() as u16 & 0xff,
        is_one_way: true,
        is_initiator_known: random.below(2) == 0,
        protocol: protocols[random.below(4)],
        vlan: (random.below(2) == 0).then_some(random.below(4096) as u16),
        tunnel: (random.below(2) == 0).then_some(TunnelId::Vxlan(random.below(1 << 24) as u32)),
        forward,
        reverse,
        ..record()
    }
}

fn number(fields: &Fields, id: u16, is_reverse: bool) -> u64 {
    let bytes = &fields[&(id, is_reverse)];
    bytes.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

/// Packets and IP octets in messages, both directions.
fn sums(messages: &[Message]) -> Sums {
    let mut sums = Sums::default();
    for fields in messages.iter().flat_map(|message| &message.flows) {
        for is_reverse in [false, true] {
            if fields.contains_key(&(2, is_reverse)) {
                let (packets, octets) =
                    (number(fields, 2, is_reverse), number(fields, 1, is_reverse));
                sums += Sums { packets, octets };
            }
        }
    }
    sums
}

/// The messages of records, read again.
fn round_trip(format: Format, records: &[Record], step_ns: u64) -> (Vec<Message>, u64) {
    let mut encoder = Encoder::new(format, Templates::Repeated, 7, Timestamp(START));
    let (mut decoder, mut messages) = (Decoder::default(), Vec::new());
    let mut out = |bytes: &[u8]| {
        assert!(bytes.len() <= MESSAGE_BYTES_MAX, "{}", bytes.len());
        messages.push(decoder.read(bytes));
    };
    let (mut now, mut refused) = (Timestamp(START), 0);
    for record in records {
        now = now.saturating_add(step_ns);
        refused += u64::from(!encoder.put(record, now, &mut out));
    }
    encoder.flush(now, &mut out);
    (messages, refused)
}

#[test]
fn what_is_encoded_is_what_another_reads() {
    let mut random = Random::new(5);
    let records: Vec<Record> = (0..3_000).map(|_| any_record(&mut random)).collect();
    for format in Format::ALL {
        assert_eq!(format.name().parse::<Format>().unwrap(), format);
        let (messages, refused) = round_trip(format, &records, 1_000_000);
        let mut expected = Sums::default();
        let is_said = |r: &&Record| format != Format::Netflow5 || r.source.is_ipv4();
        for record in records.iter().filter(is_said) {
            let octets = record.forward.ip_octets + record.reverse.ip_octets;
            expected += Sums { packets: record.packets(), octets };
        }
        assert_eq!(sums(&messages), expected, "{}", format.name());
        assert_eq!(refused, (records.len() - records.iter().filter(is_said).count()) as u64);
        let mut sequence = 0;
        for message in &messages {
            let version = [5, 9, 10, 10, 10][format as usize];
            assert_eq!((message.version, message.sequence, message.domain), (version, sequence, 7));
            sequence += match format {
                Format::Netflow5 => message.flows.len() as u32,
                Format::Netflow9 => 1,
                _ => (message.flows.len() + message.options.len()) as u32,
            };
        }
    }
}

#[test]
fn every_field_of_a_biflow_is_there() {
    let (messages, _) = round_trip(Format::Ipfix, &[record()], 0);
    let flow = &messages[0].flows[0];
    let both = [(1, 1000, 500), (2, 10, 5), (6, 19, 19), (5, 8, 8), (352, 1140, 570)];
    for (id, forward, reverse) in both {
        assert_eq!((number(flow, id, false), number(flow, id, true)), (forward, reverse), "{id}");
    }
    let times =
        [(152, 1_700_000_000_123, 1_700_000_000_223), (153, 1_700_000_001_623, 1_700_000_001_723)];
    for (id, forward, reverse) in times {
        assert_eq!((number(flow, id, false), number(flow, id, true)), (forward, reverse), "{id}");
    }
    let single = [
        (8, 0x80e8_6e78),
        (12, 0x4223_facc),
        (7, 34_855),
        (11, 80),
        (4, 6),
        (58, 7),
        (10, 4),
        (14, 0),
        (32, 0),
        (70, 77 << 4),
        (136, 3),
        (148, 42),
        (239, 1),
        (351, 0),
    ];
    for (id, value) in single {
        assert_eq!(number(flow, id, false), value, "{id}");
    }
    let options = &messages[0].options[0];
    for (id, value) in [(149, 7), (34, 1), (304, 1), (305, 1), (306, 0)] {
        assert_eq!(number(options, id, false), value, "{id}");
    }
    let (messages, _) = round_trip(Format::IpfixNanoseconds, &[record()], 0);
    let first = number(&messages[0].flows[0], 156, false);
    assert_eq!(first >> 32, 1_700_000_000 + 2_208_988_800);
    assert_eq!(
        ((first & 0xffff_ffff) * S) >> 32,
        123_456_789,
        "a fraction of 2^-32, as a reader cuts it"
    );
}

#[test]
fn a_responder_alone_is_written_as_the_source() {
    let record = Record { forward: Side::default(), ..record() };
    let (messages, _) = round_trip(Format::Ipfix, &[record], 0);
    let flow = &messages[0].flows[0];
    assert_eq!((number(flow, 7, false), number(flow, 11, false)), (80, 34_855));
    assert_eq!((number(flow, 2, false), number(flow, 239, false)), (5, 2));
    assert!(!flow.contains_key(&(2, true)));
}

#[test]
fn uniflows_have_no_element_of_the_other_direction() {
    let (messages, _) = round_trip(Format::IpfixUniflow, &[record()], 0);
    let flows = &messages[0].flows;
    let ends = |fields: &Fields| [7, 11, 2, 148].map(|id| number(fields, id, false));
    let found: Vec<_> = flows.iter().map(ends).collect();
    assert_eq!(found, [[34_855, 80, 10, 42], [80, 34_855, 5, 42]]);
    for fields in flows {
        assert!(fields.keys().all(|&(id, is_reverse)| !is_reverse && id != 239));
    }
    let alone = Record { forward: Side::default(), ..record() };
    let (messages, _) = round_trip(Format::IpfixUniflow, &[alone], 0);
    let found: Vec<_> = messages[0].flows.iter().map(ends).collect();
    assert_eq!(found, [[80, 34_855, 5, 42]]);
}

#[test]
fn netflow_dates_records_by_the_exporters_uptime() {
    for format in [Format::Netflow5, Format::Netflow9] {
        let (messages, _) = round_trip(format, &[record()], 0);
        let message = &messages[0];
        let begun_ms =
            u64::from(message.unix_seconds) * 1_000 - u64::from(message.uptime_ms.unwrap());
        let times = [22, 21].map(|id| begun_ms + number(&message.flows[0], id, false));
        assert_eq!(times, [1_700_000_000_123, 1_700_000_001_623]);
    }
}

#[test]
fn counters_of_32_bits_are_several_records() {
    let mut long = record();
    (long.forward.packets, long.forward.ip_octets) = (10_000_001, 3 * u64::from(u32::MAX) + 5);
    let (messages, _) = round_trip(Format::Netflow5, &[long], 0);
    assert_eq!(messages[0].flows.len(), 5);
    let octets = 3 * u64::from(u32::MAX) + 505;
    assert_eq!(sums(&messages), Sums { packets: 10_000_006, octets });
}

#[test]
fn templates_come_first_and_again_by_time_messages_and_order() {
    for format in [Format::Netflow9, Format::Ipfix, Format::IpfixUniflow] {
        let count = if format == Format::Ipfix { 6 } else { 2 };
        let has = |messages: &[Message]| -> Vec<usize> {
            let with = messages.iter().enumerate().filter(|(_, message)| message.templates > 0);
            with.map(|(at, message)| {
                assert_eq!((message.templates, message.options.len()), (count + 1, 1));
                at
            })
            .collect()
        };
        let many = vec![record(); 1_000];
        let (messages, _) = round_trip(format, &many, 0);
        let expected: Vec<usize> = (0..messages.len()).step_by(20).collect();
        assert!(expected.len() > 1);
        assert_eq!(has(&messages), expected, "every 20 messages");
        let (messages, _) = round_trip(format, &many[..10], 25 * S);
        assert_eq!(has(&messages).len(), 4, "0, 75, 150 and 225 s");

        let (mut messages, mut decoder) = (Vec::new(), Decoder::default());
        let mut out = |bytes: &[u8]| messages.push(decoder.read(bytes));
        let mut encoder = Encoder::new(format, Templates::Repeated, 0, Timestamp(START));
        encoder.put(&record(), Timestamp(START), &mut out);
        encoder.flush(Timestamp(START), &mut out);
        encoder.tick(Timestamp(START + 59 * S), &mut out);
        encoder.tick(Timestamp(START + 60 * S), &mut out);
        encoder.templates_now();
        encoder.put(&record(), Timestamp(START + 61 * S), &mut out);
        encoder.flush(Timestamp(START + 61 * S), &mut out);
        assert_eq!(has(&messages), [0, 1, 2]);
    }
}

#[test]
fn any_records_at_any_time_are_read_again() {
    let seeds: Vec<Vec<u8>> = (0..8).map(|seed| Random::new(seed).bytes(64)).collect();
    fuzz("flow-messages", 300, &seeds, |input| {
        // Each eight bytes are the seed of one record and of the time that passes before it.
        let words: Vec<u64> = input
            .chunks(8)
            .take(200)
            .map(|chunk| chunk.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
            .collect();
        for format in Format::ALL {
            let mut encoder = Encoder::new(
                format,
                Templates::Repeated,
                1,
                Timestamp(words.first().copied().unwrap_or(0)),
            );
            let (mut decoder, mut found, mut given) =
                (Decoder::default(), Sums::default(), Sums::default());
            let mut out = |bytes: &[u8]| {
                assert!(bytes.len() <= MESSAGE_BYTES_MAX);
                found += sums(&[decoder.read(bytes)]);
            };
            for &word in &words {
                let record = any_record(&mut Random::new(word));
                encoder.tick(Timestamp(word), &mut out);
                if encoder.put(&record, Timestamp(word), &mut out) {
                    let octets = record.forward.ip_octets + record.reverse.ip_octets;
                    given += Sums { packets: record.packets(), octets };
                }
            }
            encoder.flush(Timestamp(0), &mut out);
            assert_eq!(found, given);
        }
    });
}

/// Fails from some message on.
struct Broken(usize);

impl MessageSink for Broken {
    fn send(&mut self, _: &[u8], _: crate::sink::RecordSums) -> std::io::Result<()> {
        self.0 = self.0.saturating_sub(1);
        if self.0 == 0 { Err(std::io::Error::other("gone")) } else { Ok(()) }
    }
}

#[test]
fn a_collector_accounts_for_every_record() {
    for format in Format::ALL {
        let mut random = Random::new(9);
        let mut collector = Collector::new(format, 1, Broken(5));
        let mut given = crate::sink::RecordSums::default();
        for at in 0..500 {
            let record = any_record(&mut random);
            given.add(&record);
            collector.put(&record, "", Timestamp(START + at * S / 10));
            collector.tick(Timestamp(START + at * S / 10));
            let counts = collector.counts();
            let mut total = counts.delivered;
            for mut part in [counts.waiting, counts.write_failed, counts.inexpressible] {
                total.take(&mut part);
            }
            assert_eq!(total, given);
        }
        collector.finish(Timestamp(START + 100 * S));
        let counts = collector.counts();
        assert_eq!(counts.waiting.records, 0);
        assert!(counts.delivered.records > 0 && counts.write_failed.records > 0);
        assert!(collector.error().is_some());
    }
}
