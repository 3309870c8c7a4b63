//! What `netflow_parser` reads in our messages: each value of each record, under its own names.

use super::*;
use netflow_parser::static_versions::v5::FlowSet;
use netflow_parser::variable_versions::{ipfix, v9};
use netflow_parser::{FieldValue, IpfixField, NetflowPacket, NetflowParser, V9Field};

/// Values by the parser's name of their field.
type Values = BTreeMap<String, u128>;

const HOUR_MS: u64 = 3_600_000;

/// A record at the edges of what its fields hold.
fn edge_record(random: &mut Random, format: Format) -> Record {
    let mut record = any_record(random);
    // In NetFlow v5 what has more than 32 bits is several records: those of 40 are some hundreds.
    let counts = match format {
        Format::Netflow5 => [1, u32::MAX.into(), u64::from(u32::MAX) + 1, 1 << 40],
        _ => [1, u32::MAX.into(), u64::MAX - 1, u64::MAX],
    };
    let stamps = [0, 1, S - 1, START, 0xffff_ffff * S, u64::MAX];
    let mut pick = |values: &[u64]| values[random.below(values.len())];
    for side in [&mut record.forward, &mut record.reverse] {
        if side.packets == 0 {
            continue;
        }
        (side.packets, side.octets, side.ip_octets) = (pick(&counts), pick(&counts), pick(&counts));
        (side.first_ns, side.last_ns) = (pick(&stamps), pick(&stamps));
        (side.tcp_flags, side.tos) = (pick(&[0, 0xff, 0xfff]) as u16, pick(&[0, 0xff]) as u8);
    }
    let ports = [0, 1, 0xff, 0xffff];
    (record.source_port, record.destination_port) = (pick(&ports) as u16, pick(&ports) as u16);
    if record.icmp().is_some() {
        (record.source_port, record.destination_port) = (pick(&[0, 255]) as u16, 255);
    }
    record.flow_id = pick(&[1, u64::MAX]);
    record.vlan = [None, Some(0), Some(4095)][pick(&[0, 1, 2]) as usize];
    let tunnels = [Some(TunnelId::Nvgre(0xff_ffff)), Some(TunnelId::GtpU(u32::MAX)), None];
    record.tunnel = tunnels[pick(&[0, 1, 2]) as usize];
    record
}

/// The reader drops the three bits next to the flags, which are reserved.
fn flags(side: &Side, is_tcp: bool) -> u128 {
    if is_tcp { (side.tcp_flags & 0x1ff).into() } else { 0 }
}

fn uptime(ns: u64) -> u128 {
    // The exporter says that it began an hour before its first record.
    let begun_ns = START - HOUR_MS * 1_000_000;
    u128::from((ns.wrapping_sub(begun_ns) / 1_000_000) as u32)
}

fn ntp(ns: u64) -> u128 {
    let seconds = (u128::from(ns / S) + 2_208_988_800) & 0xffff_ffff;
    let fraction = (u128::from(ns % S) << 32).div_ceil(u128::from(S));
    assert_eq!((fraction * u128::from(S)) >> 32, u128::from(ns % S), "what a reader finds");
    (seconds << 32) | fraction
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// What of one direction all formats say: numbers of elements and values.
fn common(record: &Record, side: &Side) -> Vec<(u16, u128)> {
    let icmp = record.icmp().map_or(0, |(kind, code)| u128::from(kind) << 8 | u128::from(code));
    let has_ports = record.icmp().is_none();
    let is_v6 = record.source.is_ipv6();
    let is_tcp = record.protocol == IpProtocol::TCP;
    vec![
        (if is_v6 { 27 } else { 8 }, bits(record.source)),
        (if is_v6 { 28 } else { 12 }, bits(record.destination)),
        (7, if has_ports { record.source_port.into() } else { 0 }),
        (11, if has_ports { record.destination_port.into() } else { icmp }),
        (4, record.protocol.0.into()),
        (1, side.ip_octets.into()),
        (2, side.packets.into()),
        (6, flags(side, is_tcp)),
        (5, side.tos.into()),
        (58, record.vlan.unwrap_or(0).into()),
        (10, u128::from(record.interface.0) + 1),
        (14, 0),
        (32, icmp),
    ]
}

fn expected_v9(record: &Record, side: &Side) -> Values {
    let mut fields = common(record, side);
    fields.extend([(22, uptime(side.first_ns)), (21, uptime(side.last_ns))]);
    let name = |(id, value)| (format!("{:?}", V9Field::from(id)), value);
    let mut values: Values = fields.into_iter().map(name).collect();
    // Of one octet.
    *values.get_mut("TcpFlags").unwrap() &= 0xff;
    values
}

fn times(side: &Side, format: Format) -> [(u16, u128); 2] {
    match format {
        Format::IpfixNanoseconds => [(156, ntp(side.first_ns)), (157, ntp(side.last_ns))],
        _ => [
            (152, u128::from(side.first_ns / 1_000_000)),
            (153, u128::from(side.last_ns / 1_000_000)),
        ],
    }
}

/// What a direction says of itself alone.
fn of_side(side: &Side, is_tcp: bool, format: Format) -> Vec<(u16, u128)> {
    let label = u128::from(side.mpls_label.unwrap_or(0)) << 4;
    let flags = flags(side, is_tcp);
    let counts = [(1, side.ip_octets.into()), (2, side.packets.into())];
    let others = [(6, flags), (5, side.tos.into()), (352, side.octets.into()), (70, label)];
    [&counts[..], &others, &times(side, format)].concat()
}

fn expected_ipfix(record: &Record, format: Format) -> Values {
    let is_reversed = record.forward.packets == 0;
    let record = if is_reversed { &record.reversed() } else { record };
    let mut fields = common(record, &record.forward);
    if record.source.is_ipv6() {
        fields.iter_mut().filter(|(id, _)| *id == 32).for_each(|(id, _)| *id = 139);
    }
    let segment = match record.tunnel {
        Some(TunnelId::Vxlan(id)) => 1 << 56 | u128::from(id),
        Some(TunnelId::Nvgre(id)) => 2 << 56 | u128::from(id),
        _ => 0,
    };
    let known = if is_reversed { 2 } else { 1 };
    let direction = if record.is_initiator_known { known } else { 0 };
    let of_flow = [(136, record.end as u128), (148, record.flow_id.into()), (239, direction)];
    fields.extend(of_flow);
    fields.push((351, segment));
    let is_tcp = record.protocol == IpProtocol::TCP;
    fields.extend(of_side(&record.forward, is_tcp, format));
    let name =
        |pen: Option<u32>| move |(id, value)| (format!("{:?}", IpfixField::new(id, pen)), value);
    let mut values: Values = fields.into_iter().map(name(None)).collect();
    if record.reverse.packets > 0 {
        let reverse = of_side(&record.reverse, is_tcp, format);
        values.extend(reverse.into_iter().map(name(Some(29_305))));
    }
    values
}

/// The directions that had packets, each as the one of its source.
fn each_way(record: &Record) -> Vec<Record> {
    let ways = [record.clone(), record.reversed()];
    ways.into_iter().filter(|record| record.forward.packets > 0).collect()
}

fn expected(record: &Record, format: Format) -> Vec<Values> {
    match format {
        Format::Ipfix | Format::IpfixNanoseconds => vec![expected_ipfix(record, format)],
        Format::IpfixUniflow => {
            let way = |record: &Record| {
                let alone = Record { reverse: Side::default(), ..record.clone() };
                let mut values = expected_ipfix(&alone, format);
                let direction = format!("{:?}", IpfixField::new(239, None));
                values.remove(&direction).expect("of biflows");
                values
            };
            each_way(record).iter().map(way).collect()
        }
        Format::Netflow9 => {
            each_way(record).iter().map(|record| expected_v9(record, &record.forward)).collect()
        }
        Format::Netflow5 => unreachable!("its records are added up"),
    }
}

fn values<F: std::fmt::Debug>(fields: &[(F, FieldValue)]) -> Values {
    let value = |(field, value): &(F, FieldValue)| {
        let mut bytes = Vec::new();
        value.write_be_bytes(&mut bytes).unwrap();
        let name = format!("{field:?}");
        assert!(!name.contains("Unknown") && !name.contains("Enterprise"), "{name}");
        (name, bytes.iter().fold(0, |sum, &byte| sum << 8 | u128::from(byte)))
    };
    fields.iter().map(value).collect()
}

/// The records of flows in one message, those of options left out.
fn read(parser: &mut NetflowParser, message: &[u8]) -> (Vec<Values>, Vec<FlowSet>) {
    let result = parser.parse_bytes(message);
    assert!(result.error.is_none(), "{:?}", result.error);
    let mut flows = Vec::new();
    match &result.packets[..] {
        [NetflowPacket::V5(v5)] => return (flows, v5.flowsets.clone()),
        [NetflowPacket::V9(v9)] => {
            for set in &v9.flowsets {
                match &set.body {
                    v9::FlowSetBody::Data(data) => {
                        flows.extend(data.fields.iter().map(|fields| values(fields)));
                    }
                    v9::FlowSetBody::NoTemplate(_) => panic!("no template"),
                    _ => {}
                }
            }
        }
        [NetflowPacket::IPFix(ipfix)] => {
            for set in &ipfix.flowsets {
                match &set.body {
                    ipfix::FlowSetBody::Data(data) => {
                        flows.extend(data.fields.iter().map(|fields| values(fields)));
                    }
                    ipfix::FlowSetBody::OptionsData(data) => {
                        let interval = values(&data.fields[0]);
                        assert_eq!(interval["IANA(SamplingInterval)"], 1);
                    }
                    ipfix::FlowSetBody::NoTemplate(_) => panic!("no template"),
                    _ => {}
                }
            }
        }
        other => panic!("{other:?}"),
    }
    (flows, Vec::new())
}

/// Packets, octets, and the rest as text, of the records that NetFlow v5 makes of one direction.
fn sums_v5(flows: &[FlowSet]) -> BTreeMap<String, (u64, u64)> {
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for flow in flows {
        let mut rest = flow.clone();
        (rest.d_pkts, rest.d_octets) = (0, 0);
        let sum = sums.entry(format!("{rest:?}")).or_default();
        sum.0 += u64::from(flow.d_pkts);
        sum.1 += u64::from(flow.d_octets);
    }
    sums
}

fn check_v5(record: &Record, flows: &[FlowSet]) {
    let mut given = BTreeMap::new();
    for record in [record.clone(), record.reversed()] {
        let (IpAddr::V4(from), IpAddr::V4(to)) = (record.source, record.destination) else {
            panic!("only IPv4 is said")
        };
        let side = record.forward;
        if side.packets == 0 {
            continue;
        }
        let values: BTreeMap<u16, u128> = common(&record, &side).into_iter().collect();
        let number = |id: u16| u16::try_from(values[&id]).unwrap();
        let mut flow = flows[0].clone();
        (flow.src_addr, flow.dst_addr) = (from, to);
        (flow.src_port, flow.dst_port) = (number(7), number(11));
        flow.protocol_number = number(4) as u8;
        flow.protocol_type = flow.protocol_number.into();
        (flow.tcp_flags, flow.tos) = (number(6) as u8, side.tos);
        (flow.input, flow.output) = (number(10), 0);
        (flow.first, flow.last) = (uptime(side.first_ns) as u32, uptime(side.last_ns) as u32);
        (flow.d_pkts, flow.d_octets) = (0, 0);
        given.insert(format!("{flow:?}"), (side.packets, side.ip_octets));
    }
    assert_eq!(sums_v5(flows), given);
}

/// Each record alone, and then all in one stream of messages.
fn check(records: &[Record], format: Format) {
    let (mut flows, mut wanted) = (Vec::new(), Vec::new());
    let mut parser = NetflowParser::default();
    let mut encoder = Encoder::new(format, Templates::Repeated, 7, Timestamp(START));
    for record in records {
        if format == Format::Netflow5 {
            let mut own = Vec::new();
            let mut out = |message: &[u8]| own.extend(read(&mut parser, message).1);
            let is_said = encoder.put(record, Timestamp(START), &mut out);
            encoder.flush(Timestamp(START), &mut out);
            assert_eq!(is_said, record.source.is_ipv4());
            if is_said {
                check_v5(record, &own);
            }
            continue;
        }
        let mut out = |message: &[u8]| flows.extend(read(&mut parser, message).0);
        assert!(encoder.put(record, Timestamp(START), &mut out));
        wanted.extend(expected(record, format));
    }
    encoder.flush(Timestamp(START), &mut |message| flows.extend(read(&mut parser, message).0));
    // Records are written in the order in which they came.
    assert_eq!(flows.len(), wanted.len());
    for (flow, wanted) in flows.iter().zip(&wanted) {
        assert_eq!(flow, wanted, "{}", format.name());
    }
}

#[test]
fn netflow_parser_reads_every_value_of_any_record() {
    let seeds: Vec<Vec<u8>> = (0..4).map(|seed| Random::new(seed).bytes(256)).collect();
    fuzz("flow-values", 60, &seeds, |input| {
        // Each eight bytes are the seed of one record; every second one is at the edges.
        let words = input.chunks(8).take(60);
        let words = words.map(|word| word.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)));
        let words: Vec<u64> = words.collect();
        for format in Format::ALL {
            let record = |(index, &word): (usize, &u64)| {
                let mut random = Random::new(word);
                match index % 2 {
                    0 => any_record(&mut random),
                    _ => edge_record(&mut random, format),
                }
            };
            let records: Vec<Record> = words.iter().enumerate().map(record).collect();
            check(&records, format);
        }
    });
}
