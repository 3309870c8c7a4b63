//! Interfaces by number, as tcpdump lists them (-D) and takes them (-i N).

use anyhow::{Context, bail};
pub use ringside_capture::backend::pcap::ANY;
use ringside_netdev::{self as netdev, NetDevice};
use ringside_terminal::say;

/// The interfaces of this namespace, in the order in which they were made; number 1 comes first.
fn in_order() -> anyhow::Result<Vec<NetDevice>> {
    let mut devices = netdev::list()?;
    devices.sort_unstable_by_key(|device| device.ifindex);
    Ok(devices)
}

/// Prints them, a line each, with their numbers.
///
/// # Errors
/// The system did not list them, or standard output is closed.
pub fn print(json: bool) -> anyhow::Result<()> {
    let devices = in_order()?;
    let any = devices.len() + 1;
    for (number, device) in (1..).zip(&devices) {
        let (name, is_up, runs) = (&device.name, device.is_up(), device.carrier);
        if json {
            say::data(serde_json::json!({
                "number": number, "name": name, "up": is_up, "running": runs,
            }))?;
            continue;
        }
        let state = match (is_up, runs) {
            (true, true) => " [Up, Running]",
            (true, false) => " [Up]",
            (false, _) => "",
        };
        say::data(format_args!("{number}.{name}{state}"))?;
    }
    if json {
        return Ok(say::data(serde_json::json!({ "number": any, "name": ANY }))?);
    }
    Ok(say::data(format_args!("{any}.{ANY} (all of them)"))?)
}

/// Names of what `-i` names, by name or number.
///
/// # Errors
/// There is no interface of a number, or the system did not list them.
pub fn names(given: &[String]) -> anyhow::Result<Vec<String>> {
    given
        .iter()
        .map(|text| by_number(text).map(|name| name.unwrap_or_else(|| text.clone())))
        .collect()
}

/// The interface of a number; `None` for what is no number, or the name of an interface.
fn by_number(text: &str) -> anyhow::Result<Option<String>> {
    let Ok(number) = text.parse::<usize>() else { return Ok(None) };
    let devices = in_order()?;
    if devices.iter().any(|device| device.name == text) {
        return Ok(None);
    }
    if number == devices.len() + 1 {
        return Ok(Some(ANY.into()));
    }
    let index = number.checked_sub(1).context("interfaces are numbered from 1: see capture -D")?;
    match devices.into_iter().nth(index) {
        Some(device) => Ok(Some(device.name)),
        None => bail!("there is no interface number {number}: see capture -D"),
    }
}
