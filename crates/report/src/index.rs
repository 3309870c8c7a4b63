//! What was built of indexes.

use ringside_core::Shown;
use ringside_index::Built;
use ringside_terminal::{say, units};
use serde_json::json;
use std::io;
use std::path::Path;
use std::time::Duration;

/// What became of a file's index.
#[derive(Debug)]
pub enum Outcome {
    /// It was there.
    Good,
    /// It was built.
    Built(Built),
    /// It could not be built, and why.
    Failed(String),
}

/// The sums over all files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Files whose index was there.
    pub good: u64,
    /// Files whose index was built.
    pub built: u64,
    /// Files whose index could not be built.
    pub failed: u64,
    /// Of the files whose index was built: what was read and written, in sum.
    pub sum: Built,
    /// How long it took.
    pub elapsed: Duration,
}

impl Account {
    /// Adds a file.
    pub fn note(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Good => self.good += 1,
            Outcome::Failed(_) => self.failed += 1,
            Outcome::Built(built) if built.is_stopped => {}
            Outcome::Built(built) => {
                self.built += 1;
                let sum = &mut self.sum;
                sum.bytes += built.bytes;
                sum.frames += built.frames;
                sum.parts += built.parts;
                sum.anything += built.anything;
                sum.index_bytes += built.index_bytes;
            }
        }
    }
}

/// Says what became of a file's index. Of one that was there, only JSON does.
///
/// # Errors
/// Standard output cannot be written.
pub fn file(path: &Path, outcome: &Outcome, is_json: bool) -> io::Result<()> {
    let shown = path.shown().to_string();
    if is_json {
        return say::data(match outcome {
            Outcome::Good => json!({ "file": shown, "index": "good" }),
            Outcome::Failed(error) => {
                json!({ "file": shown, "index": "failed", "error": error })
            }
            Outcome::Built(built) => {
                let state = if built.is_stopped { "stopped" } else { "built" };
                let notices: Vec<_> = built.notices.iter().map(ToString::to_string).collect();
                let mut object = sums(built);
                object["file"] = shown.into();
                object["index"] = state.into();
                object["notices"] = notices.into();
                object
            }
        });
    }
    match outcome {
        Outcome::Good => {}
        Outcome::Failed(error) => say::message(format_args!("ringside: {shown}: {error}")),
        Outcome::Built(built) => {
            let notices = built.notices.iter();
            notices.for_each(|notice| say::message(format_args!("ringside: {notice}")));
        }
    }
    Ok(())
}

/// Says the sums.
///
/// # Errors
/// Standard output cannot be written.
pub fn account(account: &Account, is_stopped: bool, is_json: bool) -> io::Result<()> {
    let Account { good, built, failed, sum, elapsed } = account;
    if is_json {
        let mut object = sums(sum);
        object["files_built"] = (*built).into();
        object["files_good"] = (*good).into();
        object["files_failed"] = (*failed).into();
        object["seconds"] = elapsed.as_secs_f64().into();
        object["is_stopped"] = is_stopped.into();
        return say::data(json!({ "account": object }));
    }
    let share = sum.index_bytes as f64 * 100.0 / (sum.bytes as f64).max(1.0);
    let rate = sum.bytes as f64 / 1e6 / elapsed.as_secs_f64().max(1e-9);
    say::data(format_args!(
        "{} built, {good} good already, {failed} failed{}",
        units::counted(*built, "index file"),
        if is_stopped { "; a signal ended the work" } else { "" }
    ))?;
    if *built == 0 {
        return Ok(());
    }
    say::data(format_args!(
        "{} in {}, {} of captures: {} of indexes ({share:.3} %), {rate:.0} MB/s",
        units::counted(sum.frames, "packet"),
        units::counted(sum.parts, "block"),
        units::counted(sum.bytes, "byte"),
        units::counted(sum.index_bytes, "byte"),
    ))?;
    if sum.anything > 0 {
        say::data(format_args!(
            "{} may hold anything: too many different addresses and ports, or cut headers",
            units::counted(sum.anything, "block")
        ))?;
    }
    Ok(())
}

fn sums(built: &Built) -> serde_json::Value {
    json!({
        "bytes": built.bytes,
        "packets": built.frames,
        "blocks": built.parts,
        "blocks_of_anything": built.anything,
        "index_bytes": built.index_bytes,
    })
}
