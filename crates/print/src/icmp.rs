//! ICMP.

use super::{Line, put};
use ringside_wire::{Icmp, IpProtocol, Ipv4};
use std::fmt::Write;

impl Line<'_> {
    pub(super) fn icmp(&mut self, index: usize, here: &[u8]) {
        let Ok(icmp) = Icmp::new(here) else { return };
        self.out.push_str("ICMP ");
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
                put!(self, "time stamp reply id {id} seq {sequence}");
            }
            (Icmp::UNREACHABLE, _) => self.unreachable(&icmp),
            (Icmp::REDIRECT, _) => self.redirect(&icmp),
            (Icmp::TIME_EXCEEDED, _) => match icmp.code() {
                0 => self.out.push_str("time exceeded in-transit"),
                1 => self.out.push_str("ip reassembly time exceeded"),
                code => {
                    put!(self, "time exceeded-#{code}");
                }
            },
            (12, _) if icmp.code() != 0 => {
                put!(self, "parameter problem - code {}", icmp.code());
            }
            (12, _) => {
                put!(self, "parameter problem - octet {}", icmp.rest() >> 24);
            }
            (kind, _) => {
                put!(self, "{}", type_name(kind));
            }
        }
        put!(self, ", length {}", self.bytes_from(index));
    }

    fn unreachable(&mut self, icmp: &Icmp<'_>) {
        let Ok(quoted) = Ipv4::new(icmp.payload()) else {
            put!(self, "unreachable-#{}", icmp.code());
            return;
        };
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
    }

    fn redirect(&mut self, icmp: &Icmp<'_>) {
        let gateway = std::net::Ipv4Addr::from(icmp.rest());
        let to = Ipv4::new(icmp.payload()).map(|quoted| quoted.destination());
        match (icmp.code(), to) {
            (code @ 0..=3, Ok(to)) => {
                let service = if code >= 2 { "-tos" } else { "" };
                let what = if code % 2 == 0 { "net" } else { "host" };
                put!(self, "redirect{service} {to} to {what} {gateway}");
            }
            (code, Ok(to)) => {
                put!(self, "redirect-#{code} {to} to {gateway}");
            }
            (code, Err(_)) => {
                put!(self, "redirect-#{code} to {gateway}");
            }
        }
    }
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

fn type_name(kind: u8) -> String {
    match kind {
        4 => "source quench".into(),
        9 => "router advertisement".into(),
        10 => "router solicitation".into(),
        15 => "information request".into(),
        16 => "information reply".into(),
        17 => "address mask request".into(),
        18 => "address mask reply".into(),
        other => format!("type-#{other}"),
    }
}
