//! `ringside drop`: rules inside the driver, to protect this host.

mod kept;
mod off;
mod status;

use crate::in_driver::Tended;
use crate::in_driver_args::InDriverArgs;
use crate::running;
use anyhow::Context;
use clap::{Args, Subcommand};
use ringside_control::{DROP_KIND, Desk, OutputStatus, StatusParts};
use ringside_report::drop as report;
use ringside_rules::language::{self, RuleSet, Sets};
use ringside_session::driver_rules::{Dropping, Shared, counts};
use ringside_terminal::{say, units};
use ringside_xdp::{DriverRules, Options, SourceLimit, Target, Totals};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Sources that are known at a time unless asked otherwise: 2 MiB.
const SOURCES: u32 = 65_536;
/// A source's burst unless asked otherwise is a tenth of a second of its rate, but no less.
const BURST_FRAMES_MIN: u32 = 100;

/// Arguments of `drop`.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "docs/rules.md describes rules. `drop` ends a frame before the kernel has
made anything of it; `pass` and `take` let it go on, and so does the default unless the rules
say `default drop`.

Examples:
  sudo ringside drop -i eth1 --rules drop.rules --dry-run      what would it do?
  sudo ringside drop -i eth1 --rules drop.rules                until Ctrl-C
  sudo ringside drop -i eth1 --rule 'udp src port 19,1900,11211 => drop'
  sudo ringside drop -i eth1 --rule 'src ip @blocked.txt => drop' --source-limit 20000
  sudo ringside rules add 'src ip 192.0.2.7 => drop'           meanwhile
  sudo ringside drop status
  sudo ringside drop -i eth1 --rules drop.rules --pin          stays when this process ends
  sudo ringside drop -i eth1 --rules drop.rules --pin --detach  put rules in force, and return
  sudo ringside drop status -i eth1
  sudo ringside drop off -i eth1

Signals: SIGINT, SIGTERM and SIGHUP end it with its account; SIGUSR1 says what was dropped so far,
on standard error."
)]
pub struct DropArgs {
    #[command(subcommand)]
    command: Option<DropCommand>,

    /// Interface to protect.
    #[arg(short = 'i', long = "interface", value_name = "IF", required = true)]
    interface: Option<String>,

    /// File of rules.
    #[arg(long, value_name = "FILE", required_unless_present = "rule")]
    rules: Option<PathBuf>,

    /// A rule; several are numbered from 1 unless they say otherwise.
    #[arg(long, value_name = "RULE", conflicts_with = "rules")]
    rule: Vec<String>,

    /// Judge and count, and let every frame through.
    #[arg(long)]
    dry_run: bool,

    /// Frames a second of each source address, of those that no rule drops; the rest is dropped.
    /// BURST is what it may send at once [default: a tenth of a second].
    #[arg(long, value_name = "RATE[,BURST]", value_parser = source_limit)]
    source_limit: Option<(u32, u32)>,

    /// Source addresses that --source-limit knows at a time, 32 bytes each.
    #[arg(long, value_name = "N", default_value_t = SOURCES, requires = "source_limit")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    sources: u32,

    /// How many of the sources of most dropped frames are printed at the end.
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,

    /// Use the kernel's generic path where the driver has no XDP: after the kernel has made a
    /// socket buffer, so that it saves little.
    #[arg(long)]
    generic: bool,

    /// The rules stay in force when this process ends or is killed, until `drop off`; those that
    /// are pinned on the interface already are replaced at once.
    #[arg(long)]
    pin: bool,

    #[command(flatten)]
    run: InDriverArgs,
}

#[derive(Subcommand)]
enum DropCommand {
    /// What is dropped where; status 1 if nothing is.
    Status(status::StatusArgs),
    /// End what protects an interface.
    Off(off::OffArgs),
}

/// Runs the subcommand.
pub fn run(args: DropArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Some(DropCommand::Status(args)) => status::status(args),
        Some(DropCommand::Off(args)) => off::off(args),
        None => protect(&args),
    }
}

fn protect(args: &DropArgs) -> anyhow::Result<ExitCode> {
    let course = args.run.begin()?;
    let name = args.interface.as_deref().context("name an interface with -i")?;
    let device = running::interface_that_is_up(name)?;
    if !args.pin {
        kept::ensure_none(name, device.ifindex, args.run.netns.as_deref())?;
    }
    let mut rules = DriverRules::open(
        &Target { interface: name, ifindex: device.ifindex },
        rule_set(args)?,
        &options(args),
    )?;
    for note in rules.notes() {
        say::message(format_args!("ringside: {name}: {note}"));
    }
    let control = args.run.control(DROP_KIND)?;
    rules.start()?;
    let memory = units::scaled(rules.memory_bytes() as f64);
    let count = units::counted(rules.len() as u64, "rule");
    let fast = match rules.fast_rules() {
        0 => String::new(),
        number if number == rules.len() => ", all on the fast path".to_owned(),
        number => format!(", {number} of them on the fast path"),
    };
    let shared = Shared::new(rules);
    let dry = if args.dry_run { ", dry run: every frame is let through" } else { "" };
    let pinned = if args.pin { ", pinned" } else { "" };
    say::message(format_args!("listening on {name}: {count} in {memory}B{fast}{pinned}{dry}"));
    if args.run.detach {
        kept::tell_stay(name, args.run.netns.as_deref());
        return Ok(ExitCode::SUCCESS);
    }
    let output = OutputStatus { kind: DROP_KIND.to_owned(), paths: Vec::new() };
    let parts = StatusParts::new(format!("{name}, in the driver{dry}"), vec![name.into()], output);
    let desk = Desk::new(parts, Dropping::new(name, args.dry_run, shared));
    course.run(control, desk, |dropping| {
        if !args.pin {
            dropping.rules().stop()?;
        }
        finish(args, dropping)?;
        if args.pin {
            kept::tell_stay(name, args.run.netns.as_deref());
        }
        Ok(())
    })
}

fn rule_set(args: &DropArgs) -> anyhow::Result<RuleSet> {
    match &args.rules {
        Some(path) => Ok(language::load(path)?),
        None => {
            let text = args.rule.join("\n");
            Ok(language::parse(text.as_bytes(), &mut Sets::in_folder(Path::new(".")))?)
        }
    }
}

fn options(args: &DropArgs) -> Options {
    let sources = args.sources;
    let limit = args.source_limit.map(|(frames_per_second, burst_frames)| SourceLimit {
        frames_per_second,
        burst_frames,
        sources,
    });
    Options {
        is_dry: args.dry_run,
        source_limit: limit,
        generic_allowed: args.generic,
        is_pinned: args.pin,
        ..Options::default()
    }
}

impl Tended for Dropping {
    type Account = Totals;

    fn tend(&self) -> anyhow::Result<Vec<String>> {
        let mut rules = self.rules();
        if rules.put_back_if_gone()? {
            tracing::warn!("the program was taken off, and was put back");
        }
        if let Err(error) = rules.settle() {
            tracing::warn!("no fast path for the rules as they are now: {error}");
        }
        Ok(Vec::new())
    }

    fn account(&self) -> anyhow::Result<Totals> {
        Ok(self.rules().totals())
    }

    fn line(now: &Totals, before: &Totals, elapsed: Duration) -> String {
        report::line(now, before, elapsed)
    }

    fn json(account: &Totals) -> serde_json::Value {
        report::json(account)
    }
}

/// Says what was done.
fn finish(args: &DropArgs, dropping: &Dropping) -> anyhow::Result<()> {
    let rules = dropping.rules();
    let (totals, offenders) = (rules.totals(), rules.offenders(args.top));
    let counts = counts(&rules);
    drop(rules);
    let ledger = dropping.ledger();
    Ok(report::finish((&totals, args.dry_run), &offenders, &counts, &ledger, args.run.json)?)
}

fn source_limit(text: &str) -> Result<(u32, u32), String> {
    let (rate, burst) = text.split_once(',').unwrap_or((text, ""));
    let number = |text: &str| {
        let number = text.trim().parse::<u32>().ok().filter(|&number| number > 0);
        number.ok_or_else(|| {
            format!("`{text}` is no number of frames; write it as 20000 or 20000,500")
        })
    };
    let rate = number(rate)?;
    match burst {
        "" => Ok((rate, (rate / 10).max(BURST_FRAMES_MIN))),
        burst => Ok((rate, number(burst)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_sources() {
        assert_eq!(source_limit("20000"), Ok((20_000, 2000)));
        assert_eq!(source_limit("5"), Ok((5, 100)));
        assert_eq!(source_limit("5,7"), Ok((5, 7)));
        for wrong in ["", "0", "x", "5,0", "-1", "1,2,3"] {
            assert!(source_limit(wrong).is_err(), "{wrong}");
        }
    }
}
