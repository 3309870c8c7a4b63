//! UDP, and what it and TCP carry.

use super::application::{self, Protocol, Text};
use super::cursor::Payload;
use super::{Line, put};
use ringside_wire::{LayerKind, Tcp, Udp, Verdict};
use std::fmt::Write;

impl Line<'_> {
    pub(super) fn udp(&mut self, index: usize, here: &[u8]) {
        let Ok(udp) = Udp::new(here) else { return };
        let (from, to) = (udp.source().0, udp.destination().0);
        self.ends(index, from, to);
        let follows = self.bytes_from(index).saturating_sub(Udp::BYTES);
        let declared = usize::from(udp.length());
        // Longer packets than the field can say have 0 there.
        let is_short = declared < Udp::BYTES && (declared > 0 || follows <= usize::from(u16::MAX));
        if is_short {
            put!(self, "truncated-udplength {declared}");
            return;
        }
        self.udp_checksum(index);
        if self.after(index).is_some() {
            return;
        }
        let length = if declared == 0 { follows } else { declared - Udp::BYTES };
        let protocol = application::over_udp(from, to).filter(|_| !self.options.quick);
        match protocol {
            // A first fragment has a part of the datagram.
            Some(protocol) => self.application(protocol, length.min(follows)),
            None if declared > Udp::BYTES + follows => {
                put!(self, "UDP, bad length {length} > {follows}");
            }
            None => {
                put!(self, "UDP, length {length}");
            }
        }
    }

    /// A header that is cut or says that it is shorter than itself, with its ports if they are
    /// there.
    pub(super) fn short_transport(&mut self, kind: LayerKind, here: &[u8], is_cut: bool) {
        let index = self.layers.as_slice().len();
        let word = |at: usize| here.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word));
        if let (Some(from), Some(to)) = (word(0), word(2)) {
            self.ends(index, from, to);
        } else if kind == LayerKind::Udp {
            self.out.push(' ');
        }
        match (kind, word(4), is_cut) {
            (LayerKind::Udp, Some(declared), false) if here.len() >= Udp::BYTES => {
                put!(self, "truncated-udplength {declared}");
            }
            (LayerKind::Udp, _, false) if here.len() >= 4 => {
                put!(self, "truncated-udp {}", here.len());
            }
            (LayerKind::Tcp, _, false) if here.len() >= Tcp::BYTES_MIN => {
                let header_bytes = here.get(12).map_or(0, |offset| 4 * usize::from(offset >> 4));
                let length = here.len();
                put!(self, " tcp {length} [bad hdr length {header_bytes}");
                if header_bytes < Tcp::BYTES_MIN {
                    put!(self, " - too short, < {}]", Tcp::BYTES_MIN);
                } else {
                    put!(self, " - too long, > {length}]");
                }
            }
            _ => {
                put!(self, " [|{}]", kind.name());
            }
        }
    }

    /// The verdict on a checksum; in IPv4, where it may be absent, one level of -v later.
    fn udp_checksum(&mut self, index: usize) {
        let is_ipv6 = self.network_before(index).is_some_and(|ip| ip.kind == LayerKind::Ipv6);
        if !is_ipv6 && self.options.verbosity < 2 {
            return;
        }
        match self.verdict(index) {
            Some(Verdict::Correct) => self.out.push_str("[udp sum ok] "),
            Some(Verdict::Absent) => self.out.push_str("[no cksum] "),
            Some(Verdict::Wrong { found, expected }) => {
                put!(self, "[bad udp cksum 0x{found:04x} -> 0x{expected:04x}!] ");
            }
            Some(Verdict::Unknown) | None => {}
        }
    }

    /// The text of what the last header carries, which has `length` bytes.
    pub(super) fn application(&mut self, protocol: Protocol, length: usize) {
        let bytes = self.frame.bytes.get(self.layers.payload()).unwrap_or(&[]);
        let bytes = bytes.get(..length).unwrap_or(bytes);
        let mut text = Text { out: self.out, verbosity: self.options.verbosity };
        protocol.print(&mut text, Payload { bytes, length });
    }
}
