//! `ringside backends`: what this machine can capture with, each answer from a probe.

use clap::Args;
use ringside_doctor::backends::Report;
use ringside_report::backends::text;
use ringside_terminal::say;
use std::process::ExitCode;

/// Arguments of `backends`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside backends            what works here, and on which interfaces
  sudo ringside backends --json     the same for a program, with the probe of each answer

The properties are those of a survey of capture systems. As root each backend is tried with some
frames on a private network of its own; else it is opened on the loopback interface. No interface of
the machine is changed.")]
pub struct BackendsArgs {
    /// One JSON object on standard output.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand. Status 1 if no backend is usable.
pub fn run(args: BackendsArgs) -> anyhow::Result<ExitCode> {
    let report = Report::ask()?;
    if args.json {
        say::data(serde_json::to_string(&report)?)?;
    } else {
        say::data(text(&report).trim_end())?;
    }
    let usable = report.backends.iter().any(|backend| backend.usable);
    Ok(if usable { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
