//! Values of DHCP options.

use super::options::{Format, known};
use crate::application::Text;
use crate::application::names::escaped;
use crate::cursor::{Cursor, Stop};
use crate::put;
use ringside_proto::dhcp::DhcpOption;
use std::fmt::{Display, Write};
use std::net::Ipv4Addr;

/// Appends a value, and how much of it is left that fits its format no more.
pub(super) fn print(text: &mut Text<'_>, option: &DhcpOption<'_>) {
    let mut value = Cursor::new(option.value);
    match known(option.code).1 {
        Format::Addresses => list(text, &mut value, Cursor::ipv4),
        Format::AddressPairs => list(text, &mut value, |value| {
            let mut pair = value.part(8)?;
            Ok(format!("({}:{})", pair.ipv4()?, pair.ipv4()?))
        }),
        Format::Longs => list(text, &mut value, Cursor::u32),
        Format::Shorts => list(text, &mut value, Cursor::u16),
        Format::Flags => list(text, &mut value, |value| {
            Ok(match value.u8()? {
                0 => "N".to_owned(),
                1 => "Y".to_owned(),
                other => format!("{other}?"),
            })
        }),
        Format::Bytes => bytes(text, &mut value),
        Format::Text => quoted(text, &mut value),
        Format::Any => any(text, &mut value),
        Format::MessageType => message_type(text, &mut value),
        Format::Parameters => parameters(text, &mut value),
        Format::ClientId => client_id(text, &mut value),
        Format::NodeType => {
            choice(text, &mut value, &[(1, "b-node"), (2, "p-node"), (4, "m-node"), (8, "h-node")]);
        }
        Format::Overload => {
            choice(text, &mut value, &[(1, "file"), (2, "sname"), (3, "file+sname")]);
        }
        Format::UserClass => user_class(text, &mut value),
        Format::DomainName => domain_name(text, &mut value),
        Format::RelayInformation => relay_information(text, &mut value),
        Format::ClasslessRoutes => routes(text, &mut value),
    }
    if !value.is_empty() {
        put!(text, "\n\t  trailing data length {}", value.left());
    }
}

/// Elements with commas between them, as long as they are whole.
fn list<'a, T: Display>(
    text: &mut Text<'_>,
    value: &mut Cursor<'a>,
    element: fn(&mut Cursor<'a>) -> Result<T, Stop>,
) {
    let mut comma = "";
    while let Ok(element) = element(value) {
        put!(text, "{comma}{element}");
        comma = ",";
    }
}

fn bytes(text: &mut Text<'_>, value: &mut Cursor<'_>) {
    let mut dot = "";
    while let Ok(byte) = value.u8() {
        put!(text, "{dot}{byte}");
        dot = ".";
    }
}

fn quoted(text: &mut Text<'_>, value: &mut Cursor<'_>) {
    text.out.push('"');
    escaped(text.out, rest(value));
    text.out.push('"');
}

/// Everything that is left.
fn rest<'a>(value: &mut Cursor<'a>) -> &'a [u8] {
    value.part_at_most(value.left()).rest()
}

fn any(text: &mut Text<'_>, value: &mut Cursor<'_>) {
    match value.left() {
        2 => list(text, value, Cursor::u16),
        left if left % 4 == 0 => list(text, value, Cursor::u32),
        _ => bytes(text, value),
    }
}

fn message_type(text: &mut Text<'_>, value: &mut Cursor<'_>) {
    const NAMES: [&str; 13] = [
        "Discover",
        "Offer",
        "Request",
        "Decline",
        "ACK",
        "NACK",
        "Release",
        "Inform",
        "",
        "LeaseQuery",
        "LeaseUnassigned",
        "LeaseUnknown",
        "LeaseActive",
    ];
    let &[number] = value.rest() else { return bytes(text, value) };
    rest(value);
    match usize::from(number).checked_sub(1).and_then(|index| NAMES.get(index)) {
        Some(name) if !name.is_empty() => text.out.push_str(name),
        _ => {
            put!(text, "Unknown ({number})");
        }
    }
}

/// Names of options, four a line.
fn parameters(text: &mut Text<'_>, value: &mut Cursor<'_>) {
    for (index, code) in rest(value).iter().enumerate() {
        text.out.push_str(if index % 4 == 0 { "\n\t      " } else { ", " });
        put!(text, "{} ({code})", known(*code).0);
    }
}

fn client_id(text: &mut Text<'_>, value: &mut Cursor<'_>) {
    match value.u8() {
        Ok(0) => return quoted(text, value),
        Ok(1) => text.out.push_str("ether "),
        Ok(kind) => {
            put!(text, "hardware-type {kind}, ");
        }
        Err(_) => return,
    }
    let mut colon = "";
    for byte in rest(value) {
        put!(text, "{colon}{byte:02x}");
        colon = ":";
    }
}

fn choice(text: &mut Text<'_>, value: &mut Cursor<'_>, names: &[(u8, &str)]) {
    let Ok(number) = value.u8() else { return };
    match names.iter().find(|name| name.0 == number) {
        Some(name) => text.out.push_str(name.1),
        None => {
            put!(text, "#{number}");
        }
    }
}

/// Texts with their lengths (RFC 3004).
fn user_class(text: &mut Text<'_>, value: &mut Cursor<'_>) {
    if value.left() < 2 {
        rest(value);
        text.out.push_str("[ERROR: length < 2 bytes]");
        return;
    }
    let mut instance = 0;
    while let Ok(length) = value.u8() {
        instance += 1;
        put!(text, "\n\t      instance#{instance}: ");
        match (length, value.take(usize::from(length))) {
            (0, _) => {
                text.out.push_str("[ERROR: suboption length must be non-zero]");
                rest(value);
            }
            (_, Ok(class)) => {
                text.out.push('"');
                escaped(text.out, class);
                put!(text, "\", length {length}");
            }
            (_, Err(_)) => {
                text.out.push_str("[ERROR: invalid option]");
                rest(value);
            }
        }
    }
}

/// A client's name (RFC 4702): flags, two results, the name.
fn domain_name(text: &mut Text<'_>, value: &mut Cursor<'_>) {
    let Ok([flags, forward, backward]) = value.array() else {
        rest(value);
        text.out.push_str("[ERROR: length < 3 bytes]");
        return;
    };
    if flags & 0xf0 != 0 {
        put!(text, "[ERROR: MBZ nibble 0x{:x} != 0] ", flags >> 4);
    }
    if flags & 0xf != 0 {
        let letters = [(1, 'S'), (2, 'O'), (4, 'E'), (8, 'N')];
        text.out.push('[');
        text.out
            .extend(letters.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, letter)| letter));
        text.out.push_str("] ");
    }
    if forward > 0 || backward > 0 {
        put!(text, "{forward}/{backward} ");
    }
    quoted(text, value);
}

/// What relays add (RFC 3046).
fn relay_information(text: &mut Text<'_>, value: &mut Cursor<'_>) {
    while value.left() >= 2 {
        let Ok([code, length]) = value.array() else { return };
        let name = match code {
            1 => "Circuit-ID",
            2 => "Remote-ID",
            6 => "Subscriber-ID",
            _ => "Unknown",
        };
        put!(text, "\n\t      {name} SubOption {code}, length {length}: ");
        let Ok(part) = value.take(usize::from(length)) else {
            text.out.push_str("length goes past end of option");
            rest(value);
            return;
        };
        match name {
            "Unknown" => crate::hex::below(text.out, part, "\n\t\t"),
            _ => escaped(text.out, part),
        }
    }
}

/// Routes with as many bytes of their networks as their masks need (RFC 3442).
fn routes(text: &mut Text<'_>, value: &mut Cursor<'_>) {
    let mut comma = "";
    while !value.is_empty() {
        if value.left() < 5 {
            match comma {
                "" => text.out.push_str("[ERROR: length < 5 bytes]"),
                _ => {
                    put!(text, ",[ERROR: Remaining length ({}) < 5 bytes]", value.left());
                }
            }
            rest(value);
            return;
        }
        text.out.push_str(comma);
        comma = ",";
        let Ok(bits) = value.u8() else { return };
        if bits > 32 {
            put!(text, "[ERROR: Mask width ({bits}) > 32]");
            rest(value);
            return;
        }
        let bytes = usize::from(bits.div_ceil(8));
        let mut network = [0; 4];
        let (Ok(given), Ok(gateway)) = (value.take(bytes), value.ipv4()) else {
            put!(text, "[ERROR: Remaining length ({}) < {} bytes]", value.left(), bytes + 5);
            rest(value);
            return;
        };
        network.iter_mut().zip(given).for_each(|(to, from)| *to = *from);
        match bits {
            0 => {
                put!(text, "(default:{gateway})");
            }
            _ => {
                put!(text, "({}/{bits}:{gateway})", Ipv4Addr::from(network));
            }
        }
    }
}
