//! `ringside repair`: recordings that were not ended are made whole.

use clap::Args;
use jiff::tz::TimeZone;
use ringside_core::{Shown, Timestamp};
use ringside_keeper::repair_progress;
use ringside_store::repair::{
    CaptureReport, Change, FileReport, Options, Report, RunReport, RunState,
};
use ringside_terminal::{say, units};
use std::io;
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
    for run in &report.runs {
        match args.json {
            true => say::data(serde_json::to_string(run)?)?,
            false => print_run(run)?,
        }
    }
    for capture in &report.captures {
        match args.json {
            true => say::data(serde_json::to_string(capture)?)?,
            false => print_capture(capture)?,
        }
    }
    for file in &report.unreadable {
        say::message(format_args!("ringside: {}: {}", file.path.shown(), file.reason));
    }
    for directory in &report.empty {
        say::message(format_args!(
            "ringside: {}: holds no file of a recording (made by -w DIR); name other files one by \
             one to have them looked at",
            directory.shown()
        ));
    }
    Ok(status(&report))
}

fn status(report: &Report) -> ExitCode {
    if report.has(RunState::Failed) || !report.unreadable.is_empty() {
        return ExitCode::from(2);
    }
    let is_nothing = report.runs.is_empty() && report.captures.is_empty();
    ExitCode::from(u8::from(report.has(RunState::Broken) || is_nothing))
}

/// A file of no recording.
fn print_capture(capture: &CaptureReport) -> io::Result<()> {
    let path = capture.path.shown();
    if let Some(error) = &capture.error {
        say::message(format_args!("ringside: {}", named(&path.to_string(), error)));
        return Ok(());
    }
    let frames = units::counted(capture.frames, "packet");
    let state = match capture.state {
        RunState::Clean => "nothing to repair",
        RunState::Broken => "to be repaired",
        _ => "repaired",
    };
    say::data(format_args!("{path}: {state}: {frames}"))?;
    capture.changes.iter().try_for_each(|change| say::data(format_args!("    {change}")))
}

/// The message behind the name of its file, unless it names it already.
fn named(path: &str, message: &str) -> String {
    if message.contains(path) { message.into() } else { format!("{path}: {message}") }
}

fn print_run(run: &RunReport) -> io::Result<()> {
    let state = match run.state {
        RunState::Clean => "nothing to repair",
        RunState::Live => "is being recorded: left alone",
        RunState::Broken => "to be repaired",
        RunState::Repaired => "repaired",
        RunState::Failed => "not all could be repaired",
    };
    say::data(format_args!("run {}: {state}", run.run))?;
    for file in &run.files {
        print_file(file)?;
    }
    for lane in &run.lanes {
        for missing in &lane.missing {
            say::data(format_args!("  lane {}: missing: {missing}", lane.lane))?;
        }
        if let Some(time) = lane.unknown_after_ns {
            say::data(format_args!(
                "  lane {}: unknown: what was in memory after {}",
                lane.lane,
                utc(time)
            ))?;
        }
    }
    Ok(())
}

/// One file, if there is something to say of it.
fn print_file(file: &FileReport) -> io::Result<()> {
    if file.changes.is_empty() && file.error.is_none() {
        return Ok(());
    }
    let blocks = units::grouped(file.ring_blocks);
    let frames = file.frames.map(|frames| format!(", {} frames", units::grouped(frames)));
    let path = file.path.shown();
    if let [removed @ Change::Removed] = file.changes[..] {
        return say::data(format_args!("  {path}: {removed}"));
    }
    say::data(format_args!(
        "  {path}: {blocks} complete ring blocks{} kept",
        frames.unwrap_or_default()
    ))?;
    for change in &file.changes {
        say::data(format_args!("    {change}"))?;
    }
    match &file.error {
        Some(error) => say::data(format_args!("    {error}")),
        None => Ok(()),
    }
}

/// A time with nanoseconds, as in ISO 8601.
fn utc(time: Timestamp) -> String {
    let (seconds, nanos) = (time.seconds() as i64, time.subsec_nanos() as i32);
    let time = jiff::Timestamp::new(seconds, nanos).unwrap_or(jiff::Timestamp::MAX);
    time.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%S%.9fZ").to_string()
}
