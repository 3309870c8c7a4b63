//! Traffic in which to find something: flows that come and go, so that a packet lies in few places.

use crate::common::*;
use ringside_core::{Frame, FrameMeta, SourceInterface, Timestamp};
use ringside_store::Format;
use ringside_testkit::Random;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Frames of the traffic: 16 MiB.
pub const FRAMES: u64 = 20_000;
/// 2023-11-14T22:13:20Z.
pub const START_SECONDS: u64 = 1_700_000_000;
/// How long it lasts.
pub const SECONDS: u64 = 20;
/// Frames after which other flows come.
const AGE_FRAMES: u64 = 500;

/// A packet of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub time: Timestamp,
    pub wire_bytes: u32,
    pub bytes: Vec<u8>,
}

/// All packets of a file, in order.
pub fn packets_of(file: &Path) -> Vec<Packet> {
    let mut packets = Vec::new();
    for_each_frame(&[file.to_owned()], |frame, _| {
        let (time, wire_bytes) = (frame.meta.timestamp, frame.meta.wire_bytes);
        packets.push(Packet { time, wire_bytes, bytes: frame.bytes.to_vec() });
    });
    packets
}

/// The traffic in a file, and as a recording of several files.
pub struct Traffic {
    pub file: PathBuf,
    /// Not there of traffic that was only written.
    pub recording: PathBuf,
    _dir: tempfile::TempDir,
}

impl Traffic {
    /// The file alone.
    pub fn written() -> Traffic {
        let dir = tempfile::tempdir().unwrap();
        let [file, recording] = ["traffic.pcapng", "recording"].map(|name| dir.path().join(name));
        let out = File::create(&file).unwrap();
        let mut writer = Format::Pcapng.writer(out, &[SourceInterface::ethernet("eth1")]).unwrap();
        let mut random = Random::new(3);
        for number in 0..FRAMES {
            let bytes = frame(number, &mut random);
            let at = START_SECONDS * 1_000_000_000 + number * SECONDS * 1_000_000_000 / FRAMES;
            let timestamp = Timestamp(at / 1000 * 1000);
            let meta =
                FrameMeta { timestamp, wire_bytes: bytes.len() as u32, ..Default::default() };
            writer.write(&Frame { bytes: &bytes, meta }).unwrap();
        }
        writer.finish(&[]).unwrap();
        Traffic { file, recording, _dir: dir }
    }

    /// The bytes of a capture that a run can take from a pipe: it names its interface at the start.
    pub fn stream(&self) -> Vec<u8> {
        let file = self.file.with_extension("pcap");
        let outcome = run_ringside(&["read", "-r", arg(&self.file), "-w", arg(&file)]);
        assert_eq!(outcome.code(), Some(0), "{outcome:?}");
        std::fs::read(file).unwrap()
    }

    /// The same, recorded in files of 3 MiB.
    pub fn recorded() -> Traffic {
        let traffic = Traffic::written();
        let args = ["-r", arg(&traffic.file), "-w", arg(&traffic.recording), "-C", "3MiB"];
        let outcome = run_ringside(&[&["capture"], &args[..]].concat());
        assert_eq!(outcome.code(), Some(0), "{outcome:?}");
        traffic
    }
}

/// An expression for one flow of the middle of the traffic.
pub fn rare_flow() -> String {
    let flow = flow(FRAMES / 2 / AGE_FRAMES, 7);
    let [_, a, b, c] = flow.client;
    format!("host 10.{a}.{b}.{c} and udp port {}", flow.port)
}

struct Flow {
    client: [u8; 4],
    port: u16,
    server_port: u16,
    vlan: Option<u16>,
    is_v6: bool,
}

fn flow(age: u64, number: u64) -> Flow {
    let (low, high) = (number as u8, age as u8);
    Flow {
        client: [10, 1, high, low],
        port: 20_000 + (age * 64 + number) as u16,
        server_port: [53, 443, 5060, 80][number as usize % 4],
        vlan: number.is_multiple_of(5).then_some(100 + age as u16),
        is_v6: number % 7 == 6,
    }
}

/// A frame of UDP of some flow of its time.
fn frame(number: u64, random: &mut Random) -> Vec<u8> {
    let flow = flow(number / AGE_FRAMES, random.next_u64() % 16);
    let length = random.clone().below(1500);
    // Half of it can be compressed.
    let mut payload = random.bytes(length / 2);
    payload.resize(length, 0);
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, flow.client[3]];
    if let Some(vlan) = flow.vlan {
        bytes.extend([0x81, 0]);
        bytes.extend(vlan.to_be_bytes());
    }
    let udp_bytes = (8 + payload.len()) as u16;
    if flow.is_v6 {
        bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        bytes.extend(udp_bytes.to_be_bytes());
        bytes.extend([17, 64]);
        for end in [flow.client, [10, 9, 9, 9]] {
            bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0]);
            bytes.extend(end);
        }
    } else {
        bytes.extend([8, 0, 0x45, 0]);
        bytes.extend((20 + udp_bytes).to_be_bytes());
        bytes.extend([0, 0, 0, 0, 64, 17, 0, 0]);
        bytes.extend(flow.client);
        bytes.extend([10, 9, 9, 9]);
    }
    bytes.extend(flow.port.to_be_bytes());
    bytes.extend(flow.server_port.to_be_bytes());
    bytes.extend(udp_bytes.to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(payload);
    bytes
}

/// An expression of one or two terms that asks for something there is, or nearly.
pub fn expression(random: &mut Random) -> String {
    let first = term(random);
    match random.below(4) {
        0 => first,
        1 => format!("{first} and {}", term(random)),
        2 => format!("{first} or {}", term(random)),
        _ => format!("{first} and not {}", term(random)),
    }
}

fn term(random: &mut Random) -> String {
    let flow = flow(random.next_u64() % (FRAMES / AGE_FRAMES + 1), random.next_u64() % 18);
    let [_, a, b, c] = flow.client;
    let side = ["", "src ", "dst "][random.below(3)];
    match random.below(9) {
        0 => format!("{side}host 10.{a}.{b}.{c}"),
        1 => format!("{side}net 10.{a}.{b}.0/24"),
        2 => format!("{side}port {}", flow.port),
        3 => format!("portrange {}-{}", flow.port - 20, flow.port),
        4 => format!("ether src 02:00:00:00:00:{c:02x}"),
        5 => format!("host 2001:db8::a{a:02x}:{b:02x}{c:02x}"),
        6 => format!("net 2001:db8::a{a:02x}:{b:02x}00/120"),
        // Behind it everything lies four bytes further on.
        7 => format!("(vlan {} and udp)", flow.vlan.unwrap_or(1)),
        _ => ["udp", "ip6", "arp", "udp port 53", "greater 1000"][random.below(5)].to_owned(),
    }
}
