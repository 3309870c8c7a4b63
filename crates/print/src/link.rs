//! Link layers, tags, ARP, and what no later header explains.

use super::{Line, put};
use ringside_wire::{
    Arp, Chdlc, EtherType, Ethernet, Isl, Layer, LayerKind, Layers, Llc, MacAddr, Mpls, Ppp, Pppoe,
    Sll, Vlan, VnTag,
};
use std::fmt::Write;

/// Where the network header begins, behind the link layer and its tags.
pub(super) fn network_offset(layers: &Layers) -> usize {
    let is_link = |layer: &Layer| {
        use LayerKind::{Chdlc, Ethernet, Null, Ppp, QinQ, Sll, Sll2, Vlan};
        matches!(layer.kind, Ethernet | Vlan | QinQ | Null | Sll | Sll2 | Ppp | Chdlc)
    };
    layers.iter().take_while(is_link).last().map_or(0, Layer::end)
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
            LayerKind::Mpls => self.mpls(here),
            LayerKind::Pppoe => {
                if let Ok(pppoe) = Pppoe::new(here) {
                    let stage = match pppoe.code() {
                        0 => "",
                        0x09 => "PADI ",
                        0x07 => "PADO ",
                        0x19 => "PADR ",
                        0x65 => "PADS ",
                        0xa7 => "PADT ",
                        _ => "discovery ",
                    };
                    let kind = if pppoe.code() == 0 { "" } else { " D" };
                    put!(self, "PPPoE{kind} {stage}[ses 0x{:x}] ", pppoe.session());
                }
            }
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
        let unknown = matches!(self.layers.stop(), ringside_wire::Stop::Unknown { .. });
        use LayerKind::{Llc, QinQ, Snap, Vlan};
        unknown && rest.all(|layer| matches!(layer.kind, Vlan | QinQ | Llc | Snap))
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
        } else {
            put!(self, "ethertype {name} ({ether_type})");
        }
    }

    fn mpls(&mut self, here: &[u8]) {
        let Ok(mpls) = Mpls::new(here) else { return };
        self.out.push_str("MPLS");
        for label in mpls.labels() {
            let bottom = if label.is_bottom() { "[S], " } else { "" };
            let (value, class, ttl) = (label.value(), label.traffic_class(), label.ttl());
            put!(self, " (label {value}, tc {class}, {bottom}ttl {ttl})");
        }
        self.out.push(' ');
    }

    pub(super) fn arp(&mut self, layer: Layer, here: &[u8]) {
        let Ok(arp) = Arp::new(here) else { return };
        if !self.options.link_header {
            self.out.push_str("ARP, ");
        }
        if self.options.verbosity > 0 {
            let (hardware, protocol) = (arp.hardware_bytes(), arp.protocol_bytes());
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
            (_, operation) => {
                put!(self, "operation {operation}, hardware type {}", arp.hardware_type());
            }
        }
        let to_end = (self.frame.meta.wire_bytes as usize).saturating_sub(layer.start());
        put!(self, ", length {to_end}");
    }

    /// A protocol number that no layer explains, in the words of the header that holds it.
    pub(super) fn unknown(&mut self, protocol: u16) {
        let Some(last) = self.layers.last() else {
            put!(self, "unknown version {protocol}, length {}", self.frame.meta.wire_bytes);
            return;
        };
        let here = self.frame.bytes.get(last.start()..).unwrap_or(&[]);
        let left = (self.frame.meta.wire_bytes as usize).saturating_sub(last.end());
        match last.kind {
            LayerKind::Llc | LayerKind::Snap => self.llc(),
            LayerKind::Ethernet if self.layers.as_slice().len() == 1 => {}
            LayerKind::Ppp => {
                let protocol = Ppp::new(here).map_or(protocol, |ppp| ppp.protocol());
                put!(self, "PPP protocol 0x{protocol:04x}, length {left}");
            }
            LayerKind::Chdlc => {
                let address = Chdlc::new(here).map_or(0, |hdlc| hdlc.address());
                put!(self, "CHDLC 0x{address:02x}, protocol 0x{protocol:04x}, length {left}");
            }
            LayerKind::Null => {
                put!(self, "unknown address family {protocol}, length {left}");
            }
            LayerKind::Mpls => {
                put!(self, "unknown payload, length {left}");
            }
            kind if is_ip(kind) => {
                // The layers end here: what follows has the length that IP says.
                let bytes = self.bytes_after(self.layers.as_slice().len() - 1);
                put!(self, " ip-proto-{protocol} {bytes}");
            }
            _ => {
                put!(self, "unknown protocol 0x{protocol:04x}, length {left}");
            }
        }
    }

    fn llc(&mut self) {
        let Some(layer) = self.layers.find(LayerKind::Llc) else { return };
        let here = self.frame.bytes.get(layer.start()..).unwrap_or(&[]);
        let Ok(llc) = Llc::new(here) else { return };
        let (to, from, control) = (llc.destination(), llc.source(), llc.control());
        put!(self, "LLC, dsap 0x{to:02x}, ssap 0x{from:02x}, ctrl 0x{control:02x}");
        let left = (self.frame.meta.wire_bytes as usize).saturating_sub(layer.start());
        put!(self, ", length {left}");
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
        _ => "Unknown",
    }
}
