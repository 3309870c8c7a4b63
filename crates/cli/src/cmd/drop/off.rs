//! The end of what protects an interface: of its process, and of rules that are pinned.

use super::kept;
use crate::running;
use clap::Args;
use ringside_control::DROP_KIND;
use ringside_report::drop as report;
use ringside_sys::netns::Namespace;
use ringside_terminal::say;
use ringside_xdp::PinnedRules;
use ringside_xdp::pins::{Kind, Pins};
use std::process::ExitCode;

/// Arguments of `drop off`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside drop off -i eth1
  sudo ringside drop off -i eth1 --netns web")]
pub struct OffArgs {
    /// Interface.
    #[arg(short = 'i', long = "interface", value_name = "IF")]
    interface: String,

    /// Network namespace of the interface: a name, a path or a process id. May be left out if it
    /// is this one, or if one interface of that name is protected.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
}

/// Ends what protects an interface, and waits until it has; 1 if nothing does.
pub(super) fn off(args: &OffArgs) -> anyhow::Result<ExitCode> {
    let given = args.netns.as_deref().map(Namespace::open).transpose()?;
    let mut running = running::of_kind(DROP_KIND, Some(&args.interface));
    let was_stale = running::remove_stale(Kind::Rules, &args.interface, given.as_ref())?;
    let mut pinned: Vec<Pins> = kept::named(Some(&args.interface)).map(|(_, pins)| pins).collect();
    let places = running.iter().map(|(_, status)| running::namespace_of(status));
    let places = places.chain(pinned.iter().map(|pins| Some(pins.namespace()))).collect();
    if let Some(place) = running::place(given.as_ref(), places, &args.interface)? {
        running.retain(|(_, status)| running::namespace_of(status) == place);
        pinned.retain(|pins| Some(pins.namespace()) == place);
    }
    if running.is_empty() && pinned.is_empty() {
        running::tell_nothing(&format!("nothing is dropped on {}", args.interface));
        return Ok(ExitCode::from(u8::from(!was_stale)));
    }
    running.into_iter().try_for_each(running::end)?;
    for pins in pinned {
        end(&pins, &args.interface, given.as_ref())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends pinned rules, and says what they did.
fn end(pins: &Pins, interface: &str, given: Option<&Namespace>) -> anyhow::Result<()> {
    // What cannot be read can be ended.
    let rules = PinnedRules::open(pins).ok().flatten();
    running::in_namespace(given, pins.namespace(), || Ok(pins.end()?))?;
    say::message(format_args!("no rules are pinned on {interface} any more"));
    if let Some(rules) = rules {
        say::message(report::text(&rules.totals(), rules.is_dry()).trim_end());
    }
    Ok(())
}
