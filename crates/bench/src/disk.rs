//! `ringside bench disk`: the writer alone, from a ring that is always full, next to fio.
//!
//! In each round the writer records for a while, then fio writes as many bytes to a file of the
//! same file system with the same size of a write and one write in flight, which is what the
//! writer has for a file. Both end when everything is on the medium.

use super::{median, raw_disk};
use anyhow::{Context, bail};
use clap::Args;
use ringside_capture::config::DiskOptions;
use ringside_capture::synthetic::{SyntheticConfig, record};
use ringside_core::limits::RING_BLOCK_BYTES;
use ringside_terminal::say;
use ringside_terminal::units::{self, scaled};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Ring blocks of one write unless asked otherwise. Both sides must have the same, so it is not
/// tuned here.
const WRITE_BLOCKS: u8 = 4;

/// Arguments of `bench disk`.
#[derive(Args)]
pub struct DiskBench {
    /// Directory on the disk; what is written there is removed again.
    #[arg(long)]
    dir: PathBuf,

    /// How long the ring is kept full in each round.
    #[arg(long = "for", value_parser = units::duration, default_value = "2s")]
    duration: Duration,

    /// Rounds; the medians are reported.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// Lanes of the ring; fio has as many files.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    lanes: u8,

    /// Blocks of the ring (1 MiB) in one write.
    #[arg(long, default_value_t = WRITE_BLOCKS)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=64))]
    write_blocks: u8,

    /// Write without io_uring.
    #[arg(long)]
    no_io_uring: bool,

    /// Also write the figures to this file.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// Runs the subcommand.
pub fn run(args: &DiskBench) -> anyhow::Result<ExitCode> {
    let has_fio = Command::new("fio").arg("--version").output().is_ok();
    if !has_fio {
        say::message("fio is not installed (apt install fio): only the writer is measured");
    }
    let folder = args.dir.join(format!("ringside-bench-disk-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let rounds = measure(args, &folder, has_fio);
    let removed = std::fs::remove_dir_all(&folder);
    let rounds = rounds?;
    removed.with_context(|| folder.display().to_string())?;
    let table = table(args, &rounds);
    print!("{table}");
    if let Some(path) = &args.csv {
        std::fs::write(path, table).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One round: bytes per second of both.
struct Round {
    writer: f64,
    fio: Option<f64>,
}

fn measure(args: &DiskBench, folder: &Path, has_fio: bool) -> anyhow::Result<Vec<Round>> {
    let mut rounds = Vec::new();
    for round in 1..=args.rounds {
        let (writer, bytes) = writer(args, folder, round == 1)?;
        clear(folder)?;
        let fio = if has_fio { Some(fio(args, folder, bytes)?) } else { None };
        clear(folder)?;
        let shown = fio.map_or_else(|| "-".to_owned(), scaled);
        let bytes = scaled(bytes as f64);
        say::message(format_args!(
            "round {round}: {bytes}B, writer {}B/s, fio {shown}B/s",
            scaled(writer)
        ));
        rounds.push(Round { writer, fio });
    }
    Ok(rounds)
}

/// The writer's rate, and the bytes that it wrote.
fn writer(args: &DiskBench, folder: &Path, tell: bool) -> anyhow::Result<(f64, u64)> {
    let report = record(SyntheticConfig {
        directories: vec![folder.to_owned()],
        options: DiskOptions {
            write_blocks: Some(usize::from(args.write_blocks)),
            io_uring: !args.no_io_uring,
            ..DiskOptions::default()
        },
        lanes: usize::from(args.lanes),
        duration: args.duration,
    })?;
    if let Some(error) = report.errors.first() {
        bail!("{error}");
    }
    if tell {
        report.notes.iter().for_each(say::message);
    }
    Ok((report.bytes as f64 / report.elapsed.as_secs_f64(), report.bytes))
}

/// fio's rate for as many bytes.
fn fio(args: &DiskBench, folder: &Path, bytes: u64) -> anyhow::Result<f64> {
    let lanes = u64::from(args.lanes);
    let engine = if args.no_io_uring { "psync" } else { "io_uring" };
    let mut line = vec![
        format!("--directory={}", folder.display()),
        format!("--ioengine={engine}"),
        format!("--bs={}", usize::from(args.write_blocks) * RING_BLOCK_BYTES),
        format!("--size={}", bytes / lanes),
        format!("--numjobs={lanes}"),
    ];
    let fixed = "--name=fio --rw=write --direct=1 --iodepth=1 --fallocate=keep --end_fsync=1 \
                 --group_reporting";
    line.extend(fixed.split_whitespace().map(str::to_owned));
    let report = raw_disk::fio(&line)?.context("fio is gone")?;
    let job = &report["jobs"][0];
    // The run time includes the sync at the end; write.bw does not.
    let milliseconds = job["job_runtime"].as_f64().context("fio's run time")? / lanes as f64;
    let written = job["write"]["io_bytes"].as_f64().context("fio's bytes")?;
    Ok(written / milliseconds * 1e3)
}

/// Removes the files of a round.
fn clear(folder: &Path) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        std::fs::remove_file(entry?.path())?;
    }
    Ok(())
}

/// A CSV table of the medians.
fn table(args: &DiskBench, rounds: &[Round]) -> String {
    let writer = median(rounds.iter().map(|round| round.writer).collect());
    let fio = median(rounds.iter().filter_map(|round| round.fio).collect());
    let ratio = rounds.iter().filter_map(|round| round.fio.map(|fio| round.writer / fio));
    format!(
        "rounds,lanes,write_mib,writer_mb_per_s,fio_mb_per_s,ratio\n{},{},{},{:.0},{:.0},{:.3}\n",
        rounds.len(),
        args.lanes,
        (usize::from(args.write_blocks) * RING_BLOCK_BYTES) >> 20,
        writer / 1e6,
        fio / 1e6,
        median(ratio.collect()),
    )
}
