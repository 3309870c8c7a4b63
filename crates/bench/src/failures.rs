//! Steps of a measurement that failed: each is reported, and the others are measured all the same.

use super::load;
use ringside_terminal::say;
use ringside_terminal::signals::StopSignal;
use std::process::ExitCode;

/// Tells what failed and notes it.
///
/// # Errors
/// The user wants to stop: then it is no failure.
pub(super) fn note(
    failures: &mut Vec<String>,
    text: String,
    stop: &StopSignal,
) -> anyhow::Result<()> {
    load::check(stop)?;
    say::message(format_args!("ringside: {text}"));
    failures.push(text);
    Ok(())
}

/// How the measurement ends: 0 if nothing failed.
pub(super) fn status(failures: &[String]) -> ExitCode {
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
