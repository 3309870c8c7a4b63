//! ICMPv6: echo, errors, neighbour discovery, multicast listeners.

use super::{Line, put};
use ringside_wire::{Icmpv6, IpProtocol, Ipv6, Verdict};
use std::fmt::Write;
use std::net::Ipv6Addr;

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
        let sequence = icmp.sequence().unwrap_or(0);
        match (icmp.kind(), icmp.id(), icmp.target()) {
            (Icmpv6::ECHO, Some(id), _) => {
                put!(self, "echo request, id {id}, seq {sequence}");
            }
            (Icmpv6::ECHO_REPLY, Some(id), _) => {
                put!(self, "echo reply, id {id}, seq {sequence}");
            }
            (Icmpv6::NEIGHBOUR_SOLICITATION, _, Some(target)) => {
                put!(self, "neighbor solicitation, who has {target}");
            }
            (Icmpv6::NEIGHBOUR_ADVERTISEMENT, _, Some(target)) => {
                put!(self, "neighbor advertisement, tgt is {target}");
            }
            (Icmpv6::UNREACHABLE, _, _) => self.unreachable6(&icmp),
            (Icmpv6::TOO_BIG, _, _) => {
                put!(self, "packet too big, mtu {}", icmp.rest().unwrap_or(0));
            }
            (Icmpv6::TIME_EXCEEDED, _, _) => self.time_exceeded6(&icmp),
            (4, _, _) => self.parameter_problem6(&icmp),
            (137, _, _) => self.redirect6(&icmp),
            (130..=132, _, _) => self.listener(&icmp),
            (143, _, _) => {
                let count = icmp.rest().unwrap_or(0) & 0xffff;
                put!(self, "multicast listener report v2, {count} group record(s)");
            }
            (kind, _, _) => {
                put!(self, "{}", type_name(kind));
            }
        }
        put!(self, ", length {}", self.bytes_from(index));
    }

    fn unreachable6(&mut self, icmp: &Icmpv6<'_>) {
        self.out.push_str("destination unreachable, ");
        let quoted = icmp.payload().get(4..).and_then(|bytes| Ipv6::new(bytes).ok());
        let Some(quoted) = quoted else {
            put!(self, "code-#{}", icmp.code());
            return;
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
    }

    fn time_exceeded6(&mut self, icmp: &Icmpv6<'_>) {
        let quoted = icmp.payload().get(4..).and_then(|bytes| Ipv6::new(bytes).ok());
        match (icmp.code(), quoted) {
            (0, Some(quoted)) => {
                put!(self, "time exceeded in-transit for {}", quoted.destination());
            }
            (1, _) => self.out.push_str("time exceeded in-transit (reassembly)"),
            (code, _) => {
                put!(self, "time exceeded in-transit, unknown code ({code})");
            }
        }
    }

    fn parameter_problem6(&mut self, icmp: &Icmpv6<'_>) {
        let octet = icmp.rest().unwrap_or(0);
        let what = match icmp.code() {
            0 => "erroneous",
            1 => "next header",
            2 => "option",
            3 => "incomplete header chain",
            code => {
                put!(self, "parameter problem, code-#{code}");
                return;
            }
        };
        put!(self, "parameter problem, {what} - octet {octet}");
    }

    /// A better way to a target: `redirect, TARGET to BETTER`.
    fn redirect6(&mut self, icmp: &Icmpv6<'_>) {
        let address = |at: usize| {
            let bytes = icmp.payload().get(at..)?.first_chunk::<16>()?;
            Some(Ipv6Addr::from(*bytes))
        };
        self.out.push_str("redirect");
        if let (Some(better), Some(target)) = (address(4), address(20)) {
            put!(self, ", {target} to {better}");
        }
    }

    fn listener(&mut self, icmp: &Icmpv6<'_>) {
        let name = ["query", "report", "done"][usize::from(icmp.kind().clamp(130, 132) - 130)];
        put!(self, "multicast listener {name}");
        let Some(group) = icmp.payload().get(4..).and_then(<[u8]>::first_chunk::<16>) else {
            return;
        };
        let group = Ipv6Addr::from(*group);
        // A query of version 2 is longer than one of version 1.
        let bytes = self.frame.bytes.get(self.layers.payload()).map_or(0, <[u8]>::len);
        if icmp.kind() == 130 && bytes > 20 {
            put!(self, " v2 [gaddr {group}]");
            return;
        }
        let delay = icmp.rest().unwrap_or(0) >> 16;
        put!(self, " max resp delay: {delay} addr: {group}");
    }
}

fn type_name(kind: u8) -> String {
    match kind {
        133 => "router solicitation".into(),
        134 => "router advertisement".into(),
        138 => "router renumbering".into(),
        141 => "inverse neighbor solicitation".into(),
        142 => "inverse neighbor advertisement".into(),
        144 => "ha discovery request".into(),
        145 => "ha discovery reply".into(),
        146 => "mobile router solicitation".into(),
        147 => "mobile router advertisement".into(),
        other => format!("unknown icmp6 type ({other})"),
    }
}
