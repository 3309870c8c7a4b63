//! `ringside bench link`: what a path between two interfaces carries, in the manner of RFC 2544
//! (Benchmarking Methodology for Network Interconnect Devices): the highest rate without loss
//! (section 26.1), the time under way (26.2), loss by load (26.3), the longest burst without loss
//! (26.4). Frame sizes are those of the RFC, with the frame check sequence.

mod path;
mod results;

use self::path::{Drive, Path, Trial};
use self::results::{Results, Row};
use super::TOOL_CPU;
use super::load;
use super::network::Placement;
use super::output::{DrawArgs, OutputArgs};
use super::search::{self, Probe};
use anyhow::{Context, ensure};
use clap::Args;
use hdrhistogram::Histogram;
use ringside_ebpf::Latencies;
use ringside_lab::{Lab, LabConfig, Napi};
use ringside_terminal::signals::StopSignal;
use ringside_terminal::{say, units};
use ringside_transmit::{End, Numbering, Sizes};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

/// Bytes of the frame check sequence, which the RFC counts and no frame here has.
const FCS_BYTES: u16 = 4;
/// Widths of the searches, as a share of the upper end.
const RESOLUTION: f64 = 0.01;
/// Loads at which the time under way is measured, in per cent of the rate without loss.
const LATENCY_LOADS: [u32; 3] = [10, 50, 90];
/// Loads of the loss curve, in per cent of the full rate.
const CURVE_LOADS: [u32; 10] = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
/// Significant digits of the times; the program's own classes are as narrow as a 64th.
const HISTOGRAM_DIGITS: u8 = 3;
/// Loads for one size, roughly, for the estimate.
const LOADS_PER_SIZE: u32 = 40;

/// Arguments of `bench link`.
#[derive(Args)]
pub(super) struct LinkBench {
    /// Interface that frames are sent through; by default a private network is made.
    #[arg(short, long, value_name = "NAME", requires = "to")]
    interface: Option<String>,

    /// Interface where they come out.
    #[arg(long, value_name = "NAME", requires = "interface")]
    to: Option<String>,

    /// Network namespace of the sending interface.
    #[arg(long, value_name = "NAME", requires = "interface")]
    netns: Option<String>,

    /// Network namespace of the receiving interface.
    #[arg(long, value_name = "NAME", requires = "interface")]
    to_netns: Option<String>,

    /// Of the private network: where the receiving end is polled. In `own` it slows the generator
    /// to what it takes, in `shared` it has a CPU of its own and a ring that overflows.
    #[arg(long, value_enum, default_value = "own", conflicts_with = "interface")]
    placement: Placement,

    /// Frame sizes in bytes with the frame check sequence, as the RFC counts, and imix.
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    #[arg(default_value = "64,128,256,512,1024,1280,1518,imix")]
    sizes: Vec<LinkSize>,

    /// How long each load lasts. The RFC has 60s for the rate without loss.
    #[arg(long = "for", value_parser = units::duration, default_value = "1s")]
    duration: Duration,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    drawn: DrawArgs,
}

/// A frame size by the name that the RFC gives it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LinkSize {
    /// With the frame check sequence, or `imix`.
    pub(super) name: String,
    pub(super) sizes: Sizes,
}

impl LinkSize {
    /// Mean bytes of a frame, with its check sequence.
    pub(super) fn mean_bytes(&self) -> f64 {
        let table = self.sizes.table();
        let sum: f64 = table.iter().map(|&bytes| f64::from(bytes)).sum();
        sum / table.len().max(1) as f64 + f64::from(FCS_BYTES)
    }
}

impl FromStr for LinkSize {
    type Err = String;

    fn from_str(text: &str) -> Result<LinkSize, String> {
        let name = text.trim().to_lowercase();
        if name == "imix" {
            return Ok(LinkSize { name, sizes: Sizes::imix() });
        }
        let bytes = name.parse::<u16>().ok().filter(|&bytes| bytes >= 64);
        let bytes = bytes.ok_or("a size is 64 bytes or more, or imix")?;
        let sizes = Sizes::fixed(bytes - FCS_BYTES).map_err(|error| error.to_string())?;
        Ok(LinkSize { name, sizes })
    }
}

/// Measures; prints and writes the results.
pub(super) fn run(args: &LinkBench) -> anyhow::Result<ExitCode> {
    let stop = StopSignal::install()?;
    load::check_cpus()?;
    ensure!(!args.sizes.is_empty(), "name a size");
    let loads = LOADS_PER_SIZE * args.sizes.len() as u32;
    say::message(format_args!(
        "{} sizes: about {} minutes",
        args.sizes.len(),
        (args.duration * loads).as_secs().div_ceil(60)
    ));
    let (_lab, path) = open(args)?;
    let bench = Bench { path: &path, duration: args.duration, stop: &stop };
    let mut results = Results::default();
    for size in &args.sizes {
        say::message(format_args!("{} bytes", size.name));
        let row = bench.measure(size).with_context(|| format!("{} bytes", size.name))?;
        results.rows.push(row);
    }
    args.output.put(&results)?;
    args.drawn.draw(|dir| results.draw(dir))?;
    Ok(ExitCode::SUCCESS)
}

/// The path that was named, or one through a private network.
fn open(args: &LinkBench) -> anyhow::Result<(Option<Lab>, Path)> {
    if let (Some(sender), Some(receiver)) = (&args.interface, &args.to) {
        let sender = End { namespace: args.netns.clone(), interface: sender.clone() };
        let receiver = End { namespace: args.to_netns.clone(), interface: receiver.clone() };
        return Ok((None, Path::open(sender, receiver)?));
    }
    let lab = Lab::up(&LabConfig {
        name: format!("bench{}-link", std::process::id()),
        napi: match args.placement {
            Placement::Own => Napi::Softirq,
            Placement::Shared => Napi::Pinned(TOOL_CPU),
        },
        // The counting program is to be the only one.
        xdp_pass: false,
        gro: true,
        ..LabConfig::default()
    })?;
    let wire = lab.wire();
    let receiver = wire.receiver.context("a private network has two ends")?;
    let path = Path::open(wire.sender, receiver)?;
    Ok((Some(lab), path))
}

struct Bench<'a> {
    path: &'a Path,
    duration: Duration,
    stop: &'a StopSignal,
}

impl Bench<'_> {
    fn load(&self, size: &LinkSize, numbering: Numbering, drive: Drive) -> anyhow::Result<Trial> {
        self.path.load(&size.sizes, numbering, drive, self.stop)
    }

    fn measure(&self, size: &LinkSize) -> anyhow::Result<Row> {
        let full = self.load(size, Numbering::Number, Drive::Full(self.duration))?;
        let top_per_sec = full.offered_per_sec;
        let probe = |rate: f64| -> anyhow::Result<Probe> {
            let trial = self.load(size, Numbering::Number, Drive::Even(rate, self.duration))?;
            Ok(Probe { achieved_per_sec: trial.offered_per_sec, lost: trial.lost() })
        };
        let zero_loss =
            search::zero_loss(top_per_sec, full.lost() > 0, top_per_sec / 2.0, RESOLUTION, probe)?;
        let mut latencies = Vec::new();
        for percent in LATENCY_LOADS {
            let rate = zero_loss.rate_per_sec * f64::from(percent) / 100.0;
            let trial = self.load(size, Numbering::Stamp, Drive::Even(rate, self.duration))?;
            latencies.push((percent, histogram(&trial.arrived)?));
        }
        let mut curve = Vec::new();
        for percent in CURVE_LOADS {
            let rate = top_per_sec * f64::from(percent) / 100.0;
            let trial = self.load(size, Numbering::Number, Drive::Even(rate, self.duration))?;
            curve.push((trial.offered_per_sec, trial.lost_percent()));
        }
        curve.push((full.offered_per_sec, full.lost_percent()));
        let burst = self.longest_burst(size, top_per_sec)?;
        Ok(Row { size: size.clone(), full, zero_loss, latencies, curve, burst })
    }

    /// The longest burst without loss, in frames; none is longer than what is sent at full rate in
    /// the time of a load.
    fn longest_burst(&self, size: &LinkSize, top_per_sec: f64) -> anyhow::Result<(u64, bool)> {
        let longest = (top_per_sec * self.duration.as_secs_f64()).max(1.0);
        let probe = |frames: f64| -> anyhow::Result<Probe> {
            let drive = Drive::Burst((frames.round() as u64).max(1));
            let trial = self.load(size, Numbering::Number, drive)?;
            Ok(Probe { achieved_per_sec: trial.offered as f64, lost: trial.lost() })
        };
        let found = search::zero_loss(longest, false, longest / 1000.0, RESOLUTION, probe)?;
        Ok((found.rate_per_sec as u64, found.at_limit))
    }
}

/// The times under way of a load.
///
/// # Errors
/// No times, of no machine that there is.
pub(super) fn histogram(arrived: &Latencies) -> anyhow::Result<Histogram<u64>> {
    let mut histogram = Histogram::new(HISTOGRAM_DIGITS).context("a histogram of times")?;
    for &(first_ns, width_ns, count) in &arrived.classes {
        histogram.record_n(first_ns + width_ns / 2, count).context("a time under way")?;
    }
    Ok(histogram)
}
