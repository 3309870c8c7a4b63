//! `ringside compress`: files of recordings that ended, once.

use anyhow::Context;
use clap::Args;
use ringside_core::Shown;
use ringside_report::compress::{self as report, Account};
use ringside_store::dir::Dir;
use ringside_store::retention::{Directory, PackingOrder, Policy};
use ringside_sys::clock::{self, Clocks};
use ringside_terminal::signals::StopSignal;
use ringside_terminal::{say, units};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `compress`.
#[derive(Args)]
#[command(after_help = "Examples:
  ringside compress /data/eth1                  every file that ended
  ringside compress --older 7d /data/eth1       only those that were begun so long ago
  ringside compress --json /disk1/a /disk2/a    one object a file, then the account
  zstd -d FILE.pcapng.zst                       what was compressed, as it was, byte for byte

A file becomes FILE.pcapng.zst, a frame of Zstandard for each block, with a table behind them by
which `read` and `find` still pass by what they do not need. Its index stays good. A recorder does
the same while it records with --compress-after. Files that are being recorded, or were not ended
and not repaired, are left alone, and so is what does not become smaller by a sixteenth.

Exit status: 0 if nothing that is due is left; 1 if a signal ended the work; 2 if a file could not
be compressed.")]
pub struct CompressArgs {
    /// Directories of recordings.
    #[arg(value_name = "DIR", required = true)]
    directories: Vec<PathBuf>,

    /// Only files that were begun so long ago, as 12h or 7d.
    #[arg(long, value_name = "AGE", value_parser = units::duration)]
    older: Option<Duration>,

    /// One JSON object a file, and one with the account.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(args: CompressArgs) -> anyhow::Result<ExitCode> {
    let stop = StopSignal::install()?;
    let mut account = Account::default();
    for path in &args.directories {
        let dir = Dir::open(path).with_context(|| format!("cannot open {}", path.shown()))?;
        let (after, passed) = (args.older.unwrap_or_default(), BTreeSet::new());
        let directory = Directory::open(&dir, "", Policy::default())?;
        let order = PackingOrder { after, passed };
        let mut work = Work { path, directory, order, stop: &stop, json: args.json };
        while !stop.is_set() && work.next(&mut account)? {}
    }
    report::account(&account, stop.is_set(), args.json)?;
    Ok(ExitCode::from(match account.failed {
        0 => u8::from(stop.is_set()),
        _ => 2,
    }))
}

/// What is done in one directory.
struct Work<'a> {
    path: &'a Path,
    directory: Directory,
    order: PackingOrder,
    stop: &'a StopSignal,
    json: bool,
}

impl Work<'_> {
    /// Compresses one file; false if there is none that is due.
    fn next(&mut self, account: &mut Account) -> anyhow::Result<bool> {
        let now = Clocks::now(clock::boot_id().unwrap_or_default());
        let Some(job) = self.directory.begin_packing(&self.order, now)? else { return Ok(false) };
        account.note_deleted(&job.deleted);
        let name = job.name().to_owned();
        let packed = job.run(&|| !self.stop.is_set());
        let packed = packed.and_then(|packed| self.directory.end_packing(job, packed));
        match packed {
            Ok(packed) => {
                account.note(&packed);
                report::file(self.path, &packed, self.json)?;
            }
            Err(error) => {
                account.failed += 1;
                say::message(format_args!("ringside: {error}; it stays as it is"));
            }
        }
        self.order.passed.insert(name);
        Ok(true)
    }
}
