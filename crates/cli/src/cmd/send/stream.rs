//! `ringside send --stream`: bulk payload as segments.

mod payload;
mod report;
mod route;

use super::TargetArgs;
use anyhow::Context;
use clap::Args;
use payload::Payload;
use report::{Ended, Report};
use ringside_netdev as netdev;
use ringside_segment::{MTU_BYTES_MAX, Segmenter, Settings, Template};
use ringside_sys::thread::pin_to_cpu;
use ringside_terminal::signals::{StopSignal, Wanted};
use ringside_terminal::{progress, say};
use ringside_transmit::{BUFFER_BYTES, Stream, StreamConfig, Way, wire_bytes};
use route::Ends;
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Instant;

/// Buffers: some are in flight while one is filled. Live frames go when all are full, 1 MiB in a
/// call.
const BUFFERS: usize = 16;
/// How often the live line and the count of a slow stream go on.
const PIECES_PER_SEC: u64 = 20;

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
    let (start, duration) = (Instant::now(), target.duration);
    let (signal, piece_bytes) = (stop.clone(), piece_bytes(mss, bytes_per_sec));
    let is_over =
        move || signal.is_set() || duration.is_some_and(|duration| start.elapsed() >= duration);
    stream.end_when(is_over.clone());
    let signals = (&stop, &statistics);
    let mut job = Job { target, signals, is_over: &is_over, piece_bytes, sent: 0 };
    let ended = job.send(&mut stream, &mut payload, start);
    let notes = stream.notes();
    let ((counters, at_the_end), elapsed) = (stream.finish(), start.elapsed());
    let failed = ended.as_ref().err().map(|error| format!("{error:#}"));
    let failures = failed.into_iter().chain(at_the_end.map(|error| error.to_string()));
    let failures = failures.collect::<Vec<_>>();
    let ended = ended.ok().filter(|_| failures.is_empty()).unwrap_or(Ended::Failed);
    // A piece may end in its middle: the frames that were offered tell what they carried.
    let payload_bytes = counters.offered_bytes.saturating_sub(counters.offered * header_bytes);
    let report = Report::new((&ends, args), mss, (payload_bytes, counters), elapsed, ended, notes);
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
    signals: (&'a StopSignal, &'a Wanted),
    /// A signal came, or the time is over: no wait lasts longer.
    is_over: &'a dyn Fn() -> bool,
    piece_bytes: usize,
    /// Payload bytes of whole pieces so far.
    sent: u64,
}

impl Job<'_> {
    fn send(
        &mut self,
        stream: &mut Stream,
        payload: &mut Payload,
        start: Instant,
    ) -> anyhow::Result<Ended> {
        let bar = progress::line_bar();
        let mut shown = start;
        let mut left_frames = self.target.count;
        let mss = stream.mss_bytes();
        for buffer in (0..stream.buffers()).cycle() {
            if (self.is_over)() {
                return Ok(self.cut_short());
            }
            let frames_max =
                left_frames.map_or(usize::MAX, |left| left.try_into().unwrap_or(usize::MAX));
            let bytes_max = self.piece_bytes.min(frames_max.saturating_mul(mss));
            if bytes_max == 0 {
                return Ok(Ended::Count);
            }
            let Some(bytes) = payload.fill(stream, buffer, bytes_max, self.is_over)? else {
                return Ok(self.cut_short());
            };
            if !stream.send(buffer, bytes)? {
                return Ok(self.cut_short());
            }
            self.sent += bytes as u64;
            left_frames = left_frames.map(|left| left - bytes.div_ceil(mss) as u64);
            if bytes < bytes_max {
                break;
            }
            let line = || report::line(self.sent, start.elapsed());
            progress::tell_wanted(self.signals.1, &bar, line);
            if shown.elapsed() >= progress::INTERVAL {
                shown = Instant::now();
                bar.set_message(line());
            }
        }
        Ok(Ended::Done)
    }

    /// Why it is over.
    fn cut_short(&self) -> Ended {
        if self.signals.0.is_set() { Ended::Stopped } else { Ended::Time }
    }
}
