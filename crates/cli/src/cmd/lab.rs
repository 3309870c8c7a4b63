//! `ringside lab`: a private test network, and senders.

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use ringside_core::{LinkType, OwnedFrame, Shown, SourceInterface};
use ringside_lab::{Lab, LabConfig, LabStatus, Napi};
use ringside_lab::{MTU_MAX, MTU_MIN, QUEUES_MAX, RECEIVER_ADDRESS, SENDER_ADDRESS};
use ringside_terminal::signals::StopSignal;
use ringside_terminal::units::{self, grouped, scaled};
use ringside_transmit::{FLOWS_MAX, Job, Limits, Load, Report, SenderKind, Shape, Sizes};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Bytes of a capture that are held in memory to be sent again and again.
const REPLAY_BYTES_MAX: usize = 1 << 30;

/// How long one read of a capture may wait, which matters for pipes only.
const READ_WAIT: Duration = Duration::from_millis(100);

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
    let (a, b) = (&status.sender_namespace, &status.receiver_namespace);
    let name = match config.name.as_str() {
        "lab" => String::new(),
        name => format!(" --name {name}"),
    };
    eprintln!(
        "test network {} is up: {} in {a} ({SENDER_ADDRESS}) -- {} in {b} ({RECEIVER_ADDRESS})\n\n\
         In one terminal, receive:\n  \
         sudo ringside capture --netns {b} --count -i {}\n  \
         sudo ip netns exec {b} ringside capture -i {} -w DIR\n\
         In another, send:\n  \
         sudo ringside lab send{name} --count 1000000 --size imix --flows 1000\n  \
         sudo ip netns exec {a} ping {RECEIVER_ADDRESS}\n\
         At last:\n  \
         sudo ringside lab down{name}",
        config.name,
        status.sender_interface,
        status.receiver_interface,
        status.receiver_interface,
        status.receiver_interface,
    );
    Ok(ExitCode::SUCCESS)
}

fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let labs = ringside_lab::list()?;
    for lab in &labs {
        if args.json {
            println!("{}", serde_json::json!({ "lab": lab }));
        } else {
            println!("{}", status_text(lab));
        }
    }
    if labs.is_empty() {
        eprintln!("there is no test network; make one: `sudo ringside lab up`");
        return Ok(ExitCode::from(1));
    }
    Ok(ExitCode::SUCCESS)
}

fn status_text(lab: &LabStatus) -> String {
    let state = match (lab.whole, lab.leftover, lab.owner_pid) {
        (false, _, _) => "damaged: `ringside lab down` removes the rest".into(),
        (_, true, _) => "left behind: the next `ringside lab up` removes it".into(),
        (_, _, Some(pid)) => format!("up while process {pid} runs"),
        _ => "up".into(),
    };
    let napi = match lab.config.napi {
        Napi::Softirq => "receives on the sender's CPU".into(),
        Napi::Threaded => "receives in threads".into(),
        Napi::Pinned(cpu) => format!("receives on CPU {cpu}"),
        Napi::Moderated { cpu, interval_us } => {
            format!("receives on CPU {cpu} every {interval_us} us")
        }
    };
    format!(
        "{}: {state}\n  {} in {} -- {} in {}, queues {}, MTU {}, {napi}",
        lab.config.name,
        lab.sender_interface,
        lab.sender_namespace,
        lab.receiver_interface,
        lab.receiver_namespace,
        lab.config.queues,
        lab.config.mtu,
    )
}

fn send(args: &SendArgs) -> anyhow::Result<ExitCode> {
    let lab = ringside_lab::status(&args.name.name)?;
    if !lab.whole {
        bail!("the test network {0} is damaged; `ringside lab down --name {0}`", args.name.name);
    }
    let job = job(args, &lab)?;
    let stop = StopSignal::install()?;
    let report = ringside_transmit::run(&job, &|| stop.is_set())?;
    if args.json {
        println!("{}", serde_json::json!({ "sent": report }));
    } else {
        eprint!("{}", report_text(&report, &lab));
    }
    Ok(ExitCode::SUCCESS)
}

fn job(args: &SendArgs, lab: &LabStatus) -> anyhow::Result<Job> {
    let (load, pass) = match &args.read {
        None => (Load::Numbered(Shape::new(args.size.clone(), args.flows)?), None),
        Some(path) => {
            let frames = read_frames(path)?;
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

/// The Ethernet frames of a capture that can be sent as they are.
fn read_frames(path: &PathBuf) -> anyhow::Result<Vec<OwnedFrame>> {
    let mut source = ringside_store::open(std::slice::from_ref(path))?;
    let (mut frames, mut bytes, mut cut, mut others) = (Vec::new(), 0usize, 0u64, 0u64);
    while !source.is_finished() {
        let mut batch_frames = Vec::new();
        if let Some(batch) = source.next_batch(READ_WAIT)? {
            batch_frames.extend(batch.iter().map(|frame| frame.to_owned_frame()));
        }
        for frame in batch_frames {
            let link = SourceInterface::of(&frame.meta, source.interfaces())?.link_type;
            let sendable = frame.bytes.len() >= usize::from(ringside_transmit::FRAME_BYTES_MIN)
                && frame.bytes.len() <= usize::from(ringside_transmit::FRAME_BYTES_MAX);
            if !sendable || link != LinkType::ETHERNET {
                others += 1;
                continue;
            }
            cut += u64::from((frame.bytes.len() as u32) < frame.meta.wire_bytes);
            bytes += frame.bytes.len();
            if bytes > REPLAY_BYTES_MAX {
                let limit = units::grouped(REPLAY_BYTES_MAX as u64);
                bail!("{} holds more than {limit} bytes to send; cut it first", path.shown());
            }
            frames.push(frame);
        }
    }
    for notice in source.notices() {
        eprintln!("ringside: {notice}");
    }
    if cut > 0 {
        eprintln!("ringside: {cut} frames were cut when they were captured: sent as they are");
    }
    if others > 0 {
        eprintln!("ringside: {others} frames are no Ethernet of 14 to 65,535 bytes: left out");
    }
    Ok(frames)
}

fn report_text(report: &Report, lab: &LabStatus) -> String {
    let sender = match report.sender {
        SenderKind::Live | SenderKind::Even => "live frames",
        SenderKind::Packet => "a packet socket",
        SenderKind::Sink(kind) => kind.name(),
    };
    let seconds = report.elapsed_ns as f64 / 1e9;
    let mut text = format!(
        "offered   {:>16}  {}B by {sender}, {seconds:.3} s, {}frames/s{}\n\
         handed    {:>16}  accepted by {} in {}, {}frames/s\n\
         refused   {:>16}  its ring was full\n",
        grouped(report.offered),
        scaled(report.offered_bytes as f64),
        scaled(report.offered_per_sec()),
        if report.stopped { ", stopped" } else { "" },
        grouped(report.handed),
        lab.receiver_interface,
        lab.receiver_namespace,
        scaled(report.handed_per_sec()),
        grouped(report.refused_ring_full),
    );
    if report.refused_before_ring > 0 {
        let refused = grouped(report.refused_before_ring);
        text += &format!("refused   {refused:>16}  by the socket or the driver, before the ring\n");
    }
    if let Some(received) = report.received_by_interface.filter(|&count| count != report.handed) {
        let received = grouped(received);
        text += &format!("received  {received:>16}  by the interface, others' frames included\n");
    }
    text
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
