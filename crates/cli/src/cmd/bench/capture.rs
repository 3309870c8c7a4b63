//! `ringside bench capture`: full-load rates of counting and recording, next to tcpdump.

use super::load::{self, SETTLE};
use super::median;
use super::receiver::Receiver;
use crate::units::{self, grouped};
use anyhow::Context;
use clap::Args;
use ringside_lab::Lab;
use ringside_transmit::Sizes;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

/// Arguments of `bench capture`.
#[derive(Args)]
pub(super) struct CaptureBench {
    /// Frame sizes in bytes.
    #[arg(long, value_delimiter = ',', default_value = "64,512,1514")]
    #[arg(value_parser = clap::value_parser!(u16).range(60..=3408))]
    sizes: Vec<u16>,

    /// Rounds; in each, every tool runs once at every size.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// Length of one load.
    #[arg(long = "for", value_parser = units::duration, default_value = "2s")]
    duration: Duration,

    /// Directory for recordings; each is removed after its run.
    #[arg(long, default_value = "/dev/shm/ringside-bench")]
    dir: PathBuf,

    /// Also write the figures to this file.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// Measures, and prints the medians.
pub(super) fn run(args: &CaptureBench) -> anyhow::Result<ExitCode> {
    let lab = load::lab()?;
    let mut samples = Vec::new();
    for round in 1..=args.rounds {
        for &size in &args.sizes {
            for tool in TOOLS {
                let sample = measure(&lab, args, tool, size)
                    .with_context(|| format!("{} at {size} bytes", tool.name))?;
                eprintln!("round {round}: {}", sample.text());
                samples.push(sample);
            }
        }
    }
    let table = summary(args, &samples);
    print!("{table}");
    if let Some(path) = &args.csv {
        std::fs::write(path, table).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A tool that receives.
struct Tool {
    name: &'static str,
    /// Program and arguments; `DIR` stands for the directory of the run.
    line: &'static [&'static str],
}

const TOOLS: &[Tool] = &[
    Tool { name: "ringside-count", line: &["ringside", "--json"] },
    Tool { name: "ringside-record", line: &["ringside", "--json", "-w", "DIR/series"] },
    Tool { name: "ringside-pcapng", line: &["ringside", "--json", "-w", "DIR/one.pcapng"] },
    Tool { name: "tcpdump-null", line: &["tcpdump", "-w", "/dev/null"] },
    Tool { name: "tcpdump-record", line: &["tcpdump", "-w", "DIR/one.pcap"] },
];

/// One tool under one load.
struct Sample {
    tool: &'static str,
    size: u16,
    handed: u64,
    received: u64,
    seconds: f64,
    cpu_seconds: f64,
}

impl Sample {
    fn text(&self) -> String {
        format!(
            "{} B {}: offered {}, received {} ({:.3} M/s), lost {:.2} %",
            self.size,
            self.tool,
            grouped(self.handed),
            grouped(self.received),
            self.received_mps(),
            self.lost_percent(),
        )
    }

    fn handed_mps(&self) -> f64 {
        self.handed as f64 / self.seconds / 1e6
    }

    fn received_mps(&self) -> f64 {
        self.received as f64 / self.seconds / 1e6
    }

    fn lost_percent(&self) -> f64 {
        100.0 * (1.0 - self.received as f64 / self.handed.max(1) as f64)
    }

    fn cpu_ns(&self) -> f64 {
        self.cpu_seconds * 1e9 / self.received.max(1) as f64
    }
}

fn measure(lab: &Lab, args: &CaptureBench, tool: &Tool, size: u16) -> anyhow::Result<Sample> {
    std::fs::create_dir_all(&args.dir)?;
    let result = Receiver::start(lab, tool.line, &args.dir).and_then(|receiver| {
        let report = load::send(lab, Sizes::fixed(size)?, None, args.duration)?;
        sleep(SETTLE);
        let (received, cpu_seconds) = receiver.stop()?;
        let seconds = report.elapsed_ns as f64 / 1e9;
        Ok(Sample { tool: tool.name, size, handed: report.handed, received, seconds, cpu_seconds })
    });
    std::fs::remove_dir_all(&args.dir)?;
    result
}

/// A CSV table of the medians.
fn summary(args: &CaptureBench, samples: &[Sample]) -> String {
    let mut out = Vec::new();
    let header =
        "frame_bytes,tool,rounds,offered_mps,received_mps,lost_percent,tool_cpu_ns_per_frame";
    writeln!(out, "{header}").expect("writing to memory");
    for &size in &args.sizes {
        for tool in TOOLS {
            let of = |value: fn(&Sample) -> f64| {
                let mine = samples.iter().filter(|s| s.size == size && s.tool == tool.name);
                median(mine.map(value).collect())
            };
            writeln!(
                out,
                "{size},{},{},{:.3},{:.3},{:.2},{:.0}",
                tool.name,
                args.rounds,
                of(Sample::handed_mps),
                of(Sample::received_mps),
                of(Sample::lost_percent),
                of(Sample::cpu_ns)
            )
            .expect("writing to memory");
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
