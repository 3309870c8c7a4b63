//! `ringside backends`: what this machine can capture with, each answer from a probe.

use crate::say;
use clap::Args;
use ringside_capture::backend::{af_packet, pcap};
use ringside_sys::netdev::{self, NetDevice};
use serde::Serialize;
use std::fmt::Write;
use std::process::ExitCode;

/// Arguments of `backends`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside backends            what works here, and on which interfaces
  sudo ringside backends --json     the same for a program

Nothing is changed and nothing is captured: a backend is tried on the loopback interface.")]
pub struct BackendsArgs {
    /// One JSON object on standard output.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    backends: Vec<Backend>,
    interfaces: Vec<Interface>,
}

#[derive(Serialize)]
struct Backend {
    name: &'static str,
    usable: bool,
    /// Why it is not usable.
    reason: Option<String>,
    lanes: &'static str,
    timestamps: &'static str,
    counts: &'static str,
}

#[derive(Serialize)]
struct Interface {
    name: String,
    up: bool,
    driver: Option<String>,
    /// Link type of af-packet; none if only libpcap may know it.
    link_type: Option<u16>,
    receive_queues: Option<u32>,
    merges_frames: Option<bool>,
    hardware_timestamps: Option<bool>,
}

/// Runs the subcommand. Status 1 if no backend is usable.
pub fn run(args: BackendsArgs) -> anyhow::Result<ExitCode> {
    let interfaces = netdev::list()?.iter().map(interface).collect();
    let report = Report { backends: backends(), interfaces };
    if args.json {
        say::data(serde_json::to_string(&report)?)?;
    } else {
        say::data(text(&report).trim_end())?;
    }
    let usable = report.backends.iter().any(|backend| backend.usable);
    Ok(if usable { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn backends() -> Vec<Backend> {
    // The loopback interface exists everywhere; without promiscuous mode nothing of it changes.
    let quiet = af_packet::AfPacketConfig {
        promiscuous: false,
        ring_bytes: 1 << 20,
        ..af_packet::AfPacketConfig::new("lo")
    };
    let af_packet = af_packet::open(&quiet).err().map(|error| error.to_string());
    let pcap = pcap::link_type("lo").err().map(|error| error.to_string());
    vec![
        Backend {
            name: "af-packet",
            usable: af_packet.is_none(),
            reason: af_packet,
            lanes: "up to 256 (fanout by hash, CPU or queue)",
            timestamps: "ns; kernel, or the interface's own",
            counts: "received, filtered, dropped: exact",
        },
        Backend {
            name: "pcap",
            usable: pcap.is_none(),
            reason: pcap,
            lanes: "1",
            timestamps: "ns where libpcap has them",
            counts: "received and filtered unknown with a filter",
        },
        Backend {
            name: "file",
            usable: true,
            reason: None,
            lanes: "one a file, merged by time",
            timestamps: "as stored, to the ns",
            counts: "packets, damaged records",
        },
    ]
}

fn interface(device: &NetDevice) -> Interface {
    let name = device.name.as_str();
    Interface {
        name: name.to_owned(),
        up: device.is_up(),
        driver: netdev::driver(name).ok(),
        link_type: af_packet::link_type(name).ok().map(|link_type| link_type.0),
        receive_queues: netdev::queues(name).ok().map(|queues| queues.rx),
        merges_frames: netdev::offloads(name).ok().map(|offloads| offloads.gro || offloads.lro),
        hardware_timestamps: netdev::stamp_capability(name)
            .ok()
            .map(|stamps| stamps.receive_hardware),
    }
}

fn text(report: &Report) -> String {
    let mut out = String::new();
    for backend in &report.backends {
        let usable = if backend.usable { "usable" } else { "not usable" };
        let _ = writeln!(out, "{:<10} {usable}", backend.name);
        if let Some(reason) = &backend.reason {
            let _ = writeln!(out, "  reason      {reason}");
        }
        let _ = writeln!(out, "  lanes       {}", backend.lanes);
        let _ = writeln!(out, "  timestamps  {}", backend.timestamps);
        let _ = writeln!(out, "  counts      {}", backend.counts);
    }
    out.push('\n');
    let _ = writeln!(
        out,
        "{:<16} {:<5} {:<12} {:<10} {:<7} {:<9} hardware stamps",
        "interface", "state", "driver", "link type", "queues", "GRO/LRO"
    );
    for interface in &report.interfaces {
        let _ = writeln!(
            out,
            "{:<16} {:<5} {:<12} {:<10} {:<7} {:<9} {}",
            interface.name,
            if interface.up { "up" } else { "down" },
            interface.driver.as_deref().unwrap_or("-"),
            interface.link_type.map_or("pcap only".into(), |link_type| link_type.to_string()),
            interface.receive_queues.map_or("-".into(), |count| count.to_string()),
            answer(interface.merges_frames, "on", "off"),
            answer(interface.hardware_timestamps, "yes", "no"),
        );
    }
    out
}

fn answer(value: Option<bool>, yes: &'static str, no: &'static str) -> &'static str {
    match value {
        Some(true) => yes,
        Some(false) => no,
        None => "-",
    }
}
