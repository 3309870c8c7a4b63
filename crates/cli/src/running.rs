//! What is at work in drivers: runs of one kind, by their control sockets, and what is pinned.

use anyhow::{Context, bail, ensure};
use ringside_control::{Client, Command, Found, Status};
use ringside_netdev::{self as netdev, NetDevice};
use ringside_sys::netns::Namespace;
use ringside_terminal::say;
use ringside_xdp::pins;
use std::collections::BTreeSet;

/// The interface of this name.
///
/// # Errors
/// There is none, or it is down.
pub fn interface_that_is_up(name: &str) -> anyhow::Result<NetDevice> {
    let Some(device) = netdev::by_name(name)? else {
        bail!("no interface is called {name}; `ip link` shows those that are there");
    };
    ensure!(device.is_up(), "{name} is down: `ip link set {name} up`");
    Ok(device)
}

/// Those of this kind on an interface, or on all; what does not answer is reported.
pub fn of_kind(kind: &str, interface: Option<&str>) -> Vec<(Client, Status)> {
    let mut found = Found::at(None);
    for error in found.errors.drain(..) {
        say::message(format_args!("ringside: {error:#}"));
    }
    let asked =
        found.clients.into_iter().filter_map(|mut client| match client.ask(&Command::Status {}) {
            Ok(reply) => Some((client, *reply.status?)),
            Err(error) => {
                say::message(format_args!("ringside: {error:#}"));
                None
            }
        });
    let is_meant = |status: &Status| {
        status.output.kind == kind
            && interface.is_none_or(|name| status.interfaces.iter().any(|one| one == name))
    };
    asked.filter(|(_, status)| is_meant(status)).collect()
}

/// Ends a run, and waits until it has.
pub fn end((mut client, status): (Client, Status)) -> anyhow::Result<()> {
    client.ask(&Command::Stop {})?;
    client.wait_for_end();
    say::message(format_args!("process {} has ended", status.pid));
    Ok(())
}

/// The network namespace that a process is in; none if it cannot be found out.
pub fn namespace_of(status: &Status) -> Option<u64> {
    Namespace::open(&format!("/proc/{}/ns/net", status.pid)).ok()?.identity().ok()
}

/// Which of the network namespaces is meant in which something is at work on an interface of this
/// name: what is given, our own, or the only one.
pub fn place(
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
        bail!("there is an {interface} in several network namespaces: say --netns NAME");
    }
    Ok(places.into_iter().next())
}

/// Removes what is pinned of interfaces that are gone; true if some of it was of this kind, of an
/// interface of this name, and in the namespace that is given, if one is: the rest was not asked
/// for.
pub fn remove_stale(
    kind: pins::Kind,
    interface: &str,
    given: Option<&Namespace>,
) -> anyhow::Result<bool> {
    let mut removed = pins::remove_stale(kind);
    removed.retain(|(_, name)| name.as_deref() == Some(interface));
    if !removed.is_empty() {
        say::message(format_args!(
            "removed what was pinned of an interface {interface} that is gone"
        ));
    }
    let given = given.map(Namespace::identity).transpose()?;
    Ok(removed.iter().any(|&(namespace, _)| given.is_none_or(|given| namespace == given)))
}

/// Runs `work` where something is pinned: in the namespace that is given, or the one with this
/// identity.
pub fn in_namespace(
    given: Option<&Namespace>,
    identity: u64,
    work: impl FnOnce() -> anyhow::Result<()> + Send,
) -> anyhow::Result<()> {
    let found = if given.is_none() { Namespace::find(identity) } else { None };
    let namespace = given.or(found.as_ref()).context(
        "the network namespace of what is pinned has no name, and no process is in it: say --netns \
         PATH",
    )?;
    ringside_keeper::in_namespace(namespace, work)
}

/// True if `is_held` is, in the namespace with this identity; also where that cannot be found out.
pub fn is_held(identity: u64, is_held: impl FnOnce() -> bool + Send) -> bool {
    let namespace = Namespace::find(identity);
    let held = namespace.map(|there| ringside_keeper::in_namespace(&there, || Ok(is_held())));
    held.and_then(Result::ok).unwrap_or(true)
}

/// Says that nothing was found, and whether something may be there all the same.
pub fn tell_nothing(what: &str) {
    let unseen = match pins::are_seen() {
        true => "",
        false => {
            " that can be seen here: without the BPF file system at /sys/fs/bpf nobody knows \
                  what is pinned (in `ip netns exec` use --netns instead)"
        }
    };
    say::message(format_args!("{what}{unseen}"));
}
