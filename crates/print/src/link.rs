//! Link layers, tags, ARP, and what no later header explains.

mod cdp;
mod llc;
mod lldp;
mod ppp;
mod pppoe;
mod radiotap;
mod seldom;
mod small;
mod stp;
mod wlan;

use super::application::Protocol;
use super::{HexDump, Line, put};
use ringside_core::{Frame, LinkType};
use ringside_wire::{
    Arp, Chdlc, EtherType, Ethernet, Isl, Layer, LayerKind, Layers, MacAddr, Mpls, Null, Ppp,
    Radiotap, Sll, Vlan, VnTag,
};
use std::fmt::Write;

/// Where the network header begins, behind the link layer and its tags.
pub(super) fn network_offset(layers: &Layers) -> usize {
    let is_link = |layer: &Layer| {
        use LayerKind::{
            Chdlc, Dsa, Ethernet, Fddi, FrameRelay, Ieee80211, Llc, Nflog, Null, Ppp, QinQ,
            Radiotap, Sll, Sll2, Snap, Vlan,
        };
        matches!(
            layer.kind,
            Ethernet
                | Vlan
                | QinQ
                | Llc
                | Snap
                | Null
                | Sll
                | Sll2
                | Ppp
                | Chdlc
                | Radiotap
                | Ieee80211
                | FrameRelay
                | Nflog
                | Fddi
                | Dsa
        )
    };
    layers.iter().take_while(is_link).last().map_or(0, Layer::end)
}

/// The frame without the check sequence that the radio's header says it ends with.
pub(super) fn without_check_sequence<'a>(frame: &Frame<'a>, link: LinkType) -> Frame<'a> {
    const BYTES: u32 = 4;
    let mut frame = Frame { bytes: frame.bytes, meta: frame.meta };
    if link != LinkType::IEEE802_11_RADIOTAP {
        return frame;
    }
    if let Ok(radio) = Radiotap::new(frame.bytes)
        && radio.has_check_sequence()
    {
        let end = frame.meta.wire_bytes.saturating_sub(BYTES).max(radio.header_bytes() as u32);
        frame.meta.wire_bytes = end;
        frame.bytes = frame.bytes.get(..end as usize).unwrap_or(frame.bytes);
    }
    frame
}

impl Line<'_> {
    pub(super) fn link(&mut self, index: usize, layer: Layer, here: &[u8]) {
        match layer.kind {
            LayerKind::Ethernet if self.options.link_header || self.is_unexplained(index) => {
                self.ethernet(index, here);
            }
            LayerKind::Vlan | LayerKind::QinQ if self.options.link_header => {
                if let Ok(tag) = Vlan::new(here) {
                    put!(self, "vlan {}, p {}, ", tag.id(), tag.priority());
                    if tag.drop_eligible() {
                        self.out.push_str("DEI, ");
                    }
                    self.type_and_colon(tag.type_or_length());
                }
            }
            LayerKind::Sll if self.options.link_header => self.sll(here),
            LayerKind::Sll2 => self.sll2(here),
            LayerKind::Radiotap => self.radiotap(here),
            LayerKind::Ieee80211 => self.wlan(index, here),
            LayerKind::Dsa => self.dsa(index, layer, here),
            LayerKind::Llc if self.options.link_header => self.llc_header(here),
            LayerKind::Snap if self.options.link_header => self.snap(layer),
            LayerKind::FrameRelay if self.options.link_header => {
                self.frame_relay(here, self.bytes_from_layer(layer));
            }
            LayerKind::Nflog if self.options.link_header => {
                self.nflog(here, self.frame.meta.wire_bytes as usize);
            }
            LayerKind::Fddi if self.options.link_header => {
                self.fddi(here, self.bytes_from_layer(layer));
            }
            LayerKind::Mpls => self.mpls(here),
            LayerKind::Pppoe => self.pppoe(here),
            LayerKind::Isl => {
                if let Ok(isl) = Isl::new(here) {
                    put!(self, "ISL vlan {}, ", isl.vlan_id());
                }
            }
            LayerKind::VnTag => {
                if let Ok(tag) = VnTag::new(here) {
                    put!(self, "VN-Tag {} > {}, ", tag.source(), tag.destination());
                }
            }
            LayerKind::Cmd => self.out.push_str("CMD, "),
            LayerKind::ControlWord => self.out.push_str("PW "),
            _ => {}
        }
    }

    /// True if nothing that follows this header would be printed: then its addresses are.
    fn is_unexplained(&self, index: usize) -> bool {
        let mut rest = self.layers.iter().skip(index + 1);
        let ringside_wire::Stop::Unknown { protocol } = self.layers.stop() else { return false };
        // LLC and SNAP have the addresses on a line of their own.
        rest.all(|layer| matches!(layer.kind, LayerKind::Vlan | LayerKind::QinQ))
            && ether_protocol(EtherType(protocol)).is_none()
    }

    fn ethernet(&mut self, index: usize, here: &[u8]) {
        let Ok(ethernet) = Ethernet::new(here) else { return };
        put!(self, "{} > {}, ", ethernet.source(), ethernet.destination());
        match ethernet.ether_type() {
            Some(ether_type) => self.ether_type(ether_type),
            None => self.out.push_str("802.3"),
        }
        let length = match index {
            0 => self.frame.meta.wire_bytes as usize,
            _ => self.bytes_from(index),
        };
        put!(self, ", length {length}: ");
    }

    fn sll(&mut self, here: &[u8]) {
        let Ok(sll) = Sll::new(here) else { return };
        put!(self, "{:>3} ", way(&sll));
        self.sll_address(&sll);
        self.type_and_colon(sll.protocol());
    }

    /// Interface and way always, as tcpdump shows them: lines of several interfaces would else look
    /// alike.
    fn sll2(&mut self, here: &[u8]) {
        let Ok(sll) = Sll::new_v2(here) else { return };
        let index = sll.interface().unwrap_or(0);
        match self.names.get(&index) {
            Some(name) => {
                put!(self, "{:<5} ", printable(name));
            }
            None => {
                put!(self, "ifindex {index} ");
            }
        }
        put!(self, "{:<3} ", way(&sll));
        if self.options.link_header {
            put!(self, "ifindex {index} ");
            self.sll_address(&sll);
            self.type_and_colon(sll.protocol());
        }
    }

    fn sll_address(&mut self, sll: &Sll<'_>) {
        for (index, byte) in sll.address().iter().enumerate() {
            let colon = if index > 0 { ":" } else { "" };
            put!(self, "{colon}{byte:02x}");
        }
        self.out.push(' ');
    }

    fn type_and_colon(&mut self, value: u16) {
        if value > 1500 {
            self.ether_type(EtherType(value));
            self.out.push_str(", ");
        }
    }

    fn ether_type(&mut self, ether_type: EtherType) {
        let name = ether_type_name(ether_type);
        if self.options.quick {
            self.out.push_str(name);
            if name == UNKNOWN {
                put!(self, " Ethertype ({ether_type})");
            }
        } else {
            put!(self, "ethertype {name} ({ether_type})");
        }
    }

    fn mpls(&mut self, here: &[u8]) {
        let Ok(mpls) = Mpls::new(here) else { return };
        let is_verbose = self.options.verbosity > 0;
        self.out.push_str("MPLS");
        for (number, label) in mpls.labels().enumerate() {
            self.out.push_str(if is_verbose && number > 0 { "\n\t" } else { " " });
            put!(self, "(label {}", label.value());
            if let (true, Some(name)) = (is_verbose, reserved_label(label.value())) {
                put!(self, " ({name})");
            }
            let bottom = if label.is_bottom() { "[S], " } else { "" };
            put!(self, ", tc {}, {bottom}ttl {})", label.traffic_class(), label.ttl());
        }
        self.out.push_str(if is_verbose { "\n\t" } else { " " });
    }

    pub(super) fn arp(&mut self, layer: Layer, here: &[u8]) {
        let Ok(arp) = Arp::new(here) else { return };
        if !self.options.link_header {
            self.out.push_str("ARP, ");
        }
        let (hardware, protocol) = (arp.hardware_bytes(), arp.protocol_bytes());
        if arp.ipv4().is_none() {
            put!(self, "Unknown Hardware ({}) (len {hardware}), ", arp.hardware_type());
            put!(self, "Unknown Protocol ({}) (len {protocol})", arp.protocol_type());
        } else if self.options.verbosity > 0 {
            put!(self, "Ethernet (len {hardware}), IPv4 (len {protocol}), ");
        }
        match (arp.ipv4(), arp.operation()) {
            (Some((_, sender, target_mac, target)), 1) => {
                put!(self, "Request who-has {target}");
                if target_mac != MacAddr::default() && target_mac != MacAddr::BROADCAST {
                    put!(self, " ({target_mac})");
                }
                put!(self, " tell {sender}");
            }
            (Some((sender_mac, sender, _, _)), 2) => {
                put!(self, "Reply {sender} is-at {sender_mac}");
            }
            (Some((sender_mac, _, target_mac, _)), 3) => {
                put!(self, "Reverse Request who-is {target_mac} tell {sender_mac}");
            }
            (Some((_, _, target_mac, target)), 4) => {
                put!(self, "Reverse Reply {target_mac} at {target}");
            }
            (Some(_), operation) => {
                put!(self, "Unknown ({operation}) ");
                self.rest_in_hex(layer.start(), HexDump::WithAscii);
                return;
            }
            (None, _) => {}
        }
        let to_end = (self.frame.meta.wire_bytes as usize).saturating_sub(layer.start());
        put!(self, ", length {to_end}");
    }

    /// A protocol number that no layer explains, in the words of the header that holds it.
    pub(super) fn unknown(&mut self, protocol: u16) {
        let Some(last) = self.layers.last() else {
            put!(self, "unknown ip {protocol}");
            return;
        };
        let here = self.frame.bytes.get(last.start()..).unwrap_or(&[]);
        let left = (self.frame.meta.wire_bytes as usize).saturating_sub(last.end());
        match last.kind {
            LayerKind::Llc | LayerKind::Snap => match self.llc_protocol() {
                Some(known) => self.link_payload(known, last),
                None => self.llc(),
            },
            LayerKind::Ethernet
            | LayerKind::Vlan
            | LayerKind::QinQ
            | LayerKind::VnTag
            | LayerKind::Dsa => match ether_protocol(EtherType(protocol)) {
                Some(known) => self.link_payload(known, last),
                None => self.rest_in_hex(last.end(), HexDump::WithAscii),
            },
            LayerKind::Ppp => {
                let number = Ppp::new(here).map_or(protocol, |ppp| ppp.protocol());
                match (ppp::protocol(number), ppp::name(number)) {
                    (Some(known), _) => return self.link_payload(known, last),
                    (None, Some(name)) => self.out.push_str(name),
                    (None, None) => {
                        put!(self, "unknown PPP protocol (0x{number:04x})");
                    }
                }
                self.out.push(' ');
                self.rest_in_hex(last.end(), HexDump::Plain);
            }
            LayerKind::Chdlc => match Chdlc::new(here).map(|hdlc| hdlc.ether_type()) {
                // Cisco's keepalives have the number of RARP.
                Ok(EtherType::RARP) => {
                    self.link_payload(Protocol::new("slarp", small::slarp), last);
                }
                _ => {
                    put!(self, "unknown CHDLC protocol (0x{protocol:04x})");
                }
            },
            LayerKind::Null => {
                let family = Null::new(here).map_or(u32::from(protocol), |null| null.family());
                put!(self, "AF Unknown ({family}), length {}: ", self.frame.meta.wire_bytes);
                self.rest_in_hex(last.end(), HexDump::WithAscii);
            }
            LayerKind::Ieee80211 => self.unknown_wlan(here, protocol),
            LayerKind::FrameRelay | LayerKind::Nflog | LayerKind::Fddi => {
                self.unknown_seldom(last, here);
            }
            LayerKind::Mpls => {
                self.out.pop();
                self.rest_in_hex(last.end(), HexDump::WithAscii);
            }
            LayerKind::Gre => {
                put!(self, "gre-proto-0x{protocol:x}");
            }
            LayerKind::Geneve => {
                put!(self, "geneve-proto-0x{protocol:x}");
            }
            kind if is_ip(kind) => self.ip_payload(protocol),
            _ => {
                put!(self, "unknown protocol 0x{protocol:04x}, length {left}");
            }
        }
    }

    /// The text of what follows the header of a link.
    fn link_payload(&mut self, protocol: Protocol, last: Layer) {
        let length = self.bytes_from_layer(last).saturating_sub(usize::from(last.header_bytes));
        self.application(protocol, length);
    }

    /// Bytes from a header of a link to the end that a length before it says, else to that on the
    /// wire.
    fn bytes_from_layer(&self, layer: Layer) -> usize {
        let whole = self.frame.meta.wire_bytes as usize == self.frame.bytes.len();
        let end =
            if whole { self.layers.payload().end } else { self.frame.meta.wire_bytes as usize };
        end.saturating_sub(layer.start())
    }

    /// What no protocol explains, in hexadecimal below the line, unless bytes are asked for anyway.
    fn rest_in_hex(&mut self, from: usize, dump: HexDump) {
        let bytes = self.frame.bytes.get(from..).unwrap_or_default();
        if self.options.bytes.dump == HexDump::None && !self.options.quick {
            super::hex::dump(self.out, bytes, dump);
        }
    }

    /// As [`Line::bytes_from`], from the end of the header at `index`.
    pub(super) fn bytes_after(&self, index: usize) -> usize {
        let Some(layer) = self.layers.as_slice().get(index).copied() else { return 0 };
        if layer.kind.is_network() {
            let end = super::ip::packet_end(self.frame.bytes, layer);
            let end = end.unwrap_or(self.frame.meta.wire_bytes as usize);
            return end.saturating_sub(layer.end());
        }
        self.bytes_from(index).saturating_sub(usize::from(layer.header_bytes))
    }
}

/// Which way a frame went, as tcpdump calls it.
fn way(sll: &Sll<'_>) -> &'static str {
    match sll.packet_type() {
        0 => "In",
        1 => "B",
        2 => "M",
        3 => "P",
        4 => "Out",
        _ => "?",
    }
}

/// The name of an interface may hold any byte but `/` and blanks.
fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_graphic() { c } else { '?' }).collect()
}

fn is_ip(kind: LayerKind) -> bool {
    use LayerKind::{Auth, DestinationOptions, Fragment, HopByHop, Ipv4, Ipv6, Routing};
    matches!(kind, Ipv4 | Ipv6 | HopByHop | Routing | DestinationOptions | Fragment | Auth)
}

/// The protocol of an EtherType whose text is made.
fn ether_protocol(ether_type: EtherType) -> Option<Protocol> {
    Some(match ether_type.0 {
        0x88cc => Protocol::new("lldp", lldp::print),
        0x888e => Protocol::new("EAP", small::eapol),
        0x9000 => Protocol::new("loopback", small::loopback),
        _ => return None,
    })
}

/// Labels with a meaning of their own (RFC 3032).
fn reserved_label(label: u32) -> Option<&'static str> {
    Some(match label {
        0 => "IPv4 explicit NULL",
        1 => "router alert",
        2 => "IPv6 explicit NULL",
        3 => "implicit NULL",
        _ => return None,
    })
}

fn ether_type_name(ether_type: EtherType) -> &'static str {
    match ether_type {
        EtherType::IPV4 => "IPv4",
        EtherType::IPV6 => "IPv6",
        EtherType::ARP => "ARP",
        EtherType::RARP => "Reverse ARP",
        EtherType::VLAN => "802.1Q",
        EtherType::QINQ => "802.1Q-QinQ",
        EtherType::QINQ_OLD => "802.1Q-9100",
        EtherType::MPLS => "MPLS unicast",
        EtherType::MPLS_UPSTREAM => "MPLS multicast",
        EtherType::PPPOE_DISCOVERY => "PPPoE D",
        EtherType::PPPOE_SESSION => "PPPoE S",
        EtherType(0x88cc) => "LLDP",
        EtherType(0x88e5) => "802.1AE MACsec",
        EtherType(0x9000) => "Loopback",
        EtherType(0x888e) => "EAPOL",
        EtherType(0x8809) => "Slow Protocols",
        EtherType(0x8902) => "CFM",
        EtherType(0x88f7) => "PTP",
        EtherType(0x8137) => "IPX",
        EtherType(0x809b) => "Appletalk",
        EtherType(0x80f3) => "Appletalk ARP",
        EtherType(0x6001) => "MOP DL",
        EtherType(0x6002) => "MOP RC",
        EtherType(0x6003) => "DN",
        EtherType(0x6004) => "LAT",
        EtherType(0x0600) => "NS",
        _ => UNKNOWN,
    }
}

/// The name of a type that has none.
const UNKNOWN: &str = "Unknown";
