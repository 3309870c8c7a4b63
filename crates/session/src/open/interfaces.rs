//! Interfaces by number, as tcpdump lists and takes them.

use crate::refused::Refused;
pub use ringside_capture::backend::pcap::ANY;
use ringside_netdev as netdev;
pub use ringside_netdev::NetDevice;

/// The interfaces of this namespace, in the order in which they were made; number 1 comes first,
/// and behind the last [`ANY`].
///
/// # Errors
/// The system did not list them.
pub fn in_order() -> anyhow::Result<Vec<NetDevice>> {
    let mut devices = netdev::list()?;
    devices.sort_unstable_by_key(|device| device.ifindex);
    Ok(devices)
}

/// Names of what is named, by name or number. Refuses a number without an interface, and one that
/// is named twice.
pub(crate) fn names(given: &[String]) -> anyhow::Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for text in given {
        let interface = by_number(text)?.unwrap_or_else(|| text.clone());
        if names.contains(&interface) {
            return Err(Refused::GivenTwice { interface }.into());
        }
        names.push(interface);
    }
    Ok(names)
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
    let index = number.checked_sub(1).ok_or(Refused::NumberZero)?;
    match devices.into_iter().nth(index) {
        Some(device) => Ok(Some(device.name)),
        None => Err(Refused::NoSuchNumber { number }.into()),
    }
}
