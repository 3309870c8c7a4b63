//! `ringside send --stream`: bulk payload as segments.

use super::{TargetArgs, To, single, single_mac};
use crate::words;
use anyhow::{Context, bail};
use clap::Args;
use ringside_netdev as netdev;
use ringside_report::send::stream::{self as report, Ended, Report};
use ringside_segment::{MTU_BYTES_MAX, Segmenter, Settings, Template};
use ringside_sys::thread::pin_to_cpu;
use ringside_terminal::signals::{StopSignal, Wanted};
use ringside_terminal::{progress, say, units};
use ringside_transmit::{Carried, Ends, GivenEnds, Payload, Stream, StreamConfig, Way, wire_bytes};
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Instant;

/// Buffers: some are in flight while one is filled. Live frames go when all are full, 1 MiB in a
/// call.
const BUFFERS: usize = 16;

/// What is streamed, and how it is cut.
#[derive(Args)]
#[command(next_help_heading = "Stream")]
pub struct StreamArgs {
    /// Send a file, standard input (`-`), or a number of bytes of a pattern (10GB) as segments of
    /// TCP or datagrams of UDP. There is no connection and nothing is sent twice: TCP segments are
    /// a load for links, filters and recorders, and a host that gets them answers with resets.
    #[arg(long, value_name = "FILE|SIZE|-")]
    stream: Option<String>,

    /// Datagrams of UDP instead, which any UDP socket receives.
    #[arg(long)]
    udp: bool,

    /// Payload bytes of each frame; by default what the MTU has room for.
    #[arg(long, value_name = "BYTES")]
    mss: Option<usize>,

    /// How segments are made: calls (a system call and a copy each), copies or chains (AF_XDP; the
    /// latter leave the payload where it is), kernel (the kernel cuts), live (a program inside the
    /// driver puts them together), fastest (copies or chains, tried on the first buffers).
    #[arg(long, value_name = "WAY", default_value_t = Way::Fastest)]
    way: Way,

    /// Source address; by default that from which the kernel would send there.
    #[arg(long, value_name = "ADDRESS")]
    from_address: Option<IpAddr>,
}

/// Runs the mode.
pub(super) fn run(target: &TargetArgs, args: &StreamArgs) -> anyhow::Result<ExitCode> {
    let text = args.stream.as_deref().unwrap_or_default();
    let mut payload = Payload::open(text, units::bytes(text).ok())?;
    let cpu = target.one_cpu("a stream")?;
    target.enter()?;
    target.check_interface()?;
    let device = netdev::by_name(&target.interface)?.context("the interface is gone")?;
    let mtu = (device.mtu_bytes as usize).min(MTU_BYTES_MAX);
    let settings = Settings { mss_bytes: args.mss, ..Settings::mtu(mtu) };
    let ends = Ends::find(&given_ends(target, args)?, &device)?;
    let template = ends.template(args.udp)?;
    // Sizes are checked before a socket is opened, and a rate is reckoned by them.
    let mss = Segmenter::new(&template, settings).context("--mss does not fit")?.mss_bytes();
    let header_bytes = template.header().len() as u64;
    let bytes_per_sec = payload_rate(target, &template, mss)?;
    if let Some(cpu) = cpu {
        pin_to_cpu(cpu)?;
    }
    let (stop, statistics) = (StopSignal::install()?, Wanted::statistics()?);
    let interface = target.interface.clone();
    let (way, buffers) = (args.way, BUFFERS);
    let config = StreamConfig { interface, queue: 0, way, template, settings, buffers };
    let mut stream = Stream::open(&config)?;
    if let Some(bytes_per_sec) = bytes_per_sec {
        stream.pace(bytes_per_sec);
    }
    let (start, duration, signal) = (Instant::now(), target.duration, stop.clone());
    stream.end_when(move || {
        signal.is_set() || duration.is_some_and(|duration| start.elapsed() >= duration)
    });
    let (bar, mut shown) = (progress::line_bar(), start);
    let carried = stream.carry(&mut payload, target.count, &mut |sent| {
        let line = || report::line(sent, start.elapsed());
        progress::tell_wanted(&statistics, &bar, line);
        if shown.elapsed() >= progress::INTERVAL {
            shown = Instant::now();
            bar.set_message(line());
        }
    });
    let was_stopped = stop.is_set();
    let notes = stream.notes();
    let ((counters, at_the_end), elapsed) = (stream.finish(), start.elapsed());
    let (carried, mut failures) = match carried {
        Ok(carried) => (Some(carried), Vec::new()),
        Err(error) => (None, vec![words::of_error(&error.into())]),
    };
    failures.extend(at_the_end.map(|error| error.to_string()));
    let ended = match carried.filter(|_| failures.is_empty()) {
        Some(Carried::All) => Ended::Done,
        Some(Carried::Count) => Ended::Count,
        Some(Carried::Over) if was_stopped => Ended::Stopped,
        Some(Carried::Over) => Ended::Time,
        None => Ended::Failed,
    };
    // A piece may end in its middle: the frames that were offered tell what they carried.
    let payload_bytes = counters.offered_bytes.saturating_sub(counters.offered * header_bytes);
    let (of, account) = ((&ends, args.udp, args.way), (payload_bytes, counters));
    let report = Report::new(of, mss, account, elapsed, ended, notes);
    if target.json {
        say::data(serde_json::json!({ "sent": report }))?;
    } else {
        say::message(report.text(&target.interface).trim_end());
    }
    for failure in failures {
        say::message(format_args!("ringside: {failure}"));
    }
    Ok(report.status())
}

/// What the options say of both ends.
fn given_ends(target: &TargetArgs, args: &StreamArgs) -> anyhow::Result<GivenEnds> {
    let destination = match &target.to {
        Some(To::Place(host, port)) => (host.clone(), *port),
        Some(To::Moment(_)) => bail!("--to of a stream is a place, as 10.0.0.2:9000"),
        None => bail!("say where the stream goes: --to HOST:PORT, as --to 10.0.0.2:9000"),
    };
    let what = "a stream";
    let vlan = target.vlan.map(|range| single(range, what)).transpose()?;
    Ok(GivenEnds {
        destination,
        source: args.from_address,
        source_mac: single_mac(target.mac_src, what)?,
        destination_mac: single_mac(target.mac_dst, what)?,
        vlan: vlan.map(|id| id as u16),
    })
}

/// Payload bytes a second, from a rate of frames or of bits on the wire.
fn payload_rate(
    target: &TargetArgs,
    template: &Template,
    mss: usize,
) -> anyhow::Result<Option<u64>> {
    let bits_per_frame = 8.0 * wire_bytes(template.header().len() + mss) as f64;
    let per_sec = target.frames_per_sec(bits_per_frame)?;
    Ok(per_sec.map(|frames| ((frames * mss as f64).round() as u64).max(1)))
}
