//! What IP carries that is no layer of a dissection: encrypted packets, routing protocols.

mod ospf;
mod routing;

use crate::application::{Protocol, Text};
use crate::cursor::{Payload, Stop};
use crate::put;
use std::fmt::Write;

/// The protocol of a number whose text is made.
pub(super) fn protocol(number: u16) -> Option<Protocol> {
    Some(match number {
        50 => Protocol::new("esp", esp),
        88 => Protocol::new("eigrp", routing::eigrp),
        89 => Protocol::new("ospf", ospf::print),
        103 => Protocol::new("pim", routing::pim),
        108 => Protocol::new("ipcomp", ipcomp),
        112 => Protocol::new("vrrp", routing::vrrp),
        _ => return None,
    })
}

/// RFC 4303.
fn esp(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    let mut cursor = payload.cursor();
    let (index, sequence) = (cursor.u32()?, cursor.u32()?);
    put!(text, "ESP(spi=0x{index:08x},seq=0x{sequence:x}), length {}", payload.length);
    Ok(())
}

/// RFC 3173.
fn ipcomp(text: &mut Text<'_>, payload: Payload<'_>) -> Result<(), Stop> {
    let mut cursor = payload.cursor();
    cursor.u16()?;
    put!(text, "IPComp(cpi=0x{:04x})", cursor.u16()?);
    Ok(())
}
