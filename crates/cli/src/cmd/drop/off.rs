//! The end of what protects an interface: of its process, and of rules that are pinned.

use super::kept;
use anyhow::{Context, bail};
use clap::Args;
use ringside_control::{Client, Command, DROP_KIND, Found, Status};
use ringside_report::drop as report;
use ringside_sys::netns::Namespace;
use ringside_terminal::say;
use ringside_xdp::PinnedRules;
use ringside_xdp::pins::{self, Pins};
use std::collections::BTreeSet;
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
    let mut running = running(Some(&args.interface));
    let named = kept::named(Some(&args.interface)).map(|(_, pins)| pins);
    let (stale, mut pinned): (Vec<Pins>, Vec<Pins>) = named.partition(Pins::is_stale);
    if !stale.is_empty() {
        pins::remove_stale();
        say::message("removed what was pinned of an interface that is gone");
    }
    let places = running.iter().map(|(_, status)| namespace_of(status));
    let places = places.chain(pinned.iter().map(|pins| Some(pins.namespace()))).collect();
    if let Some(place) = place(given.as_ref(), places, &args.interface)? {
        running.retain(|(_, status)| namespace_of(status) == place);
        pinned.retain(|pins| Some(pins.namespace()) == place);
    }
    if running.is_empty() && pinned.is_empty() {
        kept::tell_nothing(&format!("nothing is dropped on {}", args.interface));
        return Ok(ExitCode::from(u8::from(stale.is_empty())));
    }
    for (mut client, status) in running {
        client.ask(&Command::Stop {})?;
        client.wait_for_end();
        say::message(format_args!("process {} has ended", status.pid));
    }
    for pins in pinned {
        end(&pins, &args.interface, given.as_ref())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Which of the network namespaces is meant in which an interface of this name is protected: what
/// is given, our own, or the only one.
fn place(
    given: Option<&Namespace>,
    places: BTreeSet<Option<u64>>,
    interface: &str,
) -> anyhow::Result<Option<Option<u64>>> {
    if let Some(given) = given {
        return Ok(Some(Some(given.identity()?)));
    }
    let own = Some(Namespace::current()?.identity()?);
    if places.contains(&own) {
        return Ok(Some(own));
    }
    if places.len() > 1 {
        bail!("{interface} is protected in several network namespaces: say --netns NAME");
    }
    Ok(places.into_iter().next())
}

/// Ends pinned rules, and says what they did.
fn end(pins: &Pins, interface: &str, given: Option<&Namespace>) -> anyhow::Result<()> {
    let found = if given.is_none() { Namespace::find(pins.namespace()) } else { None };
    let namespace = given.or(found.as_ref()).context(
        "the network namespace of the pinned rules has no name, and no process is in it: say \
         --netns PATH",
    )?;
    // What cannot be read can be ended.
    let rules = PinnedRules::open(pins).ok().flatten();
    ringside_keeper::in_namespace(namespace, || Ok(pins.end()?))?;
    say::message(format_args!("no rules are pinned on {interface} any more"));
    if let Some(rules) = rules {
        say::message(report::text(&rules.totals(), rules.is_dry()).trim_end());
    }
    Ok(())
}

/// Those that run, of an interface.
pub(super) fn running(interface: Option<&str>) -> Vec<(Client, Status)> {
    let mut found = Found::at(None);
    for error in found.errors.drain(..) {
        say::message(format_args!("ringside: {error:#}"));
    }
    let asked = found.clients.into_iter().filter_map(|mut client| {
        let status = *client.ask(&Command::Status {}).ok()?.status?;
        Some((client, status))
    });
    let is_meant = |status: &Status| {
        status.output.kind == DROP_KIND
            && interface.is_none_or(|name| status.interfaces.iter().any(|one| one == name))
    };
    asked.filter(|(_, status)| is_meant(status)).collect()
}

/// The network namespace that a process is in; none if it cannot be found out.
pub(super) fn namespace_of(status: &Status) -> Option<u64> {
    Namespace::open(&format!("/proc/{}/ns/net", status.pid)).ok()?.identity().ok()
}
