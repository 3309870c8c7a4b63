//! Frames of many flows, and a table for them.

use ringside_ebpf::replay::HEADER_BYTES;
use ringside_flow::{FlowTable, Limits};

/// Headers of UDP, each of a flow of its own.
pub fn headers(flows: usize) -> Vec<[u8; HEADER_BYTES]> {
    (0..flows as u32).map(header).collect()
}

fn header(flow: u32) -> [u8; HEADER_BYTES] {
    let mut frame = [0; HEADER_BYTES];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
    frame[14..24].copy_from_slice(&[0x45, 0, 0, HEADER_BYTES as u8 - 14, 0, 0, 0, 0, 64, 17]);
    frame[26..30].copy_from_slice(&(0x0a00_0000 + flow).to_be_bytes());
    frame[30..34].copy_from_slice(&[198, 18, 0, 1]);
    frame[34..40].copy_from_slice(&[0x30, 0x39, 0, 9, 0, HEADER_BYTES as u8 - 34]);
    frame
}

pub fn table() -> FlowTable {
    FlowTable::new(Limits::default()).unwrap()
}
