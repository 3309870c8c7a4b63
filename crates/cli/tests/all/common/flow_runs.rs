//! Runs of `ringside flows`, and what their records say.

use super::{Network, Running, ringside};
use ringside_transmit::{SenderKind, Shape, Sizes};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

/// `ringside flows ARGS` of rx0, once it listens.
pub fn start_flows(network: &Network, args: &[&str]) -> Running {
    let mut command = Command::new("env");
    command.arg("--default-signal=INT,HUP").arg(ringside()).arg("flows").args(args);
    command.args(["--netns", network.receiver(), "-i", "rx0"]);
    let running = Running::start(command);
    running.wait_for_stderr("listening on");
    running
}

/// Sends frames of some flows in turn.
pub fn send_flows(network: &Network, flows: u32, count: u64) {
    let shape = Shape::new(Sizes::fixed(200).unwrap(), flows).unwrap();
    network.send(SenderKind::Packet, &shape, count, Some(50_000));
}

/// Packets and bytes each way by what names a flow, of the lines that are records.
pub fn flow_counts(lines: &[Value]) -> BTreeMap<String, [u64; 4]> {
    let mut flows: BTreeMap<String, [u64; 4]> = BTreeMap::new();
    for record in lines.iter().filter(|line| line.get("flow_id").is_some()) {
        let ends = ["protocol", "src", "src_port", "dst", "dst_port", "vlan", "tunnel_id"];
        let name = ends.map(|field| record[field].to_string()).join(" ");
        let counts = ["packets", "bytes", "reverse_packets", "reverse_bytes"];
        for (sum, count) in flows.entry(name).or_default().iter_mut().zip(counts) {
            *sum += record[count].as_u64().unwrap();
        }
    }
    flows
}
