//! The interfaces of a network namespace.

use ringside_netdev::NetDevice;
use ringside_session::interfaces::ANY;
use ringside_terminal::say;
use std::io;

/// Prints interfaces, a line each, with their numbers: from 1 in this order, and the last stands
/// for all of them.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(devices: &[NetDevice], json: bool) -> io::Result<()> {
    let any = devices.len() + 1;
    for (number, device) in (1..).zip(devices) {
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
        return say::data(serde_json::json!({ "number": any, "name": ANY }));
    }
    say::data(format_args!("{any}.{ANY} (all of them)"))
}
