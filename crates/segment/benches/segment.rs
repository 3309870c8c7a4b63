//! What a frame costs: its headers alone, and with a copy of the payload, for 64 KiB of TCP cut at
//! 1,448 bytes.
//!
//! `cargo bench -p ringside-segment --bench segment` prints a table. The payload lies in 16 MiB, so
//! that it comes from where a sender's does; `hot` is one buffer again and again. For instruction
//! counts run the binary under callgrind with `--mode headers|copy|full --buffers N` at two N and
//! take the difference; a buffer is 46 frames.
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]

use ringside_segment::{
    Checksum, LinearChecksum, Pieces, Position, Segment, Segmenter, Settings, Template,
};
use ringside_testkit::stacks::{Header, Stack};
use ringside_wire::checksum::{Sum, copy_and_sum};
use std::hint::black_box;
use std::time::Instant;

const BUFFER_BYTES: usize = 64 << 10;
const BUFFERS: usize = 256;
const ROUNDS: usize = 7;

fn stack(tunnel: bool) -> Stack {
    let ipv4 = Header::Ipv4 {
        id: 1,
        dont_fragment: true,
        addresses: [10, 0, 0, 1, 10, 0, 0, 2],
        options: vec![],
    };
    let options = vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    let tcp = Header::Tcp { ports: [1, 2], sequence: 0, flags: 0x18, options };
    let mut headers = vec![Header::Ethernet, ipv4.clone()];
    if tunnel {
        let udp = Header::Udp { ports: [50_000, 4789], has_checksum: true };
        headers.extend([udp, Header::Vxlan { vni: 7 }, Header::Ethernet, ipv4]);
    }
    headers.push(tcp);
    Stack(headers)
}

/// Nanoseconds a frame, the median of the rounds behind the first.
fn measure(segmenter: &Segmenter, payload: &[u8], each: impl Fn(&Segment<'_>, &Pieces<'_>)) -> f64 {
    let mut rounds: Vec<f64> = (0..=ROUNDS)
        .map(|_| {
            let (mut position, mut frames) = (Position::default(), 0);
            let start = Instant::now();
            for index in 0..BUFFERS {
                let at = index * BUFFER_BYTES % payload.len();
                let buffer = [&payload[at..at + BUFFER_BYTES]];
                let plan = segmenter.plan(position, BUFFER_BYTES).unwrap();
                let pieces = Pieces::new(&buffer);
                plan.segments().for_each(|segment| each(&segment, &pieces));
                (position, frames) = (plan.end(), frames + plan.frame_count());
            }
            start.elapsed().as_nanos() as f64 / frames as f64
        })
        .skip(1)
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

fn option(name: &str) -> Option<String> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1)
}

/// Cuts `buffers` buffers in one way.
fn count(mode: &str, buffers: usize) {
    let template = Template::parse(&stack(false).uncut(&[])).unwrap();
    let segmenter = Segmenter::new(&template, Settings::mtu(1500)).unwrap();
    let (payload, mut slot) = (vec![0x5a; BUFFER_BYTES], [0; 2048]);
    let buffer = [&payload[..]];
    for _ in 0..buffers {
        let plan = segmenter.plan(Position::default(), BUFFER_BYTES).unwrap();
        let pieces = Pieces::new(&buffer);
        for segment in plan.segments() {
            let slot = black_box(&mut slot);
            let written = match mode {
                "headers" => segment.write_header(slot, Checksum::Offload),
                "copy" => segment.write_linear(slot, &pieces, LinearChecksum::Offload),
                _ => segment.write_linear(slot, &pieces, LinearChecksum::Full),
            };
            black_box(written.unwrap());
        }
    }
}

fn main() {
    if let Some(mode) = option("--mode") {
        let buffers = option("--buffers").map_or(1000, |text| text.parse().unwrap());
        return count(&mode, buffers);
    }
    let payload = vec![0x5a; BUFFERS * BUFFER_BYTES];
    println!("headers    payload  what                       ns/frame");
    for (name, tunnel) in [("tcp", false), ("vxlan+tcp", true)] {
        let stack = stack(tunnel);
        let template = Template::parse(&stack.uncut(&[])).unwrap();
        let settings = Settings { mss_bytes: Some(1448), ..Settings::mtu(9000) };
        let segmenter = Segmenter::new(&template, settings).unwrap();
        for (heat, payload) in [("hot", &payload[..BUFFER_BYTES]), ("16 MiB", &payload[..])] {
            let report = |what: &str, ns: f64| println!("{name:10} {heat:8} {what:26} {ns:8.1}");
            let slot = std::cell::RefCell::new([0u8; 2048]);
            let header = |checksum: fn(&Segment<'_>, &Pieces<'_>) -> Option<Sum>| {
                measure(&segmenter, payload, |segment, pieces| {
                    let sum = checksum(segment, pieces);
                    let checksum = sum.map_or(Checksum::Offload, Checksum::PayloadSum);
                    black_box(segment.write_header(&mut *slot.borrow_mut(), checksum).unwrap());
                })
            };
            let linear = |checksum| {
                measure(&segmenter, payload, |segment, pieces| {
                    let slot = &mut *slot.borrow_mut();
                    black_box(segment.write_linear(slot, pieces, checksum).unwrap());
                })
            };
            report("headers, offload", header(|_, _| None));
            report("headers, payload summed", header(|s, pieces| Some(pieces.sum(s.payload()))));
            report("copy, offload", linear(LinearChecksum::Offload));
            report("copy and sum in one", linear(LinearChecksum::Full));
            let two_passes = measure(&segmenter, payload, |segment, pieces| {
                let slot = &mut *slot.borrow_mut();
                let at = segment.header_bytes();
                pieces.copy(segment.payload(), &mut slot[at..]);
                let sum = Sum::new().bytes(&slot[at..segment.frame_bytes()]);
                black_box(segment.write_header(slot, Checksum::PayloadSum(sum)).unwrap());
            });
            report("copy, then sum", two_passes);
        }
    }
    let (mut to, from) = ([0u8; 1448], [0x5a; 1448]);
    let start = Instant::now();
    for _ in 0..1_000_000 {
        black_box(copy_and_sum(&mut to, black_box(&from)));
    }
    println!("copy_and_sum of 1,448 bytes: {:.1} ns", start.elapsed().as_nanos() as f64 / 1e6);
}
