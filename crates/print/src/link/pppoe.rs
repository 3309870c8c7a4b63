//! PPP over Ethernet (RFC 2516): sessions, and the tags of their discovery.

use crate::cursor::{Cursor, Stop};
use crate::{Line, put};
use ringside_wire::Pppoe;
use std::fmt::Write;

impl Line<'_> {
    pub(crate) fn pppoe(&mut self, here: &[u8]) {
        let Ok(pppoe) = Pppoe::new(here) else { return };
        let stage = match pppoe.code() {
            0 => "",
            0x09 => "PADI",
            0x07 => "PADO",
            0x19 => "PADR",
            0x65 => "PADS",
            0xa7 => "PADT",
            _ => "PAD",
        };
        put!(self, "PPPoE {stage}");
        if stage == "PAD" {
            put!(self, "-{:X}", pppoe.code());
        }
        if pppoe.session() != 0 {
            put!(self, " [ses 0x{:x}]", pppoe.session());
        }
        if pppoe.code() == 0 {
            self.out.push(' ');
            return;
        }
        let tags = self.frame.bytes.get(self.layers.payload()).unwrap_or(&[]);
        if self.tags(Cursor::new(tags)).is_err() {
            self.out.push_str(" [|pppoe]");
        }
    }

    fn tags(&mut self, mut tags: Cursor<'_>) -> Result<(), Stop> {
        while !tags.is_empty() {
            let (kind, length) = (tags.u16()?, tags.u16()?);
            let value = tags.part_at_most(length.into());
            self.out.push_str(" [");
            self.tag(kind, value.rest());
            self.out.push(']');
            if value.left() < usize::from(length) {
                return Err(Stop::Cut);
            }
            if kind == 0 {
                break;
            }
        }
        Ok(())
    }

    /// A tag: text where most of it is, else bytes.
    fn tag(&mut self, kind: u16, value: &[u8]) {
        let name = match kind {
            0 => "EOL",
            0x101 => "Service-Name",
            0x102 => "AC-Name",
            0x103 => "Host-Uniq",
            0x104 => "AC-Cookie",
            0x105 => "Vendor-Specific",
            0x110 => "Relay-Session-ID",
            0x120 => "PPP-Max-Payload",
            0x201 => "Service-Name-Error",
            0x202 => "AC-System-Error",
            0x203 => "Generic-Error",
            _ => "",
        };
        match name {
            "" => {
                put!(self, "TAG-0x{kind:x}");
            }
            name => self.out.push_str(name),
        }
        if value.is_empty() {
            return;
        }
        let is_text = |byte: &u8| matches!(*byte, b' '..=b'~' | b'\t');
        // Up to 80 bytes are looked at, of which a few may be something else.
        let window = value.get(..80).unwrap_or(value);
        let texts = window.iter().filter(|byte| is_text(byte)).count();
        if texts * 3 > window.len() * 2 - usize::from(texts == window.len()) {
            self.out.push_str(" \"");
            let shown =
                |byte: &u8| if byte.is_ascii_graphic() || *byte == b' ' { *byte } else { b'.' };
            self.out.extend(value.iter().map(|byte| char::from(shown(byte))));
            self.out.push('"');
        } else {
            self.out.push_str(" 0x");
            for byte in value {
                put!(self, "{byte:02X}");
            }
        }
    }
}
