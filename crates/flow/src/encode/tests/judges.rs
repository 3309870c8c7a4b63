//! What tshark reads in our messages.

use super::*;
use crate::sink::RecordSums;
use ringside_testkit::need_tool;
use std::path::Path;
use std::process::Command;

/// Records of few seconds, whose sums other programs are asked for.
fn records() -> Vec<Record> {
    let mut random = Random::new(21);
    let v4 = std::iter::repeat_with(|| any_record(&mut random));
    v4.filter(|record| record.source.is_ipv4()).take(300).collect()
}

/// The messages of a format, and the packets and octets in them.
fn messages(format: Format) -> (Vec<Vec<u8>>, Sums) {
    let mut collector = Collector::new(format, 1, Vec::new());
    let mut sums = Sums::default();
    for record in records() {
        let octets = record.forward.ip_octets + record.reverse.ip_octets;
        sums += Sums { packets: record.packets(), octets };
        collector.put(&record, "", Timestamp(START));
    }
    collector.finish(Timestamp(START));
    (collector.output().clone(), sums)
}

/// A capture with a datagram for each message.
fn capture(path: &Path, messages: &[Vec<u8>], port: u16) {
    let mut file = Vec::new();
    // Little-endian pcap of IPv4 without a link layer.
    file.extend(0xa1b2_c3d4_u32.to_le_bytes());
    file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 228, 0, 0, 0]);
    for message in messages {
        let (from, to) = (Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST);
        let mut frame = vec![0; 28];
        frame.extend_from_slice(message);
        let fields = ringside_wire::build::Ipv4Fields {
            source: from,
            destination: to,
            protocol: IpProtocol::UDP,
            id: 0,
            ttl: 64,
            dont_fragment: false,
            payload_bytes: frame.len() - 20,
        };
        ringside_wire::build::ipv4(&mut frame, &fields).unwrap();
        frame[20..22].copy_from_slice(&40_000_u16.to_be_bytes());
        frame[22..24].copy_from_slice(&port.to_be_bytes());
        let udp_bytes = frame.len() as u16 - 20;
        frame[24..26].copy_from_slice(&udp_bytes.to_be_bytes());
        let length = (frame.len() as u32).to_le_bytes();
        file.extend([0; 8]);
        file.extend(length);
        file.extend(length);
        file.extend_from_slice(&frame);
    }
    std::fs::write(path, file).unwrap();
}

/// What tshark prints of these fields in all frames, one value each.
fn tshark(path: &Path, args: &[&str], fields: &[&str]) -> Vec<Vec<u64>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(path).args(args).args(["-T", "fields", "-E", "aggregator=,"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut values = vec![Vec::new(); fields.len()];
    for line in text.lines() {
        for (column, text) in values.iter_mut().zip(line.split('\t')) {
            column.extend(text.split(',').filter_map(|value| value.parse::<u64>().ok()));
        }
    }
    values
}

#[test]
fn tshark_reads_all_formats_without_loss() {
    let test = "tshark_reads_all_formats_without_loss";
    if !need_tool(test, "tshark") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for format in Format::ALL {
        let (messages, sums) = messages(format);
        let path = dir.path().join(format.name());
        match format {
            Format::Netflow5 | Format::Netflow9 => capture(&path, &messages, 2055),
            // The file of RFC 5655, as it is.
            _ => {
                let mut file = Stream(Vec::new());
                for message in &messages {
                    file.send(message, RecordSums::default()).unwrap();
                }
                std::fs::write(&path, file.0).unwrap();
            }
        }
        let values = tshark(&path, &[], &["cflow.packets", "cflow.octets"]);
        let read = Sums { packets: values[0].iter().sum(), octets: values[1].iter().sum() };
        assert_eq!(read, sums, "{}", format.name());
        let filter = "_ws.malformed || cflow.unexpected_sequence_number";
        let wrong = tshark(&path, &["-Y", filter], &["frame.number"]);
        assert_eq!(wrong, [[0_u64; 0]], "{}", format.name());
    }
}
