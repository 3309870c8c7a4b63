//! Frames of real captures, read by another project's reader.

#![allow(dead_code)] // each test binary uses its part

use pcap_file::DataLink;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};
use ringside_core::LinkType;
use std::path::Path;

/// Frames of one file that are read; a few captures hold tens of thousands that are all alike.
const FRAMES_MAX: usize = 4000;

/// The frames of a capture file as far as it can be read, with their link types.
pub fn frames(path: &Path) -> Vec<(LinkType, Vec<u8>)> {
    let bytes = std::fs::read(path).unwrap();
    if bytes.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) { pcapng(&bytes) } else { pcap(&bytes) }
}

/// The frames of all captures, and how many files they came from.
pub fn corpus(test: &str) -> Vec<(LinkType, Vec<u8>)> {
    ringside_testkit::capture_files(test).iter().flat_map(|path| frames(path)).collect()
}

fn link(link: DataLink) -> LinkType {
    LinkType(u32::from(link) as u16)
}

fn pcap(bytes: &[u8]) -> Vec<(LinkType, Vec<u8>)> {
    let mut frames = Vec::new();
    let Ok(mut reader) = PcapReader::new(bytes) else { return frames };
    let link = link(reader.header().datalink);
    while let Some(Ok(packet)) = reader.next_raw_packet() {
        frames.push((link, packet.data.to_vec()));
        if frames.len() == FRAMES_MAX {
            break;
        }
    }
    frames
}

fn pcapng(bytes: &[u8]) -> Vec<(LinkType, Vec<u8>)> {
    let mut frames = Vec::new();
    let Ok(mut reader) = PcapNgReader::new(bytes) else { return frames };
    while let Some(Ok((block, state))) = reader.next_block() {
        let (interface, data) = match block {
            Block::EnhancedPacket(packet) => (packet.interface_id as usize, packet.data),
            Block::SimplePacket(packet) => (0, packet.data),
            Block::Packet(packet) => (usize::from(packet.interface_id), packet.data),
            _ => continue,
        };
        let Some(interface) = state.interfaces().get(interface) else { continue };
        frames.push((link(interface.linktype), data.to_vec()));
        if frames.len() == FRAMES_MAX {
            break;
        }
    }
    frames
}
