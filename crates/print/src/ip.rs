//! IPv4, IPv6 and its extension headers.

mod options;

use super::application::names::hex;
use super::cursor::{Cursor, Stop as End};
use super::{Line, put};
use ringside_wire::{
    IpProtocol, Ipv4, Ipv6, Ipv6Extension, Ipv6Fragment, Layer, LayerKind, Level, Stop, Verdict,
    verify_network,
};
use std::fmt::Write;
use std::net::IpAddr;

/// Where the packet of an IP header ends by its length, whether captured or not.
pub(super) fn packet_end(bytes: &[u8], layer: Layer) -> Option<usize> {
    let here = bytes.get(layer.start()..)?;
    match layer.kind {
        LayerKind::Ipv4 => Some(layer.end() + Ipv4::new(here).ok()?.payload_length()?),
        LayerKind::Ipv6 => Some(layer.end() + Ipv6::new(here).ok()?.payload_length()?),
        _ => None,
    }
}

/// Source and destination of an IP header.
pub(super) fn addresses(bytes: &[u8], layer: Layer) -> Option<(IpAddr, IpAddr)> {
    let here = bytes.get(layer.start()..)?;
    match layer.kind {
        LayerKind::Ipv4 => {
            Ipv4::new(here).ok().map(|ip| (ip.source().into(), ip.destination().into()))
        }
        LayerKind::Ipv6 => {
            Ipv6::new(here).ok().map(|ip| (ip.source().into(), ip.destination().into()))
        }
        _ => None,
    }
}

impl Line<'_> {
    /// True if the next header prints the addresses with its ports.
    fn ports_follow(&self, index: usize) -> bool {
        use LayerKind::{Sctp, Tcp, Udp};
        match (self.after(index), self.layers.stop()) {
            (Some(layer), _) => matches!(layer.kind, Tcp | Udp | Sctp),
            // A header that is cut may have them.
            (None, Stop::Truncated(Tcp | Udp | Sctp) | Stop::Malformed(Tcp | Udp | Sctp)) => {
                self.layers.payload().len() >= 4
            }
            _ => false,
        }
    }

    /// Why a header of IPv4 is none.
    pub(super) fn short_ipv4(&mut self, here: &[u8]) {
        if !self.options.link_header {
            self.out.push_str("IP");
        }
        let Some((first, _)) = here.split_first() else {
            self.out.push_str("  [|ip]");
            return;
        };
        let header_bytes = 4 * usize::from(first & 0xf);
        let length = here.get(2..).and_then(|rest| rest.first_chunk());
        let length = length.map(|length| usize::from(u16::from_be_bytes(*length)));
        match (first >> 4, length) {
            (6, _) => self.out.push_str("6, wrong link-layer encapsulation (invalid)"),
            (4, _) if here.len() < Ipv4::BYTES_MIN => self.out.push_str("  [|ip]"),
            (4, _) if header_bytes < Ipv4::BYTES_MIN => {
                put!(self, " bad-hlen {header_bytes}");
            }
            (4, Some(length)) if length < header_bytes => {
                put!(self, " bad-len {length}");
            }
            (4, _) => self.out.push_str("  [|ip]"),
            (version, _) => {
                put!(self, "{version} (invalid)");
            }
        }
    }

    /// How many bytes of a packet that says that it has `bytes` were not on the wire, or do not
    /// fit what it lies in. What the snapshot length cut off was on the wire.
    fn missing_bytes(&self, index: usize, bytes: usize) -> Option<usize> {
        bytes.checked_sub(self.bytes_from(index)).filter(|missing| *missing > 0)
    }

    pub(super) fn ipv4(&mut self, index: usize, here: &[u8]) {
        let Ok(ip) = Ipv4::new(here) else { return };
        if !self.options.link_header {
            self.out.push_str("IP ");
        }
        if let Some(missing) = self.missing_bytes(index, usize::from(ip.total_length())) {
            put!(self, "truncated-ip - {missing} bytes missing! ");
        }
        if self.options.verbosity > 0 {
            self.ipv4_fields(index, &ip);
        }
        let is_later = ip.fragment_offset_bytes() > 0;
        if is_later || !self.ports_follow(index) {
            put!(self, "{} > {}:", ip.source(), ip.destination());
            if is_later {
                put!(self, " ip-proto-{}", ip.protocol());
            } else if !self.ends_here(index) {
                self.out.push(' ');
            }
        }
    }

    /// What an IP header carries that is no layer.
    pub(super) fn ip_payload(&mut self, protocol: u16) {
        let bytes = self.bytes_after(self.layers.as_slice().len() - 1);
        match super::network::protocol(protocol) {
            Some(known) => {
                // Behind the addresses alone; behind a header of IPv6 there is a blank.
                if !self.out.ends_with(' ') {
                    self.out.push(' ');
                }
                self.application(known, bytes);
            }
            // tcpdump leaves two spaces here.
            None => {
                put!(self, "  ip-proto-{protocol} {bytes}");
            }
        }
    }

    /// True if no header follows, and something is to be said about that.
    fn ends_here(&self, index: usize) -> bool {
        self.after(index).is_none() && self.layers.stop() != Stop::Complete
    }

    fn ipv4_fields(&mut self, index: usize, ip: &Ipv4<'_>) {
        put!(self, "(tos 0x{:x}", ip.tos());
        self.out.push_str(["", ",ECT(1)", ",ECT(0)", ",CE"][usize::from(ip.tos() & 3)]);
        let flags =
            [(ip.more_fragments(), "+"), (ip.dont_fragment(), "DF"), (ip.reserved_flag(), "rsvd")];
        let mut set: Vec<&str> = flags.iter().filter(|f| f.0).map(|f| f.1).collect();
        if set.is_empty() {
            set.push("none");
        }
        let (ttl, id, offset) = (ip.ttl(), ip.id(), ip.fragment_offset_bytes());
        let (flags, protocol) = (set.join(", "), ip.protocol());
        if ttl > 0 {
            put!(self, ", ttl {ttl}");
        }
        put!(self, ", id {id}, offset {offset}, flags [{flags}]");
        put!(
            self,
            ", proto {} ({protocol}), length {}",
            protocol_name(protocol),
            ip.total_length()
        );
        if !ip.options().is_empty() {
            self.out.push_str(", options (");
            options::ipv4(self.out, ip.options());
            self.out.push(')');
        }
        let is_outer = self.before(index).is_none_or(|layer| !layer.kind.is_tunnel());
        if let (true, Verdict::Wrong { found, expected }) =
            (is_outer, verify_network(self.frame.bytes, self.layers, Level::Outer))
        {
            put!(self, ", bad cksum {found:x} (->{expected:x})!");
        }
        self.out.push_str(")\n    ");
    }

    pub(super) fn ipv6(&mut self, index: usize, here: &[u8]) {
        let Ok(ip) = Ipv6::new(here) else { return };
        if !self.options.link_header {
            self.out.push_str("IP6 ");
        }
        let bytes = Ipv6::BYTES + ip.payload_length_field() as usize;
        if let Some(missing) = self.missing_bytes(index, bytes) {
            // tcpdump leaves no space here.
            put!(self, "truncated-ip6 - {missing} bytes missing!");
        }
        if self.options.verbosity > 0 {
            self.out.push('(');
            if ip.traffic_class() != 0 {
                put!(self, "class 0x{:02x}, ", ip.traffic_class());
            }
            if ip.flow_label() != 0 {
                put!(self, "flowlabel 0x{:05x}, ", ip.flow_label());
            }
            let (next, hops) = (ip.next_header(), ip.hop_limit());
            let (name, length) = (protocol_name(next), ip.payload_length_field());
            put!(self, "hlim {hops}, next-header {name} ({next}) payload length: {length}) ");
        }
        if !self.ports_follow(index) {
            put!(self, "{} > {}:", ip.source(), ip.destination());
            if !self.ends_here(index) {
                self.out.push(' ');
            }
        }
    }

    pub(super) fn extension(&mut self, kind: LayerKind, here: &[u8]) {
        let Ok(extension) = Ipv6Extension::new(here, kind) else { return };
        let header = here.get(..extension.header_bytes()).unwrap_or(here);
        match kind {
            LayerKind::HopByHop | LayerKind::DestinationOptions => {
                let is_hop = kind == LayerKind::HopByHop;
                self.out.push_str(if is_hop { "HBH " } else { "DSTOPT " });
                let (mark, is_verbose) =
                    (if is_hop { "hbhopt" } else { "dstopt" }, self.is_verbose());
                if is_verbose && options::ipv6(self.out, header).is_err() {
                    put!(self, " [|{mark}]");
                } else if is_verbose {
                    self.out.push(' ');
                }
            }
            LayerKind::Auth => {
                let _ = self.authentication(Cursor::new(header));
            }
            _ => {
                let _ = self.routing(Cursor::new(header));
            }
        }
    }

    fn is_verbose(&self) -> bool {
        self.options.verbosity > 0
    }

    /// RFC 4302.
    fn authentication(&mut self, mut header: Cursor<'_>) -> Result<(), End> {
        let (_, units, reserved) = (header.u8()?, header.u8()?, header.u16()?);
        self.out.push_str("AH(");
        if self.is_verbose() {
            put!(self, "length={units}({}-bytes),", 4 * (usize::from(units) + 2));
        }
        if reserved != 0 {
            put!(self, "reserved=0x{reserved:x}[MustBeZero],");
        }
        let (index, sequence) = (header.u32()?, header.u32()?);
        put!(self, "spi=0x{index:08x},seq=0x{sequence:x},icv=0x");
        hex(self.out, header.rest());
        self.out.push_str("): ");
        Ok(())
    }

    /// Addresses that are visited (RFC 2460, 6275), and those of segment routing (RFC 8754).
    fn routing(&mut self, mut header: Cursor<'_>) -> Result<(), End> {
        const SEGMENTS: u8 = 4;
        let (_, units, kind, left) = (header.u8()?, header.u8()?, header.u8()?, header.u8()?);
        put!(self, "RT6 (len={units}, type={kind}");
        if kind == 0 {
            self.out.push_str(" [Deprecated]");
        }
        put!(self, ", segleft={left}");
        match kind {
            0 | 2 => {
                let reserved = header.u32()?;
                if self.is_verbose() {
                    put!(self, ", rsv=0x{reserved:x}");
                }
            }
            SEGMENTS => {
                let (last, flags, tag) = (header.u8()?, header.u8()?, header.u16()?);
                put!(self, ", last-entry={last}");
                if self.is_verbose() {
                    put!(self, ", flags=0x{flags:x}");
                }
                put!(self, ", tag={tag:x}");
            }
            _ => {
                self.out.push_str(" (unknown type)");
            }
        }
        let mut index = 0;
        while let (0 | 2 | SEGMENTS, Ok(address)) = (kind, header.ipv6()) {
            put!(self, ", [{index}]{address}");
            index += 1;
        }
        self.out.push_str(") ");
        Ok(())
    }

    pub(super) fn ipv6_fragment(&mut self, index: usize, here: &[u8]) {
        let Ok(fragment) = Ipv6Fragment::new(here) else { return };
        let bytes = self.bytes_after(index);
        let offset = fragment.fragment_offset_bytes();
        put!(self, "frag (");
        if self.options.verbosity > 0 {
            put!(self, "0x{:08x}:", fragment.id());
        }
        put!(self, "{offset}|{bytes})");
        if offset == 0 {
            self.out.push(' ');
        }
    }
}

fn protocol_name(protocol: IpProtocol) -> &'static str {
    match protocol {
        IpProtocol::HOP_BY_HOP => "Options",
        IpProtocol::ICMP => "ICMP",
        IpProtocol::IGMP => "IGMP",
        IpProtocol::IPV4 => "IPIP",
        IpProtocol::TCP => "TCP",
        IpProtocol::UDP => "UDP",
        IpProtocol::IPV6 => "IPv6",
        IpProtocol::ROUTING => "Routing",
        IpProtocol::FRAGMENT => "Fragment",
        IpProtocol::GRE => "GRE",
        IpProtocol(50) => "ESP",
        IpProtocol::AUTH => "AH",
        IpProtocol::ICMPV6 => "ICMPv6",
        IpProtocol::NO_NEXT => "No-next",
        IpProtocol::DESTINATION_OPTIONS => "Destination",
        IpProtocol(89) => "OSPF",
        IpProtocol(103) => "PIM",
        IpProtocol(112) => "VRRP",
        IpProtocol::SCTP => "SCTP",
        _ => "unknown",
    }
}
