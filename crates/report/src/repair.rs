//! What was repaired of recordings, or is to be.

use jiff::tz::TimeZone;
use ringside_core::{Shown, Timestamp};
use ringside_store::repair::{CaptureReport, Change, FileReport, Report, RunReport, RunState};
use ringside_terminal::{say, units};
use std::io;

/// Prints runs and single files, as lines or as a JSON object each; says what could not be read.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(report: &Report, to_json: bool) -> io::Result<()> {
    for run in &report.runs {
        match to_json {
            true => say::data(serde_json::to_string(run)?)?,
            false => print_run(run)?,
        }
    }
    for capture in &report.captures {
        match to_json {
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
    Ok(())
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
