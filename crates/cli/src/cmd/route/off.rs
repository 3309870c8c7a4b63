//! The end of a router.

use super::kept;
use crate::running;
use clap::Args;
use ringside_control::ROUTE_KIND;
use ringside_report::route as report;
use ringside_route::{PinnedRouter, Remains};
use ringside_sys::netns::Namespace;
use ringside_terminal::say;
use std::process::ExitCode;

/// Arguments of `route off`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside route off -i eth1
  sudo ringside route off -i eth1 --netns edge")]
pub struct OffArgs {
    /// Any of its interfaces.
    #[arg(short = 'i', long = "interface", value_name = "IF")]
    interface: String,

    /// Network namespace of the interface: a name, a path or a process id. May be left out if it
    /// is this one, or if there is one router with an interface of that name.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
}

/// Ends a router, and waits until it has; 1 if there is none.
pub(super) fn off(args: &OffArgs) -> anyhow::Result<ExitCode> {
    let given = args.netns.as_deref().map(Namespace::open).transpose()?;
    let mut found = running::of_kind(ROUTE_KIND, Some(&args.interface));
    let was_stale = ringside_route::remove_stale();
    if was_stale {
        say::message("removed what was pinned of interfaces that are gone");
    }
    let mut pinned = kept::all(Some(&args.interface));
    let places = found.iter().map(|(_, status)| running::namespace_of(status));
    let mut remains = Remains::of(&args.interface);
    let places = places.chain(pinned.iter().map(|router| Some(router.namespace())));
    let places = places.chain(remains.iter().map(|left| Some(left.namespace()))).collect();
    if let Some(place) = running::place(given.as_ref(), places, &args.interface)? {
        found.retain(|(_, status)| running::namespace_of(status) == place);
        pinned.retain(|router| Some(router.namespace()) == place);
        remains.retain(|left| Some(left.namespace()) == place);
    }
    if found.is_empty() && pinned.is_empty() && remains.is_empty() {
        running::tell_nothing(&format!("no router has {}", args.interface));
        return Ok(ExitCode::from(u8::from(!was_stale)));
    }
    found.into_iter().try_for_each(running::end)?;
    for router in &pinned {
        running::in_namespace(given.as_ref(), router.namespace(), || Ok(router.end()?))?;
        tell(router)?;
    }
    for left in &remains {
        running::in_namespace(given.as_ref(), left.namespace(), || Ok(left.end()?))?;
        say::message(format_args!("removed what was left of a router on {}", args.interface));
    }
    Ok(ExitCode::SUCCESS)
}

/// Says what a pinned router did.
fn tell(router: &PinnedRouter) -> anyhow::Result<()> {
    say::message(format_args!("no router is pinned on {} any more", router.interfaces().join(" ")));
    say::message(report::text(&router.ledger()?).trim_end());
    Ok(())
}
