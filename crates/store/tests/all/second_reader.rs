//! The pcap-file crate, an independent implementation, reads every valid capture as we do.

use crate::common::*;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};
use ringside_store::FileSource;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// Interface, time, wire length and bytes of a frame.
type Packet = (u32, Duration, u32, Vec<u8>);

/// What pcap-file reads; `None` where it refuses the file or a record.
fn read_with_pcap_file(path: &Path, pcapng: bool) -> Option<Vec<Packet>> {
    let file = File::open(path).unwrap();
    let mut packets = Vec::new();
    if !pcapng {
        let mut reader = PcapReader::new(file).ok()?;
        while let Some(packet) = reader.next_packet() {
            let packet = packet.ok()?;
            let data = packet.data().to_vec();
            packets.push((0, packet.timestamp(), packet.orig_len(), data));
        }
        return Some(packets);
    }
    let mut reader = PcapNgReader::new(file).ok()?;
    while let Some(block) = reader.next_block() {
        match block.ok()?.0 {
            Block::EnhancedPacket(packet) => {
                let data = packet.data.to_vec();
                packets.push((packet.interface_id, packet.timestamp, packet.original_len, data));
            }
            Block::SimplePacket(packet) => {
                packets.push((0, Duration::ZERO, packet.original_len, packet.data.to_vec()));
            }
            _ => {}
        }
    }
    Some(packets)
}

#[test]
fn a_second_implementation_reads_every_valid_capture_as_we_do() {
    let test = "a_second_implementation_reads_every_valid_capture_as_we_do";
    let files = ringside_testkit::capture_files(test);
    let mut refused = Vec::new();
    for path in &files {
        let Ok(mut source) = FileSource::open(path) else { continue };
        let ours = drain(&mut source);
        let pcapng = std::fs::read(path).unwrap().starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]);
        let Some(theirs) = read_with_pcap_file(path, pcapng) else {
            refused.push(path.file_name().unwrap().to_owned());
            continue;
        };
        let ours: Vec<Packet> = ours
            .frames
            .into_iter()
            .map(|frame| {
                let stamp = Duration::from_nanos(frame.meta.timestamp.0);
                (frame.meta.interface.0, stamp, frame.meta.wire_bytes, frame.bytes)
            })
            .collect();
        assert_eq!(ours, theirs, "{}", path.display());
    }
    eprintln!("pcap-file refuses {} of {}: {refused:?}", refused.len(), files.len());
    assert!(refused.len() <= 10, "it refuses only what contradicts itself or is no standard pcap");
}
