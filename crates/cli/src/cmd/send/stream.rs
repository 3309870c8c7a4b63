//! `ringside send --stream`: bulk payload as segments.

mod payload;
mod report;
mod route;

use super::TargetArgs;
use crate::signals::StopSignal;
use crate::{live, say};
use anyhow::Context;
use clap::Args;
use payload::Payload;
use report::{Ended, Report};
use ringside_segment::{MTU_BYTES_MAX, Segmenter, Settings, Template};
use ringside_sys::netdev;
use ringside_sys::thread::pin_to_cpu;
use ringside_transmit::{BUFFER_BYTES, Stream, StreamConfig, Way, wire_bytes};
use route::Ends;
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Instant;

/// Buffers: some are in flight while one is filled. Live frames go when all are full, 1 MiB in a
/// call.
const BUFFERS: usize = 16;
/// How long a paced piece may take, after which a signal and the clock are looked at.
const PIECES_PER_SEC: u64 = 20;

/// What is streamed, and how it is cut.
#[derive(Args)]
#[command(next_help_heading = "Stream")]
pub struct StreamArgs {
    /// Send a file, standard input (`-`), or so many bytes of a pattern (10GB) as segments of TCP
    /// or datagrams of UDP. There is no connection and nothing is sent twice: TCP segments are a
    /// load for links, filters and recorders, and a host that gets them answers with resets.
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
    let mut payload = Payload::open(args.stream.as_deref().unwrap_or_default())?;
    let cpu = target.one_cpu("a stream")?;
    target.enter()?;
    target.check_interface()?;
    let device = netdev::by_name(&target.interface)?.context("the interface is gone")?;
    let mtu = (device.mtu_bytes as usize).min(MTU_BYTES_MAX);
    let settings = Settings { mss_bytes: args.mss, ..Settings::mtu(mtu) };
    let ends = Ends::find(target, args, &device)?;
    let template = ends.template(args.udp)?;
    // Sizes are checked before a socket is opened, and a rate is reckoned by them.
    let mss = Segmenter::new(&template, settings).context("--mss does not fit")?.mss_bytes();
    let bytes_per_sec = payload_rate(target, &template, mss)?;
    if let Some(cpu) = cpu {
        pin_to_cpu(cpu)?;
    }
    let stop = StopSignal::install()?;
    let interface = target.interface.clone();
    let (way, buffers) = (args.way, BUFFERS);
    let config = StreamConfig { interface, queue: 0, way, template, settings, buffers };
    let mut stream = Stream::open(&config)?;
    if let Some(bytes_per_sec) = bytes_per_sec {
        stream.pace(bytes_per_sec);
    }
    let mut job =
        Job { target, stop: &stop, piece_bytes: piece_bytes(mss, bytes_per_sec), sent: 0 };
    let start = Instant::now();
    let ended = job.send(&mut stream, &mut payload, start);
    let notes = stream.notes();
    let (counters, elapsed) = (stream.finish(), start.elapsed());
    let (ended, failure) = match ended {
        Ok(ended) => (ended, None),
        Err(error) => (Ended::Failed, Some(error)),
    };
    let report = Report::new((&ends, args), mss, (job.sent, counters), elapsed, ended, notes);
    if target.json {
        say::data(serde_json::json!({ "sent": report }))?;
    } else {
        say::message(report.text(&target.interface).trim_end());
    }
    if let Some(failure) = failure {
        say::message(format_args!("ringside: {failure:#}"));
    }
    Ok(report.status())
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

/// Bytes that are sent at once: whole segments, so that none but the last is short.
fn piece_bytes(mss: usize, bytes_per_sec: Option<u64>) -> usize {
    let most = BUFFER_BYTES / mss;
    let paced = bytes_per_sec.map_or(most as u64, |rate| rate / PIECES_PER_SEC / mss as u64);
    usize::try_from(paced).unwrap_or(most).clamp(1, most) * mss
}

/// A stream on its way.
struct Job<'a> {
    target: &'a TargetArgs,
    stop: &'a StopSignal,
    piece_bytes: usize,
    /// Payload bytes so far.
    sent: u64,
}

impl Job<'_> {
    fn send(
        &mut self,
        stream: &mut Stream,
        payload: &mut Payload,
        start: Instant,
    ) -> anyhow::Result<Ended> {
        let bar = live::line_bar();
        let mut shown = start;
        let mut left_frames = self.target.count;
        let mss = stream.mss_bytes();
        for buffer in (0..stream.buffers()).cycle() {
            if self.stop.is_set() {
                return Ok(Ended::Stopped);
            }
            if self.target.duration.is_some_and(|duration| start.elapsed() >= duration) {
                return Ok(Ended::Time);
            }
            let frames_max =
                left_frames.map_or(usize::MAX, |left| left.try_into().unwrap_or(usize::MAX));
            let bytes_max = self.piece_bytes.min(frames_max.saturating_mul(mss));
            if bytes_max == 0 {
                return Ok(Ended::Count);
            }
            let bytes = payload.fill(stream, buffer, bytes_max)?;
            stream.send(buffer, bytes)?;
            self.sent += bytes as u64;
            left_frames = left_frames.map(|left| left - bytes.div_ceil(mss) as u64);
            if bytes < bytes_max {
                break;
            }
            if shown.elapsed() >= live::INTERVAL {
                shown = Instant::now();
                bar.set_message(report::line(self.sent, start.elapsed()));
            }
        }
        Ok(Ended::Done)
    }
}
