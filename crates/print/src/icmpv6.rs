//! ICMPv6: echo, errors, neighbour discovery, multicast listeners.

use super::cursor::{Cursor, Payload, Stop};
use super::igmp::group_records;
use super::{Line, put};
use ringside_wire::{Icmpv6, IpProtocol, Ipv6, Verdict};
use std::fmt::Write;

mod options;

/// Types whose fields stand behind the length with -v, and have options behind them.
const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
const REDIRECT: u8 = 137;
const LISTENER_REPORT_V2: u8 = 143;

impl Line<'_> {
    pub(super) fn icmpv6(&mut self, index: usize, here: &[u8]) {
        let Ok(icmp) = Icmpv6::new(here) else { return };
        match self.verdict(index) {
            Some(Verdict::Correct) => self.out.push_str("[icmp6 sum ok] "),
            Some(Verdict::Wrong { found, expected }) => {
                put!(self, "[bad icmp6 cksum 0x{found:04x} -> 0x{expected:04x}!] ");
            }
            Some(Verdict::Absent | Verdict::Unknown) | None => {}
        }
        self.out.push_str("ICMP6, ");
        let length = self.bytes_from(index);
        let message = Payload { bytes: here.get(..length).unwrap_or(here), length };
        if self.icmpv6_body(&icmp, &message).is_err() {
            self.out.push_str(" [|icmp6]");
        }
    }

    fn icmpv6_body(&mut self, icmp: &Icmpv6<'_>, message: &Payload<'_>) -> Result<(), Stop> {
        let is_short = self.options.verbosity == 0;
        let sequence = icmp.sequence().unwrap_or(0);
        match (icmp.kind(), icmp.id()) {
            (Icmpv6::ECHO, Some(id)) => {
                put!(self, "echo request, id {id}, seq {sequence}");
            }
            (Icmpv6::ECHO_REPLY, Some(id)) => {
                put!(self, "echo reply, id {id}, seq {sequence}");
            }
            (ROUTER_SOLICITATION | ROUTER_ADVERTISEMENT, _)
            | (Icmpv6::NEIGHBOUR_SOLICITATION | Icmpv6::NEIGHBOUR_ADVERTISEMENT | REDIRECT, _) => {
                return self.discovery(icmp, message);
            }
            (Icmpv6::UNREACHABLE, _) => self.unreachable6(icmp)?,
            (Icmpv6::TOO_BIG, _) => {
                put!(self, "packet too big, mtu {}", icmp.rest().unwrap_or(0));
            }
            (Icmpv6::TIME_EXCEEDED, _) => self.time_exceeded6(icmp)?,
            (4, _) => self.parameter_problem6(icmp)?,
            (130..=132, _) => self.listener(icmp, message)?,
            (LISTENER_REPORT_V2, _) => {
                let count = (icmp.rest().unwrap_or(0) & 0xffff) as u16;
                put!(self, "multicast listener report v2, {count} group record(s)");
                if !is_short {
                    let records = Cursor::new(message.bytes.get(8..).unwrap_or_default());
                    let mut text = self.text();
                    group_records(&mut text, records, count, Cursor::ipv6)?;
                }
            }
            (144 | 146, Some(id)) => {
                put!(self, "{}, id 0x{id:04x}", known_type(icmp.kind()).unwrap_or_default());
            }
            (kind, _) => match known_type(kind) {
                Some(name) => self.out.push_str(name),
                None => {
                    put!(self, "unknown icmp6 type ({kind}), length {}", message.length);
                    super::hex::below(self.out, message.bytes, "\n\t");
                    return Ok(());
                }
            },
        }
        if is_short {
            put!(self, ", length {}", message.length);
        }
        Ok(())
    }

    /// Neighbour discovery (RFC 4861): what it is about stands before the length, with -v behind
    /// it together with all that is known.
    fn discovery(&mut self, icmp: &Icmpv6<'_>, message: &Payload<'_>) -> Result<(), Stop> {
        let is_short = self.options.verbosity == 0;
        let (name, bytes) = match icmp.kind() {
            ROUTER_SOLICITATION => ("router solicitation", 8),
            ROUTER_ADVERTISEMENT => ("router advertisement", 16),
            Icmpv6::NEIGHBOUR_SOLICITATION => ("neighbor solicitation", 24),
            Icmpv6::NEIGHBOUR_ADVERTISEMENT => ("neighbor advertisement", 24),
            _ => ("redirect", 40),
        };
        self.out.push_str(name);
        if !is_short {
            put!(self, ", length {}", message.length);
        }
        let mut fields = Cursor::new(message.bytes.get(4..).unwrap_or_default());
        let rest = fields.u32()?;
        match icmp.kind() {
            ROUTER_ADVERTISEMENT if !is_short => {
                let mut text = self.text();
                options::router(&mut text, rest, &mut fields)?;
            }
            ROUTER_SOLICITATION | ROUTER_ADVERTISEMENT => {}
            Icmpv6::NEIGHBOUR_SOLICITATION => {
                put!(self, ", who has {}", fields.ipv6()?);
            }
            Icmpv6::NEIGHBOUR_ADVERTISEMENT => {
                put!(self, ", tgt is {}", fields.ipv6()?);
                if !is_short {
                    let names =
                        [(1 << 31, "router"), (1 << 30, "solicited"), (1 << 29, "override")];
                    self.flag_names(rest, &names);
                }
            }
            _ => {
                let (better, target) = (fields.ipv6()?, fields.ipv6()?);
                put!(self, ", {target} to {better}");
            }
        }
        if is_short {
            put!(self, ", length {}", message.length);
            return Ok(());
        }
        let mut text = self.text();
        options::print(&mut text, Cursor::new(message.bytes.get(bytes..).unwrap_or_default()))
    }

    fn flag_names(&mut self, flags: u32, names: &[(u32, &str)]) {
        self.out.push_str(", Flags [");
        super::application::names::flags(self.out, flags, names);
        self.out.push(']');
    }

    fn unreachable6(&mut self, icmp: &Icmpv6<'_>) -> Result<(), Stop> {
        self.out.push_str("destination unreachable, ");
        let quoted = icmp.payload().get(4..).and_then(|bytes| Ipv6::new(bytes).ok());
        let Some(quoted) = quoted else {
            let words = match icmp.code() {
                0 => "unreachable route",
                1 => "unreachable prohibited",
                2 => "beyond scope",
                3 => "unreachable address",
                4 => "unreachable port,",
                _ => "unknown unreach code",
            };
            self.out.push_str(words);
            return Err(Stop::Cut);
        };
        let to = quoted.destination();
        let port = super::port_at(quoted.payload(), 2);
        match (icmp.code(), quoted.next_header(), port) {
            (0, _, _) => {
                put!(self, "unreachable route {to}");
            }
            (1, _, _) => {
                put!(self, "unreachable prohibited {to}");
            }
            (2, _, _) => {
                put!(self, "beyond scope {to}, source address {}", quoted.source());
            }
            (3, _, _) => {
                put!(self, "unreachable address {to}");
            }
            (4, IpProtocol::TCP, Some(port)) => {
                put!(self, "unreachable port, {to} tcp port {port}");
            }
            (4, IpProtocol::UDP, Some(port)) => {
                put!(self, "unreachable port, {to} udp port {port}");
            }
            (4, protocol, port) => {
                let port = port.unwrap_or(0);
                put!(self, "unreachable port, {to} protocol {protocol} port {port}");
            }
            (code, _, _) => {
                put!(self, "unknown unreach code ({code})");
            }
        }
        Ok(())
    }

    fn time_exceeded6(&mut self, icmp: &Icmpv6<'_>) -> Result<(), Stop> {
        let quoted = icmp.payload().get(4..).and_then(|bytes| Ipv6::new(bytes).ok());
        match (icmp.code(), quoted) {
            (0, Some(quoted)) => {
                put!(self, "time exceeded in-transit for {}", quoted.destination());
            }
            (0, None) => {
                self.out.push_str("time exceeded in-transit");
                return Err(Stop::Cut);
            }
            (1, _) => self.out.push_str("time exceeded in-transit (reassembly)"),
            (code, _) => {
                put!(self, "time exceeded in-transit, unknown code ({code})");
            }
        }
        Ok(())
    }

    fn parameter_problem6(&mut self, icmp: &Icmpv6<'_>) -> Result<(), Stop> {
        if icmp.payload().get(4..).is_none_or(|quoted| Ipv6::new(quoted).is_err()) {
            self.out.push_str("parameter problem");
            return Err(Stop::Cut);
        }
        let octet = icmp.rest().unwrap_or(0);
        let what = match icmp.code() {
            0 => "erroneous",
            1 => "next header",
            2 => "option",
            3 => "incomplete header chain",
            code => {
                put!(self, "parameter problem, code-#{code}");
                return Ok(());
            }
        };
        put!(self, "parameter problem, {what} - octet {octet}");
        Ok(())
    }

    /// Multicast listener discovery (RFC 2710); a query of version 2 (RFC 3810) is longer.
    fn listener(&mut self, icmp: &Icmpv6<'_>, message: &Payload<'_>) -> Result<(), Stop> {
        const V1_BYTES: usize = 24;
        const V2_BYTES: usize = 28;
        let name = ["query", "report", "done"][usize::from(icmp.kind().clamp(130, 132) - 130)];
        put!(self, "multicast listener {name}");
        let mut fields = Cursor::new(message.bytes.get(4..).unwrap_or_default());
        let (delay, _) = (fields.u16()?, fields.u16()?);
        if icmp.kind() == 130 && message.length >= V2_BYTES {
            return self.query_v2(fields, delay);
        }
        if message.length < V1_BYTES {
            if icmp.kind() == 130 {
                put!(self, " unknown-version (len {}) ", message.length);
            }
            return Ok(());
        }
        put!(self, " max resp delay: {delay} addr: {}", fields.ipv6()?);
        Ok(())
    }

    fn query_v2(&mut self, mut fields: Cursor<'_>, code: u16) -> Result<(), Stop> {
        self.out.push_str(" v2");
        let is_verbose = self.options.verbosity > 0;
        if is_verbose {
            // RFC 3810 section 5.1.3: from 32768 on it is a floating-point number.
            let code = u32::from(code);
            let delay = match code {
                0x8000.. => (code & 0xfff | 0x1000) << ((code >> 12 & 7) + 3),
                _ => code,
            };
            put!(self, " [max resp delay={delay}]");
        }
        put!(self, " [gaddr {}", fields.ipv6()?);
        let (robustness, interval, sources) = (fields.u8()?, fields.u8()?, fields.u16()?);
        if is_verbose {
            put!(self, " robustness={} qqi={interval}", robustness & 7);
        }
        if sources > 0 {
            put!(self, ", {sources} source(s)");
        }
        self.out.push(']');
        Ok(())
    }
}

fn known_type(kind: u8) -> Option<&'static str> {
    Some(match kind {
        138 => "router renumbering",
        141 => "inverse neighbor solicitation",
        142 => "inverse neighbor advertisement",
        144 => "ha discovery request",
        145 => "ha discovery reply",
        146 => "mobile router solicitation",
        147 => "mobile router advertisement",
        _ => return None,
    })
}
