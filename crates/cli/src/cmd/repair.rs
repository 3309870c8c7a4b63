//! `ringside repair`: recordings that were not ended are made whole.

use clap::Args;
use ringside_keeper::repair_progress;
use ringside_store::repair::{Options, Report, RunState};
use ringside_terminal::say;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `repair`.
#[derive(Args)]
#[command(after_help = "Examples:
  ringside repair /data/eth1                 after a crash or a power cut, or of a copy
  ringside repair /disk1/eth1 /disk2/eth1    a recording that lies on two disks
  ringside repair trace.pcapng               a file of -w FILE: a torn end is cut
  ringside repair --dry-run /data/eth1       only look; exit status 1 if something is to be done

What a process records at the moment is left alone, and so is every file of a directory that is not
of a recording. What is whole stays as it is; a second repair changes nothing. Exit status: 1 if
no recording was found, or --dry-run found something to do; 2 if something could not be repaired.")]
pub struct RepairArgs {
    /// Directories of recordings, all those of one recording together; or single files, also pcap
    /// and pcapng files of `capture -w FILE` and of other programs.
    #[arg(value_name = "DIR|FILE", required_unless_present = "knobs")]
    paths: Vec<PathBuf>,

    /// Put back settings of the system that a capture had changed and that were not put back,
    /// because it was killed with its keeper. The next capture would do it, too.
    #[arg(long)]
    knobs: bool,

    /// Only look, and say what is to be done.
    #[arg(long, conflicts_with = "knobs")]
    dry_run: bool,

    /// One JSON object a run, and one a file of no recording.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(args: RepairArgs) -> anyhow::Result<ExitCode> {
    if args.knobs {
        for note in ringside_keeper::put_back_of_the_dead() {
            say::message(format_args!("ringside: {note}"));
        }
    }
    if args.paths.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let options = Options { dry_run: args.dry_run, ..Options::IN_FULL };
    let report = repair_progress::repair(&args.paths, &options, None)?;
    ringside_report::repair::print(&report, args.json)?;
    Ok(status(&report))
}

fn status(report: &Report) -> ExitCode {
    if report.has(RunState::Failed) || !report.unreadable.is_empty() {
        return ExitCode::from(2);
    }
    let is_nothing = report.runs.is_empty() && report.captures.is_empty();
    ExitCode::from(u8::from(report.has(RunState::Broken) || is_nothing))
}
