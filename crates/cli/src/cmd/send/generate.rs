//! `ringside send` without a capture: frames of our own making.

use super::{TargetArgs, live, range};
use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use ringside_core::{LinkType, SourceInterface};
use ringside_report::send::{sender_name, text};
use ringside_terminal::say;
use ringside_terminal::signals::{StopSignal, Wanted};
use ringside_terminal::units::grouped;
use ringside_transmit::sink::{self, SinkConfig, SinkKind};
use ringside_transmit::{
    End, FLOWS_MAX, Field, Job, LIVE_FRAME_BYTES_MAX, Limits, Load, Numbering, Range, SenderKind,
    Shape, Sizes, Stack, Template, Wire, live_obstacle, wire_bytes,
};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// How long one read of a template's file may wait, which matters for pipes only.
const READ_WAIT: Duration = Duration::from_millis(100);

/// Arguments of generated frames.
#[derive(Args)]
#[command(next_help_heading = "Generated frames")]
pub struct GenerateArgs {
    /// Frame sizes in bytes, without the frame check sequence: 64, a list 64,512,1514, a range
    /// 64-1514, or imix. By default 64, or the template's own.
    #[arg(long, value_name = "SIZES")]
    size: Option<Sizes>,

    /// Flows: flow n has the n-th value of each range below, round and round. By default as many as
    /// the ranges make different, and without ranges 1.
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=FLOWS_MAX as i64))]
    flows: Option<u32>,

    /// Source addresses: 192.0.2.1, 192.0.2.1-192.0.2.99, 192.0.2.0/24, 2001:db8::/64.
    #[arg(long, value_name = "RANGE", value_parser = range(Field::SourceAddress))]
    src: Option<Range>,

    /// Destination addresses.
    #[arg(long, value_name = "RANGE", value_parser = range(Field::DestinationAddress))]
    dst: Option<Range>,

    /// Source ports: 1024 or 1024-2047.
    #[arg(long, value_name = "RANGE", value_parser = range(Field::SourcePort))]
    src_port: Option<Range>,

    /// Destination ports.
    #[arg(long, value_name = "RANGE", value_parser = range(Field::DestinationPort))]
    dst_port: Option<Range>,

    /// TCP instead of UDP.
    #[arg(long, conflicts_with = "template")]
    tcp: bool,

    /// UDP over IPv4 with a checksum; TCP and IPv6 always have one.
    #[arg(long, conflicts_with = "template")]
    checksum: bool,

    /// Frames like this one of a capture: FILE, its first frame, or FILE:N.
    #[arg(long, value_name = "FILE[:N]")]
    template: Option<String>,

    /// No numbers in the payload: all frames of a flow are the same.
    #[arg(long)]
    no_number: bool,

    /// In the payload also the time when each frame was made (TAI).
    #[arg(long, conflicts_with = "no_number")]
    stamp: bool,

    /// How frames are sent.
    #[arg(long, value_enum, default_value_t = Engine::Auto)]
    engine: Engine,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// Live frames where the interface takes them, else af-xdp, af-packet or pcap.
    Auto,
    /// Frames made inside the kernel: fastest, up to 3,408 bytes.
    Live,
    /// AF_XDP sockets, a queue for each thread: past the stack.
    AfXdp,
    /// Packet sockets past the queueing discipline: any size, any interface of Ethernet.
    AfPacket,
    /// Packet sockets with a ring in shared memory.
    TxRing,
    /// libpcap: any device that it knows.
    Pcap,
}

/// Generates and sends; the calling thread is in the namespace of the interface.
pub(super) fn run(target: &TargetArgs, args: &GenerateArgs) -> anyhow::Result<ExitCode> {
    target.enter()?;
    target.check_interface()?;
    // A template may be a pipe that no process writes to: until it is read, a signal just ends
    // this.
    let job = job(target, args)?;
    let (stop, statistics) = (StopSignal::install()?, Wanted::statistics()?);
    let report = live::watched(&job, &stop, &statistics)?;
    if target.json {
        say::data(serde_json::json!({ "sent": report }))?;
    } else {
        say::message(text(&report, &target.interface).trim_end());
    }
    if let Some(failure) = &report.failure {
        say::message(format_args!("ringside: {failure}"));
        return Ok(ExitCode::from(2));
    }
    let is_whole = report.handed == report.offered && report.handed > 0;
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn job(target: &TargetArgs, args: &GenerateArgs) -> anyhow::Result<Job> {
    let shape = shape(target, args)?;
    let interface = &target.interface;
    let rate_per_sec = target.frames_per_sec(bits_per_frame(&shape.sizes))?;
    let rate_per_sec = rate_per_sec.map(|per_sec| (per_sec.round() as u64).max(1));
    ensure!(
        rate_per_sec.is_some() || target.count.is_some(),
        "give a rate (--rate 100% or 1Mpps) or a count (--count N): nothing is sent as fast as it \
         goes without an end; or name a capture (-r FILE)"
    );
    let wire =
        Wire { sender: End { namespace: None, interface: interface.clone() }, receiver: None };
    let (engine, reason) = choose(args, &wire, &shape.sizes)?;
    let sender = match engine {
        Some(kind) => SenderKind::Sink(kind),
        None if rate_per_sec.is_some() => SenderKind::Even,
        None => SenderKind::Live,
    };
    say::message(format_args!("sending through {interface} by {}: {reason}", sender_name(sender)));
    // Without an end of its own a paced run lasts until it is stopped.
    let limits = Limits::new(
        target.count.or(target.duration.is_none().then_some(u64::MAX)),
        target.duration,
    )?;
    let cpus = target.cpus.clone();
    Ok(Job { sender, wire, load: Load::Numbered(shape), cpus, rate_per_sec, limits })
}

/// Bits of the link that a frame of `sizes` takes in the mean.
fn bits_per_frame(sizes: &Sizes) -> f64 {
    let table = sizes.table();
    let bytes: u64 = table.iter().map(|&bytes| wire_bytes(bytes.into())).sum();
    8.0 * bytes as f64 / table.len().max(1) as f64
}

/// The sink, or none for live frames, and why.
fn choose(
    args: &GenerateArgs,
    wire: &Wire,
    sizes: &Sizes,
) -> anyhow::Result<(Option<SinkKind>, String)> {
    let asked = "as asked for".to_string();
    let is_long = usize::from(sizes.longest()) > LIVE_FRAME_BYTES_MAX;
    Ok(match args.engine {
        Engine::Live => (None, asked),
        Engine::AfXdp => (Some(SinkKind::AfXdp), asked),
        Engine::AfPacket => (Some(SinkKind::AfPacket), asked),
        Engine::TxRing => (Some(SinkKind::TxRing), asked),
        Engine::Pcap => (Some(SinkKind::Pcap), asked),
        Engine::Auto => {
            let obstacle = match is_long {
                true => Some("live frames carry at most 3,408 bytes".to_owned()),
                false => live_obstacle(wire)?.map(|obstacle| obstacle.to_string()),
            };
            let Some(why) = obstacle else {
                return Ok((None, "its driver takes redirected frames, the fastest way".into()));
            };
            // Opened to see what can be had; each thread opens its own.
            let opened = sink::open(None, &SinkConfig::new(&wire.sender.interface))?;
            (Some(opened.sink.kind()), format!("{why}; {}", opened.notes.join("; ")))
        }
    })
}

fn shape(target: &TargetArgs, args: &GenerateArgs) -> anyhow::Result<Shape> {
    let ranges: Vec<Range> = [
        target.mac_src,
        target.mac_dst,
        target.vlan,
        args.src,
        args.dst,
        args.src_port,
        args.dst_port,
    ]
    .into_iter()
    .flatten()
    .collect();
    let template = match &args.template {
        Some(text) => template(text)?,
        None => Template::of(Stack {
            vlan: target.vlan.is_some(),
            ipv6: args.src.or(args.dst).is_some_and(|range| range.is_v6()),
            tcp: args.tcp,
            checksum: args.checksum,
        }),
    };
    let numbering = match (args.no_number, args.stamp) {
        (true, _) => Numbering::None,
        (false, true) => Numbering::Stamp,
        (false, false) if args.template.is_some() && !template.can_be_numbered() => Numbering::None,
        (false, false) => Numbering::Number,
    };
    let own = u16::try_from(template.frame().len()).unwrap_or(u16::MAX);
    let sizes = match (&args.size, &args.template) {
        (Some(sizes), _) => sizes.clone(),
        (None, Some(_)) => Sizes::fixed(own)?,
        (None, None) => Sizes::fixed(64.max(Shape::bytes_min(&template, numbering)))?,
    };
    let flows = args.flows.unwrap_or_else(|| Shape::different_flows(&ranges));
    Ok(Shape::like(template, ranges, numbering, sizes, flows)?)
}

/// The frame that `text` names.
fn template(text: &str) -> anyhow::Result<Template> {
    let (path, number) = match text.rsplit_once(':') {
        Some((path, number)) if !Path::new(text).exists() => {
            let number = number.parse::<u64>().ok().filter(|&number| number > 0);
            (path, number.with_context(|| format!("no number of a frame: {text}; write FILE:1"))?)
        }
        _ => (text, 1),
    };
    let mut source = ringside_store::open(&[path.into()])?;
    let mut count = 0u64;
    while !source.is_finished() {
        let Some(batch) = source.next_batch(READ_WAIT)? else { continue };
        let mut wanted = None;
        for frame in batch.iter() {
            count += 1;
            if count == number {
                wanted = Some(frame.to_owned_frame());
            }
        }
        drop(batch);
        let Some(frame) = wanted else { continue };
        ensure!(
            SourceInterface::of(&frame.meta, source.interfaces())?.link_type == LinkType::ETHERNET,
            "frame {number} of {path} is no Ethernet frame, only those can be sent"
        );
        ensure!(
            frame.bytes.len() as u32 == frame.meta.wire_bytes,
            "frame {number} of {path} was cut when it was captured; take a whole one ({path}:N)"
        );
        return Template::captured(frame.bytes)
            .with_context(|| format!("frame {number} of {path}"));
    }
    bail!("{path} has {} frames, and no frame {number}", grouped(count))
}
