//! `ringside index`: builds what `ringside find` asks.

use anyhow::Context;
use clap::Args;
use ringside_core::Shown;
use ringside_index::{Index, State, build};
use ringside_report::index::{self as report, Account, Outcome};
use ringside_store::recording::capture_files;
use ringside_terminal::progress::FileProgress;
use ringside_terminal::signals::StopSignal;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Arguments of `index`.
#[derive(Args)]
#[command(after_help = "Examples:
  ringside index /data/eth1                 every capture file of a directory that needs it
  ringside index *.pcap                     captures of other programs
  ringside index --rebuild /data/eth1       all of them, needed or not
  ringside index --json /data/eth1 | jq .   one object a file, then the account

The index of FILE is FILE.index next to it. One that is missing, damaged or older than its file is
built; of a file that is being recorded, what is complete so far. It is derived data: delete it at
any time. What it says, and what it takes, is in docs/find.md.

Exit status: 0 if every file has its index; 1 if there was no capture file, or a signal ended the
work; 2 if an index could not be built.")]
pub struct IndexArgs {
    /// Directories, of which the files *.pcapng, *.pcap and *.cap are taken, and capture files.
    #[arg(value_name = "DIR|FILE", required = true)]
    paths: Vec<PathBuf>,

    /// Build indexes that are there and good, too.
    #[arg(long)]
    rebuild: bool,

    /// One JSON object a file, and one with the account.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(args: IndexArgs) -> anyhow::Result<ExitCode> {
    let files = files(&args.paths)?;
    let stop = StopSignal::install()?;
    let (start, progress) = (Instant::now(), FileProgress::new());
    let mut account = Account::default();
    for path in &files {
        if stop.is_set() {
            break;
        }
        let outcome = match args.rebuild || !is_good(path) {
            true => built(path, &stop, &progress),
            false => Outcome::Good,
        };
        account.note(&outcome);
        progress.clear();
        report::file(path, &outcome, args.json)?;
    }
    account.elapsed = start.elapsed();
    report::account(&account, stop.is_set(), args.json)?;
    Ok(ExitCode::from(match account.failed {
        0 if files.is_empty() || stop.is_set() => 1,
        0 => 0,
        _ => 2,
    }))
}

/// The files that are named, and those of directories that are.
fn files(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        let metadata = path.metadata().with_context(|| format!("cannot open {}", path.shown()))?;
        if metadata.is_dir() {
            files.extend(capture_files(path)?);
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

/// True if a file has an index of all of it.
fn is_good(path: &Path) -> bool {
    let index = File::open(path).ok().and_then(|file| Index::open(path, &file).ok());
    index.is_some_and(|index| index.state() == State::Whole && index.check().is_ok())
}

fn built(path: &Path, stop: &StopSignal, progress: &FileProgress) -> Outcome {
    let bytes = path.metadata().map_or(0, |metadata| metadata.len());
    let built = build(path, &mut |at| {
        progress.report(path, at, bytes);
        !stop.is_set()
    });
    let failed = |error| Outcome::Failed(format!("{:#}", anyhow::Error::from(error)));
    built.map_or_else(failed, Outcome::Built)
}
