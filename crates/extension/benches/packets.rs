//! What an extension costs: nanoseconds a packet of real captures, for one that does nothing and
//! for the examples that count SYNs, as a module and as an object (root), next to the same count in
//! this program.
//!
//! `cargo bench -p ringside-extension --bench packets` prints a table.
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]

use ringside_core::{FrameMeta, LaneId, LinkType, SourceInterface};
use ringside_extension::{ExtensionObserver, read_extension};
use ringside_inspect::{DissectedFrame, Observer, Received};
use ringside_testkit::{capture_files, project_root};
use ringside_wire::{LayerKind, Tcp};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;
/// Packets of a round, of whatever number of captures.
const PACKETS: usize = 200_000;

/// The least that an extension is.
const EMPTY: &str = r#"(module (memory (export "memory") 1)
  (func (export "ringside_abi") (result i32) (i32.const 1))
  (func (export "ringside_buffer") (result i32) (i32.const 0))
  (func (export "ringside_packet") (param i32 i32 i64 i32 i32)))"#;

/// The example's count in Rust.
struct Native(Vec<u32>);

impl Observer for Native {
    fn see(&mut self, frame: &DissectedFrame<'_>, _received: &Received<'_>) {
        let layers = frame.layers();
        let tcp = layers.iter().rev().find(|layer| layer.kind == LayerKind::Tcp);
        let Some(Ok(tcp)) = tcp.map(|layer| Tcp::new(frame.from(layer))) else { return };
        if tcp.flags() & 0x12 == 0x02 {
            self.0[usize::from(tcp.destination().0)] += 1;
        }
    }
}

/// Packets of Ethernet out of real captures.
fn packets() -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for path in capture_files("packets") {
        let Ok(mut source) = ringside_store::open(&[path]) else { continue };
        let is_ethernet = |one: &SourceInterface| one.link_type == LinkType::ETHERNET;
        while let Ok(Some(batch)) = source.next_batch(Duration::ZERO) {
            if batch.interfaces().iter().all(is_ethernet) {
                packets.extend(batch.iter().map(|frame| frame.bytes.to_vec()));
            }
        }
        if packets.len() >= PACKETS {
            break;
        }
    }
    packets
}

/// Nanoseconds a packet, the median of the rounds behind the first.
fn measure(observer: &mut dyn Observer, packets: &[Vec<u8>]) -> f64 {
    let interface = SourceInterface::ethernet("eth1");
    let mut rounds: Vec<f64> = (0..=ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for bytes in packets {
                let wire_bytes = bytes.len() as u32;
                let meta = FrameMeta { wire_bytes, ..FrameMeta::default() };
                let received = Received { meta: &meta, interface: &interface, lane: LaneId(0) };
                let frame = DissectedFrame::new(bytes, wire_bytes, LinkType::ETHERNET);
                observer.see(&frame, &received);
            }
            start.elapsed().as_nanos() as f64 / packets.len() as f64
        })
        .skip(1)
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

/// The example in eBPF.
fn compiled(source: &Path) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("syns.o");
    let mut command = Command::new("clang");
    command.args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-c"]);
    assert!(command.arg(source).arg("-o").arg(&object).status().unwrap().success());
    std::fs::read(object).unwrap()
}

fn main() {
    let packets = packets();
    let bytes: usize = packets.iter().map(Vec::len).sum();
    println!("{} packets of {} bytes", packets.len(), bytes / packets.len().max(1));
    println!("what               ns/packet  packets/s");
    let show = |what: &str, ns: f64| println!("{what:17}  {ns:9.0}  {:9.0}", 1e9 / ns);
    show("counted in Rust", measure(&mut Native(vec![0; 1 << 16]), &packets));
    let mut empty = ExtensionObserver::new("empty", EMPTY.as_bytes(), Vec::new()).unwrap();
    show("empty extension", measure(&mut empty, &packets));
    let syns = read_extension(&project_root().join("crates/extension/guests/syns.wat")).unwrap();
    let mut syns = ExtensionObserver::new("syns", &syns, Vec::new()).unwrap();
    show("syns.wat", measure(&mut syns, &packets));
    let fuel = syns.ledger().fuel / syns.ledger().analyzed.max(1);
    let object = compiled(&project_root().join("crates/extension/guests/syns.bpf.c"));
    match ExtensionObserver::new("syns", &object, Vec::new()) {
        Ok(mut object) => show("syns.bpf.c", measure(&mut object, &packets)),
        Err(error) => println!("syns.bpf.c: {error}"),
    }
    println!("fuel of a packet with syns.wat: {fuel}");
}
