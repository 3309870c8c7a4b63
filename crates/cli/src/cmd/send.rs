//! `ringside send`: frames out of an interface. What is sent is a mode of its own, by its options:
//! captures with `-r`, what another interface receives with `--relay`, else frames of our own
//! making.

mod generate;
mod live;
mod relay;
mod replay;

use crate::units;
use anyhow::{bail, ensure};
use clap::Args;
use ringside_sys::netdev;
use ringside_sys::netns::Namespace;
use ringside_transmit::{Field, Range, Rate};
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `send`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside send -i eth1 --size 64 --rate 1Mpps --for 10s     64 bytes, a million a second
  sudo ringside send -i eth1 --size imix --rate 100% --flows 1000 --src 10.0.0.0/16
  sudo ringside send -i eth1 -c 1000 --template a.pcap:7 --src 10.0.0.0/24
  sudo ringside send -i eth1 -r trace.pcap                        as it was recorded
  sudo ringside send -i eth1 -r /data/eth1 --speed 10             ten times as fast
  sudo ringside send -i eth1 -r trace.pcap --rate 5Gbps --loop 100
  sudo ringside send -i eth1 -r trace.pcap --vlan 7 --address-map 10.0.0.0/8=172.0.0.0/8
  sudo ringside send -i eth1 -r trace.pcap --max-gap 1s 'udp port 53'
  sudo ringside send -i eth1 --relay eth2 --mtu 1500              cuts what is too long for eth1")]
pub struct SendArgs {
    #[command(flatten)]
    target: TargetArgs,

    #[command(flatten)]
    generate: generate::GenerateArgs,

    #[command(flatten)]
    replay: replay::ReplayArgs,

    #[command(flatten)]
    relay: relay::RelayArgs,
}

/// Where frames go, how fast, and when the sending ends: the same for all that can be sent.
#[derive(Args)]
struct TargetArgs {
    /// Interface that sends.
    #[arg(short = 'i', long = "interface", value_name = "INTERFACE")]
    interface: String,

    /// Network namespace to send in: a name, a path or a process id.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,

    /// Stop after this many frames; of a relay those received.
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Stop after this time: 10s, 5m.
    #[arg(long = "for", value_name = "DURATION", value_parser = units::duration)]
    duration: Option<Duration>,

    /// How fast: frames a second (5Mpps), bits a second on the wire (10Gbps: preamble, check
    /// sequence and gap included) or a share of the link's speed (100%). By default generated
    /// frames go as fast as it goes, and captures in their own time.
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,

    /// Sending threads, one on each of these CPUs, as 0,1. A capture is sent by one.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cpus: Vec<usize>,

    /// Source MAC address, as 02:00:00:00:00:01; of generated frames also a range.
    #[arg(long, value_name = "MAC", value_parser = range(Field::SourceMac))]
    mac_src: Option<Range>,

    /// Destination MAC address, the same; by default of generated frames one that nobody has.
    #[arg(long, value_name = "MAC", value_parser = range(Field::DestinationMac))]
    mac_dst: Option<Range>,

    /// VLAN id of the outermost tag, which is made if there is none; of generated frames also a
    /// range, as 100-199.
    #[arg(long, value_name = "ID", value_parser = range(Field::Vlan))]
    vlan: Option<Range>,

    /// The account as one JSON line on standard output.
    #[arg(long)]
    json: bool,
}

/// A parser of ranges of `field`.
fn range(
    field: Field,
) -> impl Fn(&str) -> Result<Range, ringside_transmit::Error> + Clone + Send + Sync + 'static {
    move |text| Range::parse(field, text)
}

impl TargetArgs {
    /// Moves the calling thread, and those that it starts, to where frames are sent.
    fn enter(&self) -> anyhow::Result<()> {
        if let Some(name) = &self.netns {
            Namespace::open(name)?.enter()?;
        }
        Ok(())
    }

    /// Refuses an interface that is not there, or down.
    fn check_interface(&self) -> anyhow::Result<()> {
        let name = &self.interface;
        let Some(device) = netdev::by_name(name)? else {
            bail!("no interface is called {name}; `ip link` shows those that are there");
        };
        ensure!(device.is_up(), "{name} is down: `ip link set {name} up`");
        Ok(())
    }
}

/// Runs the subcommand.
pub fn run(args: SendArgs) -> anyhow::Result<ExitCode> {
    if args.replay.is_chosen() {
        return replay::run(&args.target, args.replay);
    }
    if args.relay.is_chosen() {
        return relay::run(&args.target, &args.relay);
    }
    generate::run(&args.target, &args.generate)
}
