//! DHCP and BOOTP; with -v all fields and options.

mod options;
mod values;

use super::Text;
use super::names::escaped;
use crate::cursor::{Payload, Stop};
use crate::put;
use ringside_proto::Dhcp;
use ringside_proto::dhcp::DhcpOption;
use ringside_wire::MacAddr;
use std::fmt::Write;

pub(super) fn print(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    let operation = *payload.bytes.first().ok_or(Stop::Cut)?;
    text.out.push_str("BOOTP/DHCP, ");
    match operation {
        Dhcp::REQUEST => text.out.push_str("Request"),
        Dhcp::REPLY => text.out.push_str("Reply"),
        other => {
            put!(text, "unknown (0x{other:02x})");
        }
    }
    let dhcp = Dhcp::new(payload.bytes).ok_or(Stop::Cut)?;
    let client = dhcp.client_mac().map(MacAddr);
    if let (Some(client), Dhcp::REQUEST) = (client, operation) {
        put!(text, " from {client}");
    }
    put!(text, ", length {}", payload.length);
    if text.verbosity == 0 {
        return Ok(());
    }
    fields(text, &dhcp);
    if let Some(client) = client {
        put!(text, "\n\t  Client-Ethernet-Address {client}");
    }
    for (name, label) in [(dhcp.server_name(), "sname"), (dhcp.boot_file(), "file")] {
        let name = name.ok_or(Stop::Cut)?;
        if !name.is_empty() {
            put!(text, "\n\t  {label} \"");
            escaped(text.out, name);
            text.out.push('"');
        }
    }
    match dhcp.cookie().ok_or(Stop::Cut)? {
        Dhcp::MAGIC_COOKIE => options::print(text, &dhcp),
        0 => Ok(()),
        other => {
            put!(text, "\n\t  Vendor-#0x{other:08x}");
            Ok(())
        }
    }
}

fn fields(text: &mut Text<'_>, dhcp: &Dhcp<'_>) {
    let (kind, length) = dhcp.hardware();
    if kind != 1 {
        put!(text, ", htype {kind}");
    }
    if kind != 1 || length != 6 {
        put!(text, ", hlen {length}");
    }
    if dhcp.hops() > 0 {
        put!(text, ", hops {}", dhcp.hops());
    }
    if dhcp.transaction() != 0 {
        put!(text, ", xid 0x{:x}", dhcp.transaction());
    }
    if dhcp.seconds() > 0 {
        put!(text, ", secs {}", dhcp.seconds());
    }
    let is_broadcast = dhcp.flags() & 0x8000 != 0;
    put!(text, ", Flags [{}]", if is_broadcast { "Broadcast" } else { "none" });
    if dhcp.flags() & 0x7fff != 0 && text.verbosity > 1 {
        put!(text, " (0x{:04x})", dhcp.flags());
    }
    let names = ["Client-IP", "Your-IP", "Server-IP", "Gateway-IP"];
    for (name, address) in names.into_iter().zip(dhcp.addresses()) {
        if !address.is_unspecified() {
            put!(text, "\n\t  {name} {address}");
        }
    }
}

/// Appends the value of an option; gives its name.
pub(crate) fn option(text: &mut Text<'_>, option: &DhcpOption<'_>) -> &'static str {
    values::print(text, option);
    options::known(option.code).0
}
