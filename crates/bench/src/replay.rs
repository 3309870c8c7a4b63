//! `ringside bench replay`: how far from their times frames of a capture are sent, next to
//! tcpreplay. The far end records them with the kernel's stamps; the error of a frame is how far
//! its stamp is from its time in the capture, less the median of all, which is when the replay
//! began.

use super::TOOL_CPU;
use super::load::{self, SENDER_CPU};
use super::output::{Figures, OutputArgs};
use super::place::Workspace;
use super::receiver::{Idle, Program, Receiver};
use super::results::{number, record, rounded};
use super::tools;
use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use hdrhistogram::Histogram;
use ringside_core::{FrameMeta, OwnedFrame, SourceInterface, Timestamp};
use ringside_lab::{Lab, LabConfig};
use ringside_store::Format;
use ringside_terminal::signals::StopSignal;
use ringside_terminal::{columns, say, units};
use ringside_transmit::{Shape, Sizes};
use rustix::process::Signal;
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Time of the first frame: any moment will do.
const BEGIN_NS: u64 = 1_700_000_000_000_000_000;
/// Longest run of a tool beyond what the capture lasts.
const SLACK: Duration = Duration::from_secs(20);
/// How long one read of a file may wait, which matters for pipes only.
const READ_WAIT: Duration = Duration::from_millis(100);
/// How long the far end's recorder is left alone after the last frame.
const SETTLE: Duration = Duration::from_millis(500);
/// Significant digits of the errors.
const DIGITS: u8 = 3;

/// Columns of the CSV file, keys of the JSON lines; errors in microseconds.
const COLUMNS: [&str; 8] =
    ["tool", "rate", "frames", "p50_us", "p90_us", "p99_us", "p99_9_us", "max_us"];
/// Quantiles that are reported.
const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 1.0];

/// A tool that replays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// This program.
    Ringside,
    /// tcpreplay as it is by itself.
    Tcpreplay,
    /// tcpreplay --timer=gtod: it looks at the clock all the time.
    #[value(name = "tcpreplay-gtod")]
    TcpreplaySpinning,
}

impl Kind {
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// On [`TOOL_CPU`]: tcpreplay has one thread; ours puts that which sends there.
    fn command(self, interface: &str, file: &Path) -> Vec<OsString> {
        let preload = format!("taskset -c {TOOL_CPU} tcpreplay --preload-pcap");
        let line = match self {
            Kind::Ringside => format!("send -i {interface} --cpus {TOOL_CPU} -r"),
            Kind::Tcpreplay => format!("{preload} --intf1={interface}"),
            Kind::TcpreplaySpinning => format!("{preload} --timer=gtod --intf1={interface}"),
        };
        let own = (self == Kind::Ringside).then(tools::own_program);
        let words = line.split_whitespace().map(OsString::from);
        own.into_iter().chain(words).chain([file.into()]).collect()
    }
}

/// Arguments of `bench replay`.
#[derive(Args)]
pub(super) struct ReplayBench {
    /// Who replays; those that are not installed are left out and named.
    #[arg(long, value_delimiter = ',', value_enum, value_name = "LIST")]
    #[arg(default_value = "ringside,tcpreplay,tcpreplay-gtod")]
    tools: Vec<Kind>,

    /// Frames a second of the captures, which are made: gaps are random, sizes 64 to 1514 bytes.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "LIST",
        default_value = "100,1000,10000,100000"
    )]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rates: Vec<u64>,

    /// How long the captures last.
    #[arg(long = "for", value_parser = units::duration, default_value = "5s")]
    duration: Duration,

    #[command(flatten)]
    output: OutputArgs,
}

/// One replay.
struct Row {
    kind: Kind,
    rate: u64,
    errors: Histogram<u64>,
}

/// Measures; prints and writes the results.
pub(super) fn run(args: &ReplayBench) -> anyhow::Result<ExitCode> {
    let stop = StopSignal::install()?;
    load::check_cpus()?;
    let mut kinds = args.tools.clone();
    kinds.retain(|&kind| kind == Kind::Ringside || tools::is_in_path("tcpreplay"));
    if kinds.len() < args.tools.len() {
        say::message("tcpreplay: absent, not run");
    }
    let files = Workspace::in_memory()?;
    let mut rows = Vec::new();
    for &rate in &args.rates {
        let capture = files.path().join(format!("capture-{rate}.pcap"));
        let times = make(&capture, rate, args.duration)?;
        for &kind in &kinds {
            say::message(format_args!("{rate} frames a second: {}", kind.name()));
            let stamps = replay(kind, &capture, &files, args.duration, &stop)?;
            rows.push(Row { kind, rate, errors: errors(&times, &stamps)? });
        }
    }
    args.output.put(&Results { rows })?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a capture with a mean rate of `rate` frames a second; returns their times.
fn make(path: &Path, rate: u64, duration: Duration) -> anyhow::Result<Vec<u64>> {
    let file = File::create(path).with_context(|| format!("writing {}", path.display()))?;
    let mut writer = Format::Pcap.writer(file, &[SourceInterface::ethernet("")])?;
    let shape = Shape::new(Sizes::uniform(64, 1514)?, 100)?;
    let count = (rate as f64 * duration.as_secs_f64()).ceil() as u64;
    let (mut times, mut now) = (Vec::new(), 0.0);
    for sequence in 0..count.max(2) {
        let time = BEGIN_NS + now as u64;
        let bytes = shape.frame(0, sequence);
        let wire_bytes = bytes.len() as u32;
        let meta = FrameMeta { timestamp: Timestamp(time), wire_bytes, ..FrameMeta::default() };
        writer.write(&OwnedFrame { bytes, meta }.as_frame())?;
        times.push(time);
        // An exponential distribution, as independent arrivals have it; the numbers repeat.
        let spread = sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11;
        let uniform = (spread as f64 + 1.0) / (1u64 << 53) as f64;
        now -= uniform.ln() * 1e9 / rate as f64;
    }
    writer.finish(&[])?;
    Ok(times)
}

/// Replays the capture by one tool; gives the far end's stamps.
fn replay(
    kind: Kind,
    capture: &Path,
    files: &Workspace,
    duration: Duration,
    stop: &StopSignal,
) -> anyhow::Result<Vec<u64>> {
    load::check(stop)?;
    let name = format!("bench{}-replay", std::process::id());
    // Without a NAPI the kernel stamps frames when they arrive, as a card does, and not when they
    // are looked at.
    let lab = Lab::up(&LabConfig { name, xdp_pass: false, ..LabConfig::default() })?;
    let status = lab.status();
    let recorded = files.fresh()?.join("got.pcapng");
    let program = recorder(status.receiver_interface, &recorded);
    let namespace = &status.receiver_namespace;
    let recorder = Receiver::start_on(SENDER_CPU, namespace, program, &[], stop)?;
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &status.sender_namespace]);
    command.args(kind.command(status.sender_interface, capture));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().context("starting ip netns exec")?;
    let start = Instant::now();
    let ended = loop {
        if let Some(ended) = child.try_wait()? {
            break ended;
        }
        if stop.is_set() || start.elapsed() > duration + SLACK {
            // An error says that it has ended already.
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    load::check(stop)?;
    ensure!(ended.success(), "{} failed: {ended}", kind.name());
    recorder.finish(Instant::now())?;
    stamps(&recorded)
}

/// What the far end sends of itself does not fall among the frames that came.
fn recorder(interface: &str, file: &Path) -> Program<'static> {
    let line = format!("capture -Qin --json --no-control -i {interface} -w");
    let words = line.split_whitespace().map(OsString::from);
    Program {
        name: "the far end's recorder".into(),
        command: [tools::own_program()].into_iter().chain(words).chain([file.into()]).collect(),
        ready_text: "listening on",
        has_packet_socket: true,
        idle: Idle::Watched,
        settle: SETTLE,
        stop_signal: Signal::TERM,
        hangs_at_end: false,
        summary: Box::new(|output, _| tools::of_ringside(output)),
    }
}

fn stamps(file: &Path) -> anyhow::Result<Vec<u64>> {
    let mut source = ringside_store::open(&[file.to_owned()])?;
    let mut stamps = Vec::new();
    while !source.is_finished() {
        if let Some(batch) = source.next_batch(READ_WAIT)? {
            stamps.extend(batch.iter().map(|frame| frame.meta.timestamp.0));
        }
    }
    Ok(stamps)
}

/// How far each frame is from its time, in nanoseconds.
fn errors(times: &[u64], stamps: &[u64]) -> anyhow::Result<Histogram<u64>> {
    ensure!(
        times.len() == stamps.len(),
        "of {} frames {} came out at the far end",
        times.len(),
        stamps.len()
    );
    let offsets = times.iter().zip(stamps).map(|(&time, &stamp)| stamp as i64 - time as i64);
    let mut sorted: Vec<i64> = offsets.clone().collect();
    sorted.sort_unstable();
    let median = sorted[sorted.len() / 2];
    let mut histogram = Histogram::new(DIGITS).context("a histogram of errors")?;
    for offset in offsets {
        histogram.record(offset.abs_diff(median)).context("an error")?;
    }
    Ok(histogram)
}

fn quantiles_us(row: &Row) -> [f64; 5] {
    QUANTILES.map(|quantile| row.errors.value_at_quantile(quantile) as f64 / 1e3)
}

/// Everything that was measured.
struct Results {
    rows: Vec<Row>,
}

impl Figures for Results {
    const COLUMNS: &'static [&'static str] = &COLUMNS;

    fn text(&self) -> String {
        let head = ["tool", "frames/s", "frames", "median us", "90 %", "99 %", "99.9 %", "largest"];
        let line = |row: &Row| {
            let quantiles = quantiles_us(row).map(|error| number(error, 1));
            let fixed = vec![row.kind.name(), row.rate.to_string(), row.errors.len().to_string()];
            [fixed, quantiles.to_vec()].concat()
        };
        let title =
            "How far from its time a frame came out at the far end, by the kernel's stamps\n";
        let lines: Vec<Vec<String>> = self.rows.iter().map(line).collect();
        title.to_owned() + &columns::text(&head, &lines)
    }

    fn records(&self) -> Vec<Map<String, Value>> {
        self.rows.iter().map(fields).collect()
    }
}

fn fields(row: &Row) -> Map<String, Value> {
    let [p50, p90, p99, p99_9, max] = quantiles_us(row).map(|error| rounded(error, 3));
    record([
        ("tool", json!(row.kind.name())),
        ("rate", json!(row.rate)),
        ("frames", json!(row.errors.len())),
        ("p50_us", p50),
        ("p90_us", p90),
        ("p99_us", p99),
        ("p99_9_us", p99_9),
        ("max_us", max),
    ])
}
