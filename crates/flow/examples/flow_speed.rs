//! How fast the table is: packets a second, on one core, of frames in memory.
//!
//! `cargo run --release -p ringside-flow --example flow_speed [PACKETS] [FLOWS]`

use ringside_core::{FrameMeta, LaneId, LinkType, SourceInterface, Timestamp};
use ringside_flow::{FlowError, FlowObserver, FlowTable, Limits};
use ringside_inspect::{DissectedFrame, Observer, Received};
use std::time::Instant;

/// Frames of Ethernet, IPv4 and TCP or UDP, without payload.
const FRAME_BYTES: usize = 60;

fn main() -> Result<(), FlowError> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>().unwrap_or(0));
    let packets = numbers.next().unwrap_or(5_000_000).max(1);
    let flows = numbers.next().unwrap_or(200_000).max(1);
    let frames: Vec<[u8; FRAME_BYTES]> = (0..flows).map(frame).collect();
    let mut observer = FlowObserver::new(FlowTable::new(Limits::default())?, Vec::new());
    let interface = SourceInterface::ethernet("memory");
    let begun = Instant::now();
    let mut flow = 0;
    for number in 0..packets {
        // Flows in no order that a cache would like: a step of a large odd number.
        flow = (flow + 7_919) % flows;
        let meta = FrameMeta {
            // A million packets a second.
            timestamp: Timestamp(1_700_000_000_000_000_000 + number * 1_000),
            wire_bytes: FRAME_BYTES as u32,
            ..FrameMeta::default()
        };
        let received = Received { meta: &meta, interface: &interface, lane: LaneId(0) };
        let bytes = &frames[flow as usize];
        observer.see(&DissectedFrame::new(bytes, meta.wire_bytes, LinkType::ETHERNET), &received);
    }
    let seconds = begun.elapsed().as_secs_f64();
    observer.finish();
    let ledger = observer.table().ledger();
    println!(
        "{packets} packets of {flows} flows in {seconds:.3} s: {:.2} M packets/s, {:.0} ns each; \
         records {:?}, balance {}",
        packets as f64 / seconds / 1e6,
        seconds * 1e9 / packets as f64,
        ledger.records,
        ledger.balances(observer.table().held()),
    );
    Ok(())
}

/// A frame of a flow; every second one is TCP.
fn frame(flow: u64) -> [u8; FRAME_BYTES] {
    let mut frame = [0; FRAME_BYTES];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14] = 0x45;
    frame[17] = 46;
    frame[22] = 64;
    let is_tcp = flow.is_multiple_of(2);
    frame[23] = if is_tcp { 6 } else { 17 };
    frame[26..30].copy_from_slice(&(0x0a00_0000 | flow as u32).to_be_bytes());
    frame[30..34].copy_from_slice(&(0xc0a8_0000 | flow as u32 >> 8).to_be_bytes());
    frame[34..38].copy_from_slice(&[0x9c, flow as u8, 0, 80]);
    match is_tcp {
        true => frame[46..48].copy_from_slice(&[0x50, 0x10]),
        false => frame[39] = 26,
    }
    frame
}
