//! `ringside send`: frames out of an interface. What is sent is a mode of its own, by its options:
//! captures with `-r`, bulk payload with `--stream`, what another interface receives with
//! `--relay`, else frames of our own making.

mod generate;
mod live;
mod mode;
mod relay;
mod replay;
mod stream;

use anyhow::{Context, bail, ensure};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use mode::Mode;
use ringside_core::Timestamp;
use ringside_keeper::privileges;
use ringside_netdev as netdev;
use ringside_sys::netns::Namespace;
use ringside_terminal::units;
use ringside_transmit::sink::SinkKind;
use ringside_transmit::{Field, Pace, Range, Rate};
use ringside_wire::MacAddr;
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `send`: none is of another mode.
pub struct SendArgs {
    mode: Mode,
    options: Options,
}

impl FromArgMatches for SendArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<SendArgs, clap::Error> {
        let mode = Mode::chosen(matches)?;
        Ok(SendArgs { mode, options: Options::from_arg_matches(matches)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.mode = Mode::chosen(matches)?;
        self.options.update_from_arg_matches(matches)
    }
}

impl Args for SendArgs {
    fn augment_args(command: Command) -> Command {
        Options::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Options::augment_args_for_update(command)
    }
}

/// Options of all modes; `mode.rs` says which are of which.
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
  sudo ringside send -i eth1 --relay eth2 --mtu 1500              cuts what is too long for eth1
  sudo ringside send -i eth1 --stream disk.img --udp --to 10.0.0.2:9000 --rate 5Gbps
  sudo ringside send -i eth1 --stream 10GB --to [2001:db8::2]:9 --way chains

Signals: SIGINT, SIGTERM and SIGHUP end it with its account; SIGUSR1 says how far it is, on standard
error.")]
struct Options {
    #[command(flatten)]
    target: TargetArgs,

    #[command(flatten)]
    generate: generate::GenerateArgs,

    #[command(flatten)]
    replay: replay::ReplayArgs,

    #[command(flatten)]
    relay: relay::RelayArgs,

    #[command(flatten)]
    stream: stream::StreamArgs,
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

    /// Of a capture, only frames before this moment; of a stream, where it goes: 10.0.0.2:9000,
    /// an IPv6 address in brackets or a name, with a port.
    #[arg(long, value_name = "TIME|HOST:PORT", value_parser = until)]
    to: Option<To>,

    /// How fast: frames a second (5Mpps), bits a second on the wire (10Gbps: preamble, check
    /// sequence and gap included) or a share of the link's speed (100%). By default generated
    /// frames go as fast as it goes, and captures in their own time.
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,

    /// Speed of the link, where the interface does not know it: 25Gbps.
    #[arg(long, value_name = "SPEED", requires = "rate")]
    link_speed: Option<Rate>,

    /// Sending threads, one on each of these CPUs, as 0,1. A capture is sent by one, which hardly
    /// sleeps then: its frames leave within some microseconds of their times.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cpus: Vec<usize>,

    /// Source MAC address, as 02:00:00:00:00:01; of generated frames also a range.
    #[arg(long, value_name = "MAC", value_parser = range(Field::SourceMac))]
    mac_src: Option<Range>,

    /// Destination MAC address, the same; by default of generated frames one that no interface has.
    #[arg(long, value_name = "MAC", value_parser = range(Field::DestinationMac))]
    mac_dst: Option<Range>,

    /// VLAN id of the outermost tag, which is made if there is none; of generated frames also a
    /// range, as 100-199.
    #[arg(long, value_name = "ID", value_parser = range(Field::Vlan))]
    vlan: Option<Range>,

    /// How frames of a capture and of a relay leave: af-packet, tx-ring, af-xdp (takes a queue of
    /// the card), pcap, dpdk (also of a device that DPDK has: -i dpdk:DEVICE), pf-ring or netmap
    /// (also -i netmap:PORT, as netmap:vale0:1).
    #[arg(long, value_name = "KIND", default_value_t = SinkKind::AfPacket)]
    sink: SinkKind,

    /// The account as one JSON line on standard output.
    #[arg(long)]
    json: bool,
}

/// What `--to` says, by the mode.
#[derive(Clone, Debug, PartialEq, Eq)]
enum To {
    Moment(Timestamp),
    /// Host and port, not looked up yet.
    Place(String, u16),
}

/// Reads `--to`. No moment ends with a colon and a number behind a name or an address.
fn until(text: &str) -> Result<To, String> {
    let moment = match units::moment(text) {
        Ok(moment) => return Ok(To::Moment(moment)),
        Err(error) => error,
    };
    let place = text.rsplit_once(':').and_then(|(host, port)| {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_host = bare.is_some() || !host.is_empty() && !host.contains(':');
        let port = port.parse().ok().filter(|&port| port > 0 && is_host)?;
        Some(To::Place(bare.unwrap_or(host).to_owned(), port))
    });
    place.ok_or_else(|| {
        format!("no place, as 10.0.0.2:9000 or [2001:db8::2]:9000, and no moment: {moment}")
    })
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

    /// Refuses an interface that is not there, down, or without its other end.
    fn check_interface(&self) -> anyhow::Result<()> {
        Ok(ringside_transmit::check_interface(&self.interface)?)
    }

    /// The one CPU that was named, or none, where `what` is sent by one thread.
    fn one_cpu(&self, what: &str) -> anyhow::Result<Option<usize>> {
        let first = self.cpus.first().copied();
        ensure!(
            self.cpus.len() <= 1,
            "{what} is sent by one thread: name one CPU (--cpus {})",
            first.unwrap_or(0)
        );
        Ok(first)
    }

    /// Frames a second that make the rate, if each takes `bits_per_frame` of the link, which must
    /// be able to carry them; none without a rate.
    fn frames_per_sec(&self, bits_per_frame: f64) -> anyhow::Result<Option<f64>> {
        let (Some(rate), interface) = (self.rate, &self.interface) else { return Ok(None) };
        let speed = match self.link_speed {
            Some(Rate::Bits(bits_per_sec)) => Some(bits_per_sec),
            Some(other) => {
                bail!("--link-speed {other} is no speed; write bits a second, as 10Gbps")
            }
            None => netdev::link_bits_per_sec(interface).unwrap_or(None),
        };
        let per_sec = match rate.on_link(interface, speed)? {
            Pace::Frames(per_sec) => per_sec as f64,
            Pace::Bits(per_sec) => per_sec as f64 / bits_per_frame,
        };
        let beyond = speed.filter(|&speed| per_sec * bits_per_frame > speed as f64 * 1.000_001);
        if let Some(speed) = beyond {
            bail!(
                "{rate} of these frames is {}bit/s, and {interface} says that its link carries \
                 {}bit/s; a virtual link that carries more takes --link-speed 100Gbps",
                units::scaled(per_sec * bits_per_frame),
                units::scaled(speed as f64)
            );
        }
        Ok(Some(per_sec))
    }
}

/// The one value of a range, where frames of `what` do not differ in it.
fn single(range: Range, what: &str) -> anyhow::Result<u128> {
    range.single().with_context(|| {
        format!("a {} of {what} is set to one value, not to a range", range.field().name())
    })
}

/// The one MAC address of a range, the same.
fn single_mac(range: Option<Range>, what: &str) -> anyhow::Result<Option<MacAddr>> {
    let bytes = range.map(|range| single(range, what)).transpose()?.map(u128::to_be_bytes);
    Ok(bytes.and_then(|bytes| bytes.last_chunk::<6>().copied()).map(MacAddr))
}

/// Runs the subcommand.
pub fn run(args: SendArgs) -> anyhow::Result<ExitCode> {
    let Options { target, generate, replay, relay, stream } = args.options;
    let sent = match args.mode {
        Mode::Generate => generate::run(&target, &generate),
        Mode::Replay => replay::run(&target, replay),
        Mode::Relay => relay::run(&target, &relay),
        Mode::Stream => stream::run(&target, &stream),
    };
    sent.map_err(privileges::advised)
}
