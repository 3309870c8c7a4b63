//! TCP's options (RFC 9293, 7323, 2018, 7413, 5482, 5925).

use super::Bases;
use crate::application::names::hex;
use crate::cursor::{Cursor, Stop};
use crate::{Line, put};
use ringside_wire::TcpOption;
use ringside_wire::tcp_options::SackBlocks;
use std::fmt::Write;

/// What experiments with TCP Fast Open have before their cookie (RFC 6994).
const FAST_OPEN: u16 = 0xf989;

impl Line<'_> {
    /// Appends an option.
    ///
    /// # Errors
    /// It contradicts its length.
    pub(super) fn tcp_option(&mut self, option: TcpOption<'_>, bases: Bases) -> Result<(), Stop> {
        match option {
            TcpOption::End => self.out.push_str("eol"),
            TcpOption::Nop => self.out.push_str("nop"),
            TcpOption::MaxSegmentSize(size) => {
                put!(self, "mss {size}");
            }
            TcpOption::WindowScale(shift) => {
                put!(self, "wscale {shift}");
            }
            TcpOption::SackPermitted => self.out.push_str("sackOK"),
            TcpOption::Sack(blocks) => self.sack(blocks, bases),
            TcpOption::Timestamps { value, echo } => {
                put!(self, "TS val {value} ecr {echo}");
            }
            TcpOption::Other { kind, data } => self.other_option(kind, data)?,
            TcpOption::Damaged { .. } => return Err(Stop::Invalid),
        }
        Ok(())
    }

    fn sack(&mut self, blocks: SackBlocks<'_>, bases: Bases) {
        put!(self, "sack {} ", blocks.iter().len());
        for (left, right) in blocks.iter() {
            let (left, right) = (left.wrapping_sub(bases.sack), right.wrapping_sub(bases.sack));
            put!(self, "{{{left}:{right}}}");
        }
    }

    fn other_option(&mut self, kind: u8, data: &[u8]) -> Result<(), Stop> {
        let mut value = Cursor::new(data);
        match kind {
            6 | 7 => {
                let name = if kind == 6 { "echo" } else { "echoreply" };
                put!(self, "{name} {}", value.u32()?);
            }
            11..=13 => {
                let name = ["cc", "ccnew", "ccecho"][usize::from(kind - 11)];
                put!(self, "{name} {}", value.u32()?);
            }
            19 => {
                self.out.push_str("md5 shared secret not supplied with -M, can't check - ");
                hex(self.out, data);
            }
            28 => {
                let timeout = value.u16()?;
                // The highest bit says that the unit is a minute.
                let unit = if timeout & 0x8000 != 0 { 60 } else { 1 };
                put!(self, "uto 0x{timeout:x} {}", u32::from(timeout & 0x7fff) * unit);
            }
            29 => {
                put!(self, "tcp-ao keyid {} rnextkeyid {} mac 0x", value.u8()?, value.u8()?);
                hex(self.out, value.rest());
            }
            34 => {
                self.out.push_str("tfo ");
                self.cookie(data);
            }
            254 if data.starts_with(&FAST_OPEN.to_be_bytes()) => {
                self.out.push_str("exp-tfo");
                self.cookie(data.get(2..).unwrap_or_default());
            }
            other => {
                put!(self, "unknown-{other} 0x");
                hex(self.out, data);
            }
        }
        Ok(())
    }

    /// A cookie, or the request for one.
    fn cookie(&mut self, cookie: &[u8]) {
        if cookie.is_empty() {
            self.out.push_str(" cookiereq");
            return;
        }
        self.out.push_str(" cookie ");
        hex(self.out, cookie);
    }
}
