//! What is dropped where.

use super::kept::{self, Kept};
use crate::running;
use clap::Args;
use ringside_control::{DROP_KIND, Status};
use ringside_report::drop as report;
use ringside_sys::netns::Namespace;
use std::process::ExitCode;

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
    let running: Vec<_> = found.iter().map(|(client, status)| (client.path(), status)).collect();
    let pinned = alone.iter().map(|kept| kept.report(interface.is_some())).collect();
    match args.json {
        true => report::status_json(&running, pinned)?,
        false => report::status_text(&running, pinned)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// True if the process of a status holds what is pinned: one process has the place.
fn holds(status: &Status, kept: &Kept) -> bool {
    status.interfaces.contains(&kept.interface)
        && running::namespace_of(status) == Some(kept.pins.namespace())
        && kept::is_held(&kept.pins)
}
