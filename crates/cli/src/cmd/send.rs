//! `ringside send`: frames onto an interface, generated or from captures.

mod generate;
mod live;

use crate::units;
use anyhow::{bail, ensure};
use clap::Args;
use ringside_sys::netdev;
use ringside_sys::netns::Namespace;
use ringside_transmit::Rate;
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `send`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside send -i eth1 --size 64 --rate 1Mpps --for 10s     64 bytes, a million a second
  sudo ringside send -i eth1 --size imix --rate 100% --flows 1000 as much as the link carries
  sudo ringside send -i eth1 -c 1000 --src 10.0.0.0/24 --dst-port 53
  sudo ringside send -i eth1 -c 1000 --template a.pcap:7 --src 10.0.0.0/24")]
pub struct SendArgs {
    /// Interface to send through.
    #[arg(short, long, value_name = "NAME")]
    interface: String,

    /// Network namespace of the interface: a name, a path or a process id.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,

    /// Stop after this many frames.
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Stop after this time: 10s, 5m.
    #[arg(long = "for", value_name = "DURATION", value_parser = units::duration)]
    duration: Option<Duration>,

    /// How fast: frames a second (1Mpps), bits a second on the wire (10Gbps), or a share of the
    /// link's speed (100%). By default as fast as it goes.
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,

    /// Speed of the link, where the interface does not know it: 25Gbps.
    #[arg(long, value_name = "SPEED")]
    link_speed: Option<Rate>,

    /// The report as one JSON line on standard output.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    generate: generate::GenerateArgs,
}

/// Runs `send`.
pub fn run(args: SendArgs) -> anyhow::Result<ExitCode> {
    if let Some(name) = &args.netns {
        Namespace::open(name)?.enter()?;
    }
    let name = &args.interface;
    let Some(device) = netdev::by_name(name)? else {
        bail!("no interface is called {name}; `ip link` shows those that are there");
    };
    ensure!(device.is_up(), "{name} is down: `ip link set {name} up`");
    generate::run(&args, name)
}
