//! `ringside bench capture`: full-load rates of counting and recording, next to tcpdump.

use super::load::{self, FrameSizes};
use super::measure::{Bench, Destination, Sample, Setup};
use super::place::Workspace;
use super::results::LoadRow;
use super::tools::Tool;
use anyhow::Context;
use clap::Args;
use ringside_terminal::signals::StopSignal;
use ringside_terminal::units::grouped;
use ringside_terminal::{say, units};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
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

    /// Make recordings in this directory; each is removed after its run.
    #[arg(long, default_value = "/dev/shm")]
    dir: PathBuf,

    /// Also write the figures to this file.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// Memory for frames of each tool: little, so that a short load does not fit into it.
const MEMORY_BYTES: u64 = 96 << 20;

/// What is compared, by its name in the record.
const SETUPS: [(&str, Tool, Destination); 5] = [
    ("ringside-count", Tool::Ringside, Destination::Nowhere),
    ("ringside-record", Tool::Ringside, Destination::Memory),
    ("ringside-pcapng", Tool::Ringside, Destination::MergedFile),
    ("tcpdump-null", Tool::Tcpdump, Destination::Nowhere),
    ("tcpdump-record", Tool::Tcpdump, Destination::Memory),
];

/// Measures, and prints the medians.
pub(super) fn run(args: &CaptureBench) -> anyhow::Result<ExitCode> {
    let stop = StopSignal::install()?;
    let memory = Workspace::within(&args.dir)?;
    let lab = load::lab(&format!("bench{}", std::process::id()))?;
    let bench = Bench {
        lab: &lab,
        memory: Some(&memory),
        disk: None,
        stop: &stop,
        memory_bytes: MEMORY_BYTES,
        limit_bytes: None,
        filled: false,
    };
    let mut rows = Vec::new();
    for &bytes in &args.sizes {
        let sizes = FrameSizes::fixed(bytes)?;
        for (name, tool, destination) in SETUPS {
            let setup = Setup { tool, destination, snaplen: None };
            rows.push((name, LoadRow { setup, sizes: sizes.clone(), samples: Vec::new() }));
        }
    }
    for round in 1..=args.rounds {
        for (name, row) in &mut rows {
            let sample = bench
                .measure(row.setup, &row.sizes, None, args.duration, false)
                .with_context(|| format!("{name} at {} bytes", row.sizes))?;
            say::message(format_args!("round {round}: {} B {name}: {}", row.sizes, text(&sample)));
            row.samples.push(sample);
        }
    }
    let table = summary(&rows);
    say::data(table.trim_end())?;
    if let Some(path) = &args.csv {
        std::fs::write(path, table).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(sample: &Sample) -> String {
    format!(
        "offered {}, received {} ({:.3} M/s), lost {:.2} %",
        grouped(sample.handed),
        grouped(sample.received),
        sample.received_mps(),
        sample.lost_percent(),
    )
}

/// A CSV table of the medians.
fn summary(rows: &[(&str, LoadRow)]) -> String {
    let mut out = String::from(
        "frame_bytes,tool,rounds,offered_mps,received_mps,lost_percent,tool_cpu_ns_per_frame\n",
    );
    for (name, row) in rows {
        let _ = writeln!(
            out,
            "{},{name},{},{:.3},{:.3},{:.2},{:.0}",
            row.sizes,
            row.samples.len(),
            row.median(Sample::handed_mps),
            row.median(Sample::received_mps),
            row.median(Sample::lost_percent),
            row.median(Sample::cpu_ns)
        );
    }
    out
}
