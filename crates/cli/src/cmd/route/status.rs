//! What is forwarded where.

use super::kept;
use crate::running;
use clap::Args;
use ringside_control::ROUTE_KIND;
use ringside_report::route as report;
use ringside_report::status::since;
use ringside_route::Ledger;
use ringside_sys::netns::Namespace;
use ringside_terminal::say;
use std::io;
use std::process::ExitCode;
use std::time::SystemTime;

/// Arguments of `route status`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside route status
  sudo ringside route status -i eth1 --json")]
pub struct StatusArgs {
    /// Only the router with this interface.
    #[arg(short = 'i', long = "interface", value_name = "IF")]
    interface: Option<String>,

    /// Only this network namespace: a name, a path or a process id.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,

    /// One JSON object a line on standard output for each router.
    #[arg(long)]
    json: bool,
}

/// Prints what is forwarded where; 1 if nothing is.
pub(super) fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let wanted = args.netns.as_deref().map(Namespace::open).transpose()?;
    let wanted = wanted.map(|namespace| namespace.identity()).transpose()?;
    let mut found = running::of_kind(ROUTE_KIND, args.interface.as_deref());
    found.retain(|(_, status)| wanted.is_none() || running::namespace_of(status) == wanted);
    let mut alone = kept::all(args.interface.as_deref());
    alone.retain(|router| {
        let is_there = wanted.is_none() || Some(router.namespace()) == wanted;
        is_there && !running::is_held(router.namespace(), || router.is_held())
    });
    if found.is_empty() && alone.is_empty() {
        running::tell_nothing("nothing is forwarded");
        return Ok(ExitCode::from(1));
    }
    for (client, status) in &found {
        if args.json {
            say::data(serde_json::json!({ "socket": client.path(), "status": status }))?;
            continue;
        }
        // Of another version it may have another form.
        let ledger = status.route.clone().and_then(|route| serde_json::from_value(route).ok());
        tell(&format!("process {}", status.pid), &status.started, &ledger.unwrap_or_default())?;
    }
    for router in &alone {
        let since = since(router.since().unwrap_or(SystemTime::UNIX_EPOCH));
        let ledger = router.ledger()?;
        if args.json {
            let pinned = serde_json::json!({
                "interfaces": router.interfaces(),
                "directory": router.directory(),
                "since": since,
                "route": ledger,
            });
            say::data(serde_json::json!({ "pinned": pinned }))?;
            continue;
        }
        tell("pinned", &since, &ledger)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(who: &str, since: &str, ledger: &Ledger) -> io::Result<()> {
    say::data(format!("{who}, since {since}\n\n{}\n", report::text(ledger).trim_end()))
}
