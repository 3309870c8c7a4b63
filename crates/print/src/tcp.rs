//! TCP, with sequence numbers relative to the start of their conversation.

mod options;

use super::{Line, application, ip, put};
use ringside_wire::{Level, Tcp, Verdict, verify_transport};
use std::collections::HashMap;
use std::fmt::Write;
use std::net::IpAddr;

/// Conversations whose start is remembered: some 6 MB. Beyond, new ones are shown with absolute
/// numbers, as each first packet is.
const CONVERSATIONS_MAX: usize = 65_536;

/// Both ends, the one with the lower port first.
type Ends = (u16, u16, IpAddr, IpAddr);

/// Where the numbers of conversations began, by their ends.
#[derive(Debug, Default)]
pub(super) struct Conversations(HashMap<Ends, Start>);

/// First numbers, by tcpdump's convention: those of the end with the lower port, and of the other.
#[derive(Clone, Copy, Debug, Default)]
struct Start {
    low: u32,
    high: u32,
}

/// What is taken off the numbers of one segment.
#[derive(Clone, Copy, Debug, Default)]
struct Bases {
    sequence: u32,
    acknowledgment: u32,
    /// For selective acknowledgments, which tcpdump shows relative also in the first segment.
    sack: u32,
}

impl Conversations {
    fn bases(&mut self, source: IpAddr, destination: IpAddr, tcp: &Tcp<'_>) -> Bases {
        let (from, to) = (tcp.source().0, tcp.destination().0);
        if !tcp.has(Tcp::ACK) {
            return Bases::default();
        }
        let reverse = (from, source) > (to, destination);
        let ends = match reverse {
            true => (to, from, destination, source),
            false => (from, to, source, destination),
        };
        let known = self.0.get(&ends).copied();
        if let (Some(start), false) = (known, tcp.has(Tcp::SYN)) {
            let (own, other) =
                if reverse { (start.high, start.low) } else { (start.low, start.high) };
            return Bases { sequence: own, acknowledgment: other, sack: other };
        }
        let (own, other) = (tcp.sequence(), tcp.acknowledgment().wrapping_sub(1));
        let (low, high) = if reverse { (other, own) } else { (own, other) };
        if known.is_some() || self.0.len() < CONVERSATIONS_MAX {
            self.0.insert(ends, Start { low, high });
            return Bases { sack: other, ..Bases::default() };
        }
        Bases::default()
    }
}

impl Line<'_> {
    pub(super) fn tcp(&mut self, index: usize, here: &[u8]) {
        let Ok(tcp) = Tcp::new(here) else { return };
        let network = self.ends(index, tcp.source().0, tcp.destination().0);
        let length = self.bytes_from(index).saturating_sub(tcp.header_bytes());
        if self.options.quick {
            put!(self, "tcp {length}");
            return;
        }
        self.out.push_str("Flags [");
        flags(self.out, tcp.flags());
        self.out.push(']');
        let bases = match network.filter(|_| !self.options.absolute) {
            Some((source, destination)) => self.conversations.bases(source, destination, &tcp),
            None => Bases::default(),
        };
        self.checksum(index);
        let shows_sequence = self.options.verbosity > 1
            || length > 0
            || tcp.flags() & (Tcp::SYN | Tcp::FIN | Tcp::RST) != 0;
        if shows_sequence {
            let sequence = tcp.sequence().wrapping_sub(bases.sequence);
            put!(self, ", seq {sequence}");
            if length > 0 {
                put!(self, ":{}", sequence.wrapping_add(length as u32));
            }
        }
        if tcp.has(Tcp::ACK) {
            put!(self, ", ack {}", tcp.acknowledgment().wrapping_sub(bases.acknowledgment));
        }
        put!(self, ", win {}", tcp.window());
        if tcp.has(Tcp::URG) {
            put!(self, ", urg {}", tcp.urgent());
        }
        if !tcp.option_bytes().is_empty() {
            self.out.push_str(", options [");
            for (number, option) in tcp.options().enumerate() {
                if number > 0 {
                    self.out.push(',');
                }
                if self.tcp_option(option, bases).is_err() {
                    // As tcpdump has it, nothing else is said of such a segment.
                    self.out.push_str("[bad opt]");
                    return;
                }
            }
            self.out.push(']');
        }
        put!(self, ", length {length}");
        let ports = (tcp.source().0, tcp.destination().0);
        if length > 0
            && let Some(protocol) = application::over_tcp(ports.0, ports.1)
        {
            self.application(protocol, length);
        }
    }

    /// Prints both ends: with addresses where the ports follow the IP header directly, else (an
    /// extension header between) without, since they stand there already. Returns the addresses.
    pub(super) fn ends(&mut self, index: usize, from: u16, to: u16) -> Option<(IpAddr, IpAddr)> {
        let network = self.network_before(index)?;
        let (source, destination) = ip::addresses(self.frame.bytes, network)?;
        if self.before(index) == Some(network) {
            put!(self, "{source}.{from} > {destination}.{to}: ");
        } else {
            put!(self, "{from} > {to}: ");
        }
        Some((source, destination))
    }

    /// The verdict on the checksum of the transport header at `index`, from -v on.
    fn checksum(&mut self, index: usize) {
        let Some(verdict) = self.verdict(index) else { return };
        let here = self.layers.as_slice().get(index).map_or(0, |layer| layer.start());
        let view = self.frame.bytes.get(here..).map(Tcp::new);
        let Some(Ok(tcp)) = view else { return };
        match verdict {
            Verdict::Correct => {
                put!(self, ", cksum 0x{:04x} (correct)", tcp.checksum());
            }
            Verdict::Wrong { found, expected } => {
                put!(self, ", cksum 0x{found:04x} (incorrect -> 0x{expected:04x})");
            }
            Verdict::Absent | Verdict::Unknown => {}
        }
    }

    /// What is known about the checksum of a transport header, from -v on; only for the outer and
    /// the innermost one.
    pub(super) fn verdict(&self, index: usize) -> Option<Verdict> {
        if self.options.verbosity == 0 {
            return None;
        }
        let layer = self.layers.as_slice().get(index).copied();
        let is_at = |level| layer.is_some() && self.layers.transport(level) == layer;
        let level = [Level::Outer, Level::Inner].into_iter().find(|level| is_at(*level))?;
        Some(verify_transport(self.frame.bytes, self.layers, level))
    }
}

/// Appends the letters of the flags, in tcpdump's order.
pub(super) fn flags(out: &mut String, flags: u16) {
    const LETTERS: [(u16, char); 9] = [
        (Tcp::FIN, 'F'),
        (Tcp::SYN, 'S'),
        (Tcp::RST, 'R'),
        (Tcp::PSH, 'P'),
        (Tcp::ACK, '.'),
        (Tcp::URG, 'U'),
        (Tcp::ECE, 'E'),
        (Tcp::CWR, 'W'),
        (Tcp::AE, 'e'),
    ];
    let before = out.len();
    for (mask, letter) in LETTERS {
        if flags & mask != 0 {
            out.push(letter);
        }
    }
    if out.len() == before {
        out.push_str("none");
    }
}
