//! How fast flows are: packets a second of one core, from a capture file that was just written, so
//! that it is read from the page cache. Reading it without flows is shown next to it.
//!
//! `cargo run --release -p ringside-flow --example flow_speed [PACKETS] [FLOWS] [FRAMES] [FILE]`,
//! where FRAMES is `mix` (64, 594 and 1,514 bytes, 7 : 4 : 1), `small` (64), `large` (64 KiB), or
//! `steps`: small ones, whose clock goes back an hour and forth again every 1,000 packets. FILE is
//! kept, for other programs; one that is there is taken as it is.

use ringside_core::{Frame, FrameMeta, LaneId, SourceInterface, Timestamp};
use ringside_flow::{FlowObserver, FlowTable, Limits};
use ringside_inspect::{Observer, Pump};
use ringside_store::Format;
use ringside_wire::build::{Ipv4Fields, TcpFields, ethernet, ipv4, tcp, udp};
use ringside_wire::checksum::Addresses;
use ringside_wire::{EtherType, IpProtocol, MacAddr, Port, Tcp, WireError};
use std::error::Error;
use std::fs::{File, read_to_string};
use std::io::BufWriter;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Runs of each count of flows; the best one counts, since other processes slow the rest.
const ROUNDS: usize = 3;

/// Of each direction of a flow, packets come with these stamps between them.
const PACKET_NS: u64 = 1_000;
const HOUR_NS: u64 = 3_600_000_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let mut number = |other: u64| words.next().map_or(Ok(other), |word| word.parse());
    let (packets, flows) = (number(5_000_000)?, number(200_000)?.max(1));
    let frames = words.next().unwrap_or("mix".into());
    let kept = words.next().map(PathBuf::from);
    let folder = tempfile::tempdir()?;
    let path = kept.unwrap_or_else(|| folder.path().join("flows.pcap"));
    if !path.exists() {
        write(&path, packets, flows, &frames)?;
    }
    let bytes = path.metadata()?.len();
    println!("{packets} packets of {flows} flows, {frames}, {bytes} bytes");
    let mut read = Vec::new();
    let mut counted = Vec::new();
    for _ in 0..ROUNDS {
        read.push(run(&path, Vec::new())?);
        let mut observer = FlowObserver::new(FlowTable::new(Limits::default())?, Vec::new());
        counted.push(run(&path, vec![Box::new(&mut observer)])?);
        let ledger = observer.table().ledger();
        println!(
            "records {:?}, clock steps {}, balance {}, {}",
            ledger.records,
            ledger.clock_steps,
            ledger.balances(observer.table().held()),
            peak_memory(),
        );
    }
    for (what, times) in [("reading alone", read), ("flows", counted)] {
        let [wall, cpu] = [0, 1].map(|at| times.iter().map(|t| t[at]).fold(f64::MAX, f64::min));
        println!(
            "{what}: {wall:.3} s, {cpu:.3} s of CPU: {:.2} M packets/s of CPU time, {:.1} ns each",
            packets as f64 / cpu / 1e6,
            cpu * 1e9 / packets as f64,
        );
    }
    Ok(())
}

/// Shows a file to observers: seconds, and those that this thread had a CPU.
fn run(path: &Path, observers: Vec<Box<dyn Observer + '_>>) -> Result<[f64; 2], Box<dyn Error>> {
    let mut source = ringside_store::open(&[path.to_owned()])?;
    let (begun, cpu) = (Instant::now(), cpu_seconds()?);
    let report = Pump::new(observers).run(&mut *source, LaneId(0), &|| false);
    report.failure.map_or(Ok(()), Err)?;
    Ok([begun.elapsed().as_secs_f64(), cpu_seconds()? - cpu])
}

/// Of /proc/thread-self/schedstat, the first field: nanoseconds on a CPU.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let text = read_to_string("/proc/thread-self/schedstat")?;
    let field = text.split(' ').next().ok_or("an empty schedstat")?;
    Ok(field.parse::<f64>()? / 1e9)
}

/// The most memory that this process had at once.
fn peak_memory() -> String {
    let status = read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default().replace('\t', " ")
}

fn write(path: &Path, packets: u64, flows: u64, frames: &str) -> Result<(), Box<dyn Error>> {
    let interface = SourceInterface::ethernet("memory");
    let mut writer = Format::Pcap.writer(BufWriter::new(File::create(path)?), &[interface])?;
    let mut memory = vec![0; 65_549];
    for number in 0..packets {
        // Flows in no order that a cache would like: a step of a large odd number.
        let (flow, round) = (number * 7_919 % flows, number / flows);
        let frame_bytes = match frames {
            "mix" => [64, 594, 64, 64, 594, 64, 1_514, 64, 594, 64, 594, 64][flow as usize % 12],
            "small" | "steps" => 64,
            "large" => memory.len(),
            other => return Err(format!("{other}: mix, small, large or steps").into()),
        };
        let frame = &mut memory[..frame_bytes];
        fill(frame, flow, round)?;
        let steps = if frames == "steps" { number / 1_000 % 2 * HOUR_NS } else { 0 };
        let meta = FrameMeta {
            timestamp: Timestamp(1_700_000_000_000_000_000 + number * PACKET_NS + steps),
            wire_bytes: frame_bytes as u32,
            ..FrameMeta::default()
        };
        writer.write(&Frame { bytes: frame, meta })?;
    }
    Ok(writer.finish(&[])?)
}

/// A frame of a flow, of which every second one is TCP; the directions take turns.
fn fill(frame: &mut [u8], flow: u64, round: u64) -> Result<(), WireError> {
    let is_tcp = flow.is_multiple_of(2);
    let client = Ipv4Addr::from_bits(0x0a00_0000 | flow as u32);
    let server = Ipv4Addr::from_bits(0xc0a8_0000 | flow as u32 >> 8);
    let client = (client, Port(0x8000 | flow as u16));
    let server = (server, Port(if is_tcp { 443 } else { 5_004 }));
    let (from, to) = if round.is_multiple_of(2) { (client, server) } else { (server, client) };
    let rest = ethernet(frame, MacAddr([2; 6]), MacAddr([4; 6]), EtherType::IPV4)?;
    let packet = &mut frame[rest..];
    let fields = Ipv4Fields {
        source: from.0,
        destination: to.0,
        protocol: if is_tcp { IpProtocol::TCP } else { IpProtocol::UDP },
        id: 0,
        ttl: 64,
        dont_fragment: true,
        payload_bytes: packet.len() - 20,
    };
    let rest = ipv4(packet, &fields)?;
    let segment = &mut packet[rest..];
    let addresses = Addresses::V4 { source: from.0, destination: to.0 };
    if is_tcp {
        let fields = TcpFields {
            source: from.1,
            destination: to.1,
            sequence: (round / 2) as u32 * (segment.len() as u32 - 20),
            acknowledgment: 0,
            flags: Tcp::ACK,
            window: 1_000,
        };
        tcp(segment, addresses, &fields)?;
    } else {
        udp(segment, addresses, from.1, to.1)?;
    }
    Ok(())
}
