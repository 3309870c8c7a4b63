//! What is dropped where.

use super::kept::{self, Kept};
use super::{RULES_TOLD_MAX, report};
use crate::{rule_counts, running};
use clap::Args;
use ringside_control::{Client, DROP_KIND, Status};
use ringside_core::{Cause, Ledger};
use ringside_sys::netns::Namespace;
use ringside_terminal::units::grouped;
use ringside_terminal::{columns, say};
use std::io;
use std::process::ExitCode;

/// Sources of most dropped frames that are printed, as at the end of a run.
const SOURCES_TOLD_MAX: usize = 10;

/// Arguments of `drop status`.
#[derive(Args)]
#[command(
    after_help = "Of rules that are pinned and that no process holds, -i also tells what each
has counted.

Examples:
  sudo ringside drop status
  sudo ringside drop status -i eth1 --json"
)]
pub struct StatusArgs {
    /// Only this interface.
    #[arg(short = 'i', long = "interface", value_name = "IF")]
    interface: Option<String>,

    /// Only this network namespace: a name, a path or a process id.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,

    /// One JSON object a line on standard output for each interface.
    #[arg(long)]
    json: bool,
}

/// Prints what is dropped where; 1 if nothing is.
pub(super) fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let interface = args.interface.as_deref();
    let wanted = args.netns.as_deref().map(Namespace::open).transpose()?;
    let wanted = wanted.map(|namespace| namespace.identity()).transpose()?;
    let is_wanted = |namespace| wanted.is_none() || namespace == wanted;
    let mut found = running::of_kind(DROP_KIND, interface);
    found.retain(|(_, status)| is_wanted(running::namespace_of(status)));
    let mut alone = Kept::all(interface);
    alone.retain(|kept| {
        let is_told = found.iter().any(|(_, status)| holds(status, kept));
        !is_told && is_wanted(Some(kept.pins.namespace()))
    });
    if found.is_empty() && alone.is_empty() {
        running::tell_nothing("nothing is dropped");
        return Ok(ExitCode::from(1));
    }
    match args.json {
        true => json(&found, &alone, interface.is_some())?,
        false => text(&found, &alone, interface.is_some())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// True if the process of a status holds what is pinned: one process has the place.
fn holds(status: &Status, kept: &Kept) -> bool {
    status.interfaces.contains(&kept.interface)
        && running::namespace_of(status) == Some(kept.pins.namespace())
        && kept::is_held(&kept.pins)
}

fn ledger(kept: &Kept) -> Ledger {
    report::ledger(&kept.interface, &kept.rules.totals(), kept.rules.is_dry())
}

fn json(found: &[(Client, Status)], alone: &[Kept], has_rules: bool) -> io::Result<()> {
    for (client, status) in found {
        say::data(serde_json::json!({ "socket": client.path(), "status": status }))?;
    }
    for kept in alone {
        let pinned = serde_json::json!({
            "interface": kept.interface,
            "directory": kept.rules.directory(),
            "since": kept.since(),
            "dry_run": kept.rules.is_dry(),
            "ledger": ledger(kept),
            "drop": report::json(&kept.rules.totals()),
        });
        say::data(serde_json::json!({ "pinned": pinned }))?;
        if has_rules {
            rule_counts::json(kept.counts())?;
            let offenders = kept.rules.offenders(SOURCES_TOLD_MAX);
            say::data(serde_json::json!({ "sources": report::sources(&offenders) }))?;
        }
    }
    Ok(())
}

fn text(found: &[(Client, Status)], alone: &[Kept], has_rules: bool) -> io::Result<()> {
    let line = |interface: String, process: String, since: String, ledger: &Ledger| {
        let cause = |cause| grouped(ledger.dropped.get(&cause).copied().unwrap_or_default());
        vec![
            interface,
            process,
            since,
            grouped(ledger.received.unwrap_or_default()),
            grouped(ledger.passed),
            cause(Cause::ByRule),
            cause(Cause::SourceLimit),
        ]
    };
    let running = found.iter().map(|(_, status)| {
        let (interfaces, process) = (status.interfaces.join(" "), status.pid.to_string());
        line(interfaces, process, status.started.clone(), &status.ledger)
    });
    let pinned = alone
        .iter()
        .map(|kept| line(kept.interface.clone(), "pinned".into(), kept.since(), &ledger(kept)));
    let lines: Vec<Vec<String>> = running.chain(pinned).collect();
    let head = ["interface", "process", "since", "received", "passed", "dropped", "limited"];
    say::data(columns::text(&head, &lines).trim_end())?;
    for kept in alone.iter().filter(|_| has_rules) {
        say::data(format!("\n{}", rule_counts::table(kept.counts(), RULES_TOLD_MAX)))?;
        let offenders = kept.rules.offenders(SOURCES_TOLD_MAX);
        if !offenders.is_empty() {
            say::data(format!("\n{}", report::offenders(&offenders).trim_end()))?;
        }
    }
    Ok(())
}
