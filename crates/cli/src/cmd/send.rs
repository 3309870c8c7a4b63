//! `ringside send`: frames out of an interface. What is sent is a mode of its own, by its options.

mod replay;

use crate::units;
use anyhow::bail;
use clap::Args;
use ringside_sys::netns::Namespace;
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `send`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside send -i eth1 -r trace.pcap                  as it was recorded
  sudo ringside send -i eth1 -r /data/eth1 --speed 10       a recording, ten times as fast
  sudo ringside send -i eth1 -r trace.pcap --rate 5Gbps --loop 100
  sudo ringside send -i eth1 -r trace.pcap --vlan 7 --address-map 10.0.0.0/8=172.0.0.0/8
  sudo ringside send -i eth1 -r trace.pcap --max-gap 1s 'udp port 53'")]
pub struct SendArgs {
    #[command(flatten)]
    target: TargetArgs,

    #[command(flatten)]
    replay: replay::ReplayArgs,
}

/// Where frames go, and when the sending ends: the same for all that can be sent.
#[derive(Args)]
struct TargetArgs {
    /// Interface that sends.
    #[arg(short = 'i', long = "interface", value_name = "INTERFACE")]
    interface: String,

    /// Network namespace to send in: a name, a path or a process id.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,

    /// Stop after this many frames.
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Stop after this time: 10s, 5m.
    #[arg(long = "for", value_name = "DURATION", value_parser = units::duration)]
    duration: Option<Duration>,

    /// Keep the sending thread on this CPU.
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,

    /// The account as one JSON line on standard output.
    #[arg(long)]
    json: bool,
}

impl TargetArgs {
    /// Moves the calling thread, and those that it starts, to where frames are sent.
    fn enter(&self) -> anyhow::Result<()> {
        if let Some(name) = &self.netns {
            Namespace::open(name)?.enter()?;
        }
        Ok(())
    }
}

/// Runs the subcommand.
pub fn run(args: SendArgs) -> anyhow::Result<ExitCode> {
    if args.replay.is_chosen() {
        return replay::run(&args.target, args.replay);
    }
    bail!("nothing to send is given: name a capture (-r FILE), a directory of one (-r DIR) or -r -")
}
