//! `ringside pin` and `ringside unpin`: what retention keeps.

use crate::range_args::RangeArgs;
use anyhow::{Context, bail};
use clap::Args;
use ringside_core::Shown;
use ringside_report::pins as report;
use ringside_search::Finder;
use ringside_session::{Held, files_that_hold};
use ringside_store::dir::Dir;
use ringside_store::retention::{NOTE_BYTES_MAX, Pin, Pins, add_pin, pinned_sizes, remove_pins};
use ringside_sys::clock;
use ringside_terminal::say;
use ringside_terminal::signals::StopSignal;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Arguments of `pin`.
#[derive(Args)]
#[command(after_help = "Examples:
  ringside pin -r /data/eth1 --last 1h --note 'the outage of Friday'    keep the last hour
  ringside pin -r /data/eth1 --from 2026-03-01T12:00:00Z --to 2026-03-01T12:05:00Z
  ringside pin -r /data/eth1 host 192.0.2.7 and tcp       keep the files that hold such packets
  ringside pin -r /disk1/a -r /disk2/a --from 0           keep all that is there now
  ringside pin --list -r /data/eth1                       what is kept, and why
  ringside unpin -r /data/eth1 3                          give pin 3 back to retention

Files are kept, of all lanes, in which packets of the time match the filter: what is recorded later
is not. From then on no recorder deletes them; they count within --limit-bytes, and may take half
of it, or what --pin-bytes of `capture` says. A pin that would take more is refused. Nothing that is
pinned is ever deleted for a limit: if the rest is not enough, the recorder ends and says so.

Exit status: 0 if files are kept; 1 if there were none, some were deleted before they were pinned,
or a signal ended the search; 2 if it could not be done.")]
pub struct PinArgs {
    /// Directory of a recording; several, of one recording, get the same pin.
    #[arg(short = 'r', long = "read", value_name = "DIR", required = true)]
    directories: Vec<PathBuf>,

    #[command(flatten)]
    range: RangeArgs,

    /// Why; at most 1 KiB.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    note: String,

    /// List what is pinned, with the bytes that it takes.
    #[arg(long, conflicts_with_all = ["note", "from", "to", "last", "filter"])]
    list: bool,

    /// One JSON object a directory, or a pin of the list.
    #[arg(long)]
    json: bool,

    /// A pcap-filter(7) expression.
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
}

/// Arguments of `unpin`.
#[derive(Args)]
#[command(after_help = "Examples:
  ringside unpin -r /data/eth1 3 4             give the files of two pins back to retention
  ringside pin --list -r /data/eth1            which pins there are

What another pin keeps too is still kept. Exit status: 1 if there is no pin of that number.")]
pub struct UnpinArgs {
    /// Directory of a recording; several of one recording.
    #[arg(short = 'r', long = "read", value_name = "DIR", required = true)]
    directories: Vec<PathBuf>,

    /// Numbers of pins.
    #[arg(value_name = "NUMBER", required = true)]
    ids: Vec<u64>,

    /// One JSON object a pin.
    #[arg(long)]
    json: bool,
}

/// Runs `pin`.
pub fn run(args: PinArgs) -> anyhow::Result<ExitCode> {
    let directories = opened(&args.directories)?;
    if args.list {
        return list(&directories, args.json);
    }
    let filter = args.filter.join(" ");
    if !args.range.is_given() && filter.is_empty() {
        bail!("say what is to be kept: --from, --to, --last or a filter; --from 0 is all");
    }
    if args.note.len() > NOTE_BYTES_MAX {
        bail!("the note takes {} bytes, at most {NOTE_BYTES_MAX} are kept", args.note.len());
    }
    let stop = StopSignal::install()?;
    let pruner = Arc::new(Finder::of_all());
    let asked = args.range.span().resolve(&args.directories, Some(pruner))?.range;
    let mut found = Vec::new();
    for (path, dir) in directories {
        let held = files_that_hold(path, asked, &filter, &|| stop.is_set())?;
        let Some(held) = held else {
            say::message("ringside: ended by a signal: nothing was pinned");
            return Ok(ExitCode::from(1));
        };
        say_of(&held);
        found.push((path, dir, held));
    }
    let next = |(_, dir, _): &(_, Dir, _)| Pins::read(dir).map(|pins| pins.next_id());
    let ids = found.iter().map(next).collect::<Result<Vec<_>, _>>()?;
    let (created, note) = (clock::realtime_now(), args.note);
    let (id, from, to) = (ids.into_iter().max().unwrap_or(1), asked.from, asked.to);
    let (mut kept, mut gone) = (0, 0);
    for (path, dir, Held { files, .. }) in found {
        let (note, filter) = (note.clone(), filter.clone());
        let pinned = add_pin(&dir, Pin { id, note, created, from, to, filter, files })?;
        report::made(path, &pinned, args.json)?;
        kept += pinned.pin.files.len();
        gone += pinned.gone.len();
    }
    Ok(ExitCode::from(u8::from(kept == 0 || gone > 0)))
}

fn opened(directories: &[PathBuf]) -> anyhow::Result<Vec<(&Path, Dir)>> {
    let open =
        |path: &PathBuf| Dir::open(path).with_context(|| format!("cannot open {}", path.shown()));
    directories.iter().map(|path| Ok((&**path, open(path)?))).collect()
}

fn say_of(held: &Held) {
    for (path, reason) in &held.unreadable {
        let path = path.shown();
        say::message(format_args!("ringside: {path} is kept as it cannot be read: {reason}"));
    }
    for path in &held.others {
        let path = path.shown();
        say::message(format_args!(
            "ringside: {path} is no recorder's by its name: nothing deletes it"
        ));
    }
}

fn list(directories: &[(&Path, Dir)], json: bool) -> anyhow::Result<ExitCode> {
    for (path, dir) in directories {
        for pin in Pins::read(dir)?.pins() {
            report::listed(path, pin, &pinned_sizes(dir, pin), json)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `unpin`.
pub fn unpin(args: UnpinArgs) -> anyhow::Result<ExitCode> {
    let ids: BTreeSet<u64> = args.ids.into_iter().collect();
    let mut missing = ids.clone();
    for (path, dir) in opened(&args.directories)? {
        for pin in remove_pins(&dir, &ids)? {
            missing.remove(&pin.id);
            report::removed(path, &pin, args.json)?;
        }
    }
    for id in &missing {
        say::message(format_args!(
            "ringside: there is no pin {id}: `ringside pin --list` tells which"
        ));
    }
    Ok(ExitCode::from(u8::from(!missing.is_empty())))
}
