//! ICMP.

use super::cursor::{Cursor, Payload, Stop};
use super::{Line, PrintOptions, put};
use ringside_core::{Frame, FrameMeta, LinkType};
use ringside_wire::checksum::{Sum, checksum};
use ringside_wire::{Icmp, IpProtocol, Ipv4, dissect};
use std::fmt::Write;

mod extension;

/// An error that hosts no longer send (RFC 6633).
const SOURCE_QUENCH: u8 = 4;
/// Bytes of an error before the packet that it quotes.
const HEADER_BYTES: usize = 8;
/// Types of errors with a part behind the packet that they quote (RFC 4884).
const MULTI_PART: [u8; 3] = [Icmp::UNREACHABLE, Icmp::TIME_EXCEEDED, 12];

impl Line<'_> {
    pub(super) fn icmp(&mut self, index: usize, here: &[u8]) {
        let Ok(icmp) = Icmp::new(here) else { return };
        let length = self.bytes_from(index);
        let message = Payload { bytes: here.get(..length).unwrap_or(here), length };
        let start = self.out.len();
        self.out.push_str("ICMP ");
        if self.icmp_body(&icmp, &message).is_err() {
            // Of a message that is cut tcpdump says nothing else.
            self.out.truncate(start);
            self.out.push_str(" [|icmp]");
            return;
        }
        put!(self, ", length {length}");
        if self.options.verbosity == 0 || self.is_quoted {
            return;
        }
        let sum = checksum(message.bytes);
        if sum != 0 && !message.is_cut() {
            let found = icmp.checksum();
            let expected = Sum::new().add_u16(!sum).add_u16(!found).checksum();
            put!(self, " (wrong icmp cksum {found:x} (->{expected:x})!)");
        }
        if icmp.is_error() || icmp.kind() == SOURCE_QUENCH {
            self.quoted(icmp.payload());
        }
        if MULTI_PART.contains(&icmp.kind()) {
            let behind = message.bytes.get(HEADER_BYTES + extension::QUOTED_BYTES..);
            let behind_bytes = length.saturating_sub(HEADER_BYTES + extension::QUOTED_BYTES);
            if behind_bytes > 0 {
                let part = Payload { bytes: behind.unwrap_or_default(), length: behind_bytes };
                if extension::print(&mut self.text(), &part) == Err(Stop::Cut) {
                    self.out.push_str(" [|icmp]");
                }
            }
        }
    }

    fn icmp_body(&mut self, icmp: &Icmp<'_>, message: &Payload<'_>) -> Result<(), Stop> {
        let mut fields = Cursor::new(message.bytes.get(HEADER_BYTES..).unwrap_or_default());
        let sequence = icmp.sequence().unwrap_or(0);
        match (icmp.kind(), icmp.id()) {
            (Icmp::ECHO, Some(id)) => {
                put!(self, "echo request, id {id}, seq {sequence}");
            }
            (Icmp::ECHO_REPLY, Some(id)) => {
                put!(self, "echo reply, id {id}, seq {sequence}");
            }
            (Icmp::TIMESTAMP, Some(id)) => {
                put!(self, "time stamp query id {id} seq {sequence}");
            }
            (Icmp::TIMESTAMP_REPLY, Some(id)) => {
                put!(self, "time stamp reply id {id} seq {sequence}:");
                for (label, comma) in [(" org ", ","), (" recv ", ","), (" xmit ", "")] {
                    let time = fields.u32()?;
                    self.out.push_str(label);
                    time_of_day(self.out, time);
                    self.out.push_str(comma);
                }
            }
            (Icmp::UNREACHABLE, _) => self.unreachable(icmp)?,
            (Icmp::REDIRECT, _) => self.redirect(icmp)?,
            (9, _) => self.router_advertisement(icmp, fields)?,
            (Icmp::TIME_EXCEEDED, _) => {
                Ipv4::new(icmp.payload()).map_err(|_| Stop::Cut)?;
                match icmp.code() {
                    0 => self.out.push_str("time exceeded in-transit"),
                    1 => self.out.push_str("ip reassembly time exceeded"),
                    code => {
                        put!(self, "time exceeded-#{code}");
                    }
                }
            }
            (12, _) if icmp.code() != 0 => {
                put!(self, "parameter problem - code {}", icmp.code());
            }
            (12, _) => {
                put!(self, "parameter problem - octet {}", icmp.rest() >> 24);
            }
            (18, _) => {
                put!(self, "address mask is 0x{:08x}", fields.u32()?);
            }
            (kind, _) => match type_name(kind) {
                Some(name) => self.out.push_str(name),
                None => {
                    put!(self, "type-#{kind}");
                }
            },
        }
        Ok(())
    }

    /// RFC 1256: addresses of a router, each with its preference.
    fn router_advertisement(
        &mut self,
        icmp: &Icmp<'_>,
        mut fields: Cursor<'_>,
    ) -> Result<(), Stop> {
        let rest = icmp.rest();
        let (count, words, seconds) = (rest >> 24, rest >> 16 & 0xff, rest & 0xffff);
        self.out.push_str("router advertisement lifetime ");
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        if hours > 0 {
            put!(self, "{hours}:{minutes:02}:{:02}", seconds % 60);
        } else if minutes > 0 {
            put!(self, "{minutes}:{:02}", seconds % 60);
        } else {
            put!(self, "{seconds}");
        }
        put!(self, " {count}:");
        if words != 2 {
            put!(self, " [size {words}]");
            return Ok(());
        }
        for _ in 0..count {
            let (address, preference) = (fields.ipv4()?, fields.u32()?);
            put!(self, " {{{address} {preference}}}");
        }
        Ok(())
    }

    fn unreachable(&mut self, icmp: &Icmp<'_>) -> Result<(), Stop> {
        let quoted = Ipv4::new(icmp.payload()).map_err(|_| Stop::Cut)?;
        let to = quoted.destination();
        // Ports of the packet that could not be delivered: only its first 8 bytes must be there.
        let port = super::port_at(quoted.payload(), 2);
        match (icmp.code(), quoted.protocol(), port) {
            (2, protocol, _) => {
                put!(self, "{to} protocol {protocol} unreachable");
            }
            (3, IpProtocol::TCP, Some(port)) => {
                put!(self, "{to} tcp port {port} unreachable");
            }
            (3, IpProtocol::UDP, Some(port)) => {
                put!(self, "{to} udp port {port} unreachable");
            }
            (3, protocol, port) => {
                let port = port.unwrap_or(0);
                put!(self, "{to} protocol {protocol} port {port} unreachable");
            }
            (4, _, _) => {
                put!(self, "{to} unreachable - need to frag");
                if icmp.rest() & 0xffff != 0 {
                    put!(self, " (mtu {})", icmp.rest() & 0xffff);
                }
            }
            (code, _, _) => match unreachable_words(code) {
                Some((before, after)) => {
                    put!(self, "{before}{to} unreachable{after}");
                }
                None => {
                    put!(self, "{to} unreachable - #{code}");
                }
            },
        }
        Ok(())
    }

    fn redirect(&mut self, icmp: &Icmp<'_>) -> Result<(), Stop> {
        let gateway = std::net::Ipv4Addr::from(icmp.rest());
        let quoted = Ipv4::new(icmp.payload()).map_err(|_| Stop::Cut)?;
        let to = quoted.destination();
        match icmp.code() {
            code @ 0..=3 => {
                let service = if code >= 2 { "-tos" } else { "" };
                let what = if code % 2 == 0 { "net" } else { "host" };
                put!(self, "redirect{service} {to} to {what} {gateway}");
            }
            code => {
                put!(self, "redirect-#{code} {to} to {gateway}");
            }
        }
        Ok(())
    }

    /// The line of a packet that a message holds, below that of the message.
    fn quoted(&mut self, bytes: &[u8]) {
        let Ok(ip) = Ipv4::new(bytes) else { return };
        self.out.push_str("\n\t");
        // It is cut on purpose: nothing of it is missing.
        let meta = FrameMeta { wire_bytes: ip.total_length().into(), ..self.frame.meta };
        let frame = Frame { bytes, meta };
        let layers = dissect(bytes, LinkType::RAW);
        let options = PrintOptions { link_header: false, ..*self.options };
        let mut line = Line {
            out: self.out,
            frame: &frame,
            link: LinkType::RAW,
            layers: &layers,
            options: &options,
            names: self.names,
            conversations: self.conversations,
            is_quoted: true,
        };
        line.layers();
    }
}

/// Milliseconds since midnight.
fn time_of_day(out: &mut String, milliseconds: u32) {
    let seconds = milliseconds / 1000;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let _ = write!(out, "{hours:02}:{minutes:02}:{:02}.{:03}", seconds % 60, milliseconds % 1000);
}

fn unreachable_words(code: u8) -> Option<(&'static str, &'static str)> {
    Some(match code {
        0 => ("net ", ""),
        1 => ("host ", ""),
        5 => ("", " - source route failed"),
        6 => ("net ", " - unknown"),
        7 => ("host ", " - unknown"),
        8 => ("", " - source host isolated"),
        9 => ("net ", " - admin prohibited"),
        10 => ("host ", " - admin prohibited"),
        11 => ("net ", " - tos prohibited"),
        12 => ("host ", " - tos prohibited"),
        13 => ("host ", " - admin prohibited filter"),
        14 => ("host ", " - host precedence violation"),
        15 => ("host ", " - precedence cutoff"),
        _ => return None,
    })
}

fn type_name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        SOURCE_QUENCH => "source quench",
        10 => "router solicitation",
        15 => "information request",
        16 => "information reply",
        17 => "address mask request",
        _ => return None,
    })
}
