//! `ringside bench`: measurements with a peer in the same run, and the loss of each.

mod capture;
mod load;
mod receiver;

use clap::{Args, Subcommand};
use std::process::ExitCode;

/// CPU of the tool.
const TOOL_CPU: usize = 1;
/// The kernel ring of each tool, in bytes.
const KERNEL_RING_BYTES: u64 = 32 << 20;

/// Arguments of `bench`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside bench capture                      64, 512 and 1514 bytes, five rounds
  sudo ringside bench capture --rounds 1 --for 1s  a quick look
  sudo ringside bench capture --csv rates.csv      keep the figures")]
pub struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Subcommand)]
enum BenchCommand {
    /// Full-load rates of counting and recording, next to tcpdump.
    Capture(capture::CaptureBench),
}

/// Runs the subcommand.
pub fn run(args: BenchArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        BenchCommand::Capture(args) => capture::run(&args),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
