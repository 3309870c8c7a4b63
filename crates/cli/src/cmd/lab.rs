//! `ringside lab`: a private test network, and senders.

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use ringside_lab::{Lab, LabConfig, LabStatus, Napi};
use ringside_lab::{MTU_MAX, MTU_MIN, QUEUES_MAX};
use ringside_report::lab as report;
use ringside_terminal::signals::StopSignal;
use ringside_terminal::units;
use ringside_transmit::{FLOWS_MAX, Job, Limits, Load, SenderKind, Shape, Sizes, StoredFrames};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `lab`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside lab up --queues 4                        make the network
  sudo ringside lab send --count 1000000 --size imix     send into it
  sudo ringside lab send --for 10s --rate 200000         at a rate
  sudo ringside lab status                               what there is
  sudo ringside lab down                                 remove it")]
pub struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Subcommand)]
enum LabCommand {
    /// Make two namespaces joined by a veth pair; they stay until `lab down`.
    #[command(after_help = "Examples:
  sudo ringside lab up                         one queue, MTU 1500
  sudo ringside lab up --queues 4 --mtu 9000   four queues, jumbo frames
  sudo ringside lab up --name two --arp        a second network, with ARP on the wire")]
    Up(UpArgs),
    /// Remove the network.
    #[command(after_help = "Examples:
  sudo ringside lab down
  sudo ringside lab down --name two")]
    Down(NameArgs),
    /// Show the networks that there are; status 1 if there is none.
    #[command(after_help = "Examples:
  sudo ringside lab status
  sudo ringside lab status --json | jq .lab.receiver_namespace")]
    Status(StatusArgs),
    /// Send frames into the network, and say exactly what its far end was handed.
    #[command(after_help = "Examples:
  sudo ringside lab send --count 1000000 --size imix --flows 1000
  sudo ringside lab send --for 10s --rate 200000         at a rate
  sudo ringside lab send -r trace.pcap --count 100000    frames of a capture, again and again")]
    Send(SendArgs),
}

#[derive(Args)]
struct NameArgs {
    /// Which network: lower-case letters, digits and hyphens.
    #[arg(long, value_name = "NAME", default_value = "lab")]
    name: String,
}

#[derive(Args)]
struct UpArgs {
    #[command(flatten)]
    name: NameArgs,

    /// Receive and transmit queues of both ends.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=QUEUES_MAX as i64))]
    queues: u16,

    /// MTU of both ends; frames may be 14 bytes longer.
    #[arg(long, value_name = "BYTES", default_value_t = 1500)]
    #[arg(value_parser = clap::value_parser!(u32).range(MTU_MIN as i64..=MTU_MAX as i64))]
    mtu: u32,

    /// Run the far end's receive path in kernel threads on this CPU; else it runs on the CPU that
    /// sends, which slows the sender to what the receiver takes.
    #[arg(long, value_name = "CPU")]
    napi_cpu: Option<usize>,

    /// Let the ends find each other by ARP; else they know each other and the wire is silent.
    #[arg(long)]
    arp: bool,
}

#[derive(Args)]
struct StatusArgs {
    /// One JSON object a line on standard output.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct SendArgs {
    #[command(flatten)]
    name: NameArgs,

    /// Who sends; by default live, or packet for a capture and for frames above 3,408 bytes.
    #[arg(long, value_enum)]
    sender: Option<SenderArg>,

    /// Stop after this many frames.
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Stop after this time: 10s, 5m.
    #[arg(long = "for", value_name = "DURATION", value_parser = units::duration)]
    duration: Option<Duration>,

    /// Frames a second; by default as fast as it goes.
    #[arg(long, value_name = "PPS", value_parser = clap::value_parser!(u64).range(1..))]
    rate: Option<u64>,

    /// Frame sizes in bytes, without the frame check sequence: 64, a list 64,512,1514, a range
    /// 64-1514, or imix.
    #[arg(long, value_name = "SIZES", default_value = "64", conflicts_with = "read")]
    size: Sizes,

    /// Flows, which differ in source address and port.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "read")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=FLOWS_MAX as i64))]
    flows: u32,

    /// One sending thread on each of these CPUs, as 0,1.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cpus: Vec<usize>,

    /// Send the frames of a capture instead, in order, again and again until the limit; once if
    /// no limit is given.
    #[arg(short = 'r', long, value_name = "FILE")]
    read: Option<PathBuf>,

    /// Send the capture this many times.
    #[arg(long, value_name = "N", requires = "read", conflicts_with = "count")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    loops: Option<u64>,

    /// The report as one JSON line on standard output.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SenderArg {
    /// Frames made inside the kernel: fastest, 14 to 3,408 bytes.
    Live,
    /// A packet socket: any size and any frames; flows spread over the queues.
    Packet,
}

/// Runs `lab`.
pub fn run(args: LabArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        LabCommand::Up(args) => up(&args),
        LabCommand::Down(args) => {
            ringside_lab::down(&args.name)?;
            eprintln!("test network {} removed", args.name);
            Ok(ExitCode::SUCCESS)
        }
        LabCommand::Status(args) => status(&args),
        LabCommand::Send(args) => send(&args),
    }
}

fn up(args: &UpArgs) -> anyhow::Result<ExitCode> {
    let config = LabConfig {
        name: args.name.name.clone(),
        queues: args.queues,
        mtu: args.mtu,
        napi: args.napi_cpu.map_or(Napi::Softirq, Napi::Pinned),
        arp: args.arp,
        ..LabConfig::default()
    };
    let status = Lab::up(&config)?.keep()?;
    eprintln!("{}", report::up(&status));
    Ok(ExitCode::SUCCESS)
}

fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let labs = ringside_lab::list()?;
    for lab in &labs {
        if args.json {
            println!("{}", serde_json::json!({ "lab": lab }));
        } else {
            println!("{}", report::status(lab));
        }
    }
    if labs.is_empty() {
        eprintln!("there is no test network; make one: `sudo ringside lab up`");
        return Ok(ExitCode::from(1));
    }
    Ok(ExitCode::SUCCESS)
}

fn send(args: &SendArgs) -> anyhow::Result<ExitCode> {
    let lab = ringside_lab::status(&args.name.name)?;
    if !lab.whole {
        bail!("the test network {0} is damaged; `ringside lab down --name {0}`", args.name.name);
    }
    let job = job(args, &lab)?;
    let stop = StopSignal::install()?;
    let sent = ringside_transmit::run(&job, &|| stop.is_set())?;
    if args.json {
        println!("{}", serde_json::json!({ "sent": sent }));
    } else {
        eprint!("{}", report::sent(&sent, &lab));
    }
    Ok(ExitCode::SUCCESS)
}

fn job(args: &SendArgs, lab: &LabStatus) -> anyhow::Result<Job> {
    let (load, pass) = match &args.read {
        None => (Load::Numbered(Shape::new(args.size.clone(), args.flows)?), None),
        Some(path) => {
            let StoredFrames { frames, notes } = StoredFrames::read(path)?;
            notes.iter().for_each(|note| eprintln!("ringside: {note}"));
            let pass = frames.len() as u64;
            (Load::Replay(frames.into()), Some(pass))
        }
    };
    let count = match (args.count, pass) {
        (Some(count), _) => Some(count),
        (None, Some(pass)) if args.duration.is_none() || args.loops.is_some() => {
            let loops = args.loops.unwrap_or(1);
            Some(pass.checked_mul(loops).context("--loops times the frames is beyond 64 bits")?)
        }
        _ => None,
    };
    let too_long_for_live =
        usize::from(args.size.longest()) > ringside_transmit::LIVE_FRAME_BYTES_MAX;
    let sender = match args.sender {
        Some(SenderArg::Live) => SenderKind::Live,
        Some(SenderArg::Packet) => SenderKind::Packet,
        None if pass.is_some() || too_long_for_live => SenderKind::Packet,
        None => SenderKind::Live,
    };
    Ok(Job {
        sender,
        wire: lab.wire(),
        load,
        cpus: args.cpus.clone(),
        rate_per_sec: args.rate,
        limits: Limits::new(count, args.duration)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        lab: LabArgs,
    }

    fn parse(line: &str) -> Result<LabCommand, String> {
        let words = std::iter::once("lab").chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.lab.command).map_err(|e| e.to_string())
    }

    #[test]
    fn options_are_checked_where_they_are_typed() {
        for (line, said) in [
            ("up --queues 0", "1..=64"),
            ("up --mtu 67", "68..=65535"),
            ("send --size 13 --count 1", "14 to 65535"),
            ("send --flows 0 --count 1", "1..=1048576"),
            ("send --rate 0 --count 1", "invalid value"),
            ("send --size 64 -r a.pcap", "cannot be used with"),
            ("send --loops 2 --count 1", "--read"),
        ] {
            let error = parse(line).map(drop).unwrap_err();
            assert!(error.contains(said), "{line}: {error}");
        }
        assert!(matches!(parse("send --size imix --for 10s --cpus 0,1"), Ok(LabCommand::Send(_))));
    }
}
