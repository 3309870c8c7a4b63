//! LLC (IEEE 802.2) and SNAP, where no later header explains them.

use super::stp;
use crate::application::Protocol;
use crate::application::names::flags;
use crate::{HexDump, Line, put};
use ringside_wire::{Dsa, Ethernet, Fddi, Layer, LayerKind, Llc, MacAddr, Snap};
use std::fmt::Write;

/// Organisations whose protocols are known.
const CISCO: u32 = 0x00_000c;
const BRIDGED: u32 = 0x00_80c2;
/// The service access point of the spanning tree.
const STP: u8 = 0x42;

/// What a SNAP header of an organisation leads to.
fn snap_protocol(organisation: u32, protocol: u16) -> Option<Protocol> {
    Some(match (organisation, protocol) {
        (CISCO, 0x010b) | (BRIDGED, 0x000e) => Protocol::new("stp", stp::print),
        (CISCO, 0x2000) => Protocol::new("cdp", super::cdp::print),
        _ => return None,
    })
}

impl Line<'_> {
    /// The protocol behind LLC or SNAP whose text is made here.
    pub(crate) fn llc_protocol(&self) -> Option<Protocol> {
        let last = self.layers.last()?;
        let here = self.frame.bytes.get(last.start()..)?;
        match last.kind {
            LayerKind::Llc => {
                let llc = Llc::new(here).ok()?;
                let is_stp = (llc.destination(), llc.source(), llc.control()) == (STP, STP, 3);
                is_stp.then(|| Protocol::new("stp", stp::print))
            }
            LayerKind::Snap => {
                let snap = Snap::new(here).ok()?;
                snap_protocol(snap.organisation(), snap.protocol())
            }
            _ => None,
        }
    }

    /// The whole header, with `-e`.
    pub(crate) fn llc_header(&mut self, here: &[u8]) {
        let Ok(llc) = Llc::new(here) else { return };
        let (to, from) = (llc.destination(), llc.source());
        let (to_point, from_point) = (to & !1, from & !1);
        let name = |number| point(number).unwrap_or("Unknown");
        let kind = if to & 1 == 0 { "Individual" } else { "Group" };
        let way = if from & 1 == 0 { "Command" } else { "Response" };
        put!(self, "LLC, dsap {} (0x{to_point:02x}) {kind}", name(to_point));
        put!(self, ", ssap {} (0x{from_point:02x}) {way}", name(from_point));
        let digits = if llc.header_bytes() > 3 { 4 } else { 2 };
        put!(self, ", ctrl 0x{:0digits$x}: ", llc.control());
    }

    /// Service access points and control field, then the bytes.
    pub(crate) fn llc(&mut self) {
        let Some(layer) = self.layers.find(LayerKind::Llc) else { return };
        let here = self.frame.bytes.get(layer.start()..).unwrap_or(&[]);
        let Ok(llc) = Llc::new(here) else { return };
        let (to, from) = (llc.destination(), llc.source());
        if !self.options.link_header {
            self.points(to & !1, from & !1);
        }
        let left = self.bytes_from_layer(layer);
        match self.layers.last() {
            // With -e it stands there already.
            Some(last) if last.kind == LayerKind::Snap => {
                if !self.options.link_header {
                    self.snap(last);
                }
            }
            _ => self.control(&llc, from, left),
        }
        let bytes = here.get(..left).unwrap_or(here);
        let is_supervisory = llc.header_bytes() > 3 && llc.control() & 3 == 1;
        let wanted = self.options.bytes.dump == HexDump::None && !self.options.quick;
        if !is_supervisory && wanted {
            crate::hex::dump(self.out, bytes, HexDump::WithAscii);
        }
    }

    /// Source and destination on the link around the header of LLC.
    fn stations(&self) -> Option<(MacAddr, MacAddr)> {
        let is_llc = |layer: &Layer| layer.kind == LayerKind::Llc;
        let index = self.layers.iter().position(|layer| is_llc(&layer))?;
        let layers = self.layers.as_slice().get(..index)?;
        let here = |layer: &Layer| self.frame.bytes.get(layer.start()..).unwrap_or(&[]);
        layers.iter().enumerate().rev().find_map(|(index, layer)| {
            Some(match layer.kind {
                LayerKind::Ethernet => {
                    let ethernet = Ethernet::new(here(layer)).ok()?;
                    (ethernet.source(), ethernet.destination())
                }
                LayerKind::Ieee80211 => {
                    let wlan = self.wlan_at(index, here(layer))?;
                    (wlan.source(), wlan.destination())
                }
                LayerKind::Fddi => {
                    let fddi = Fddi::new(here(layer)).ok()?;
                    (fddi.source(), fddi.destination())
                }
                LayerKind::Dsa => {
                    let is_extended = usize::from(layer.header_bytes) == Dsa::BYTES_EXTENDED;
                    let dsa = Dsa::new(here(layer), is_extended).ok()?;
                    (dsa.source(), dsa.destination())
                }
                _ => return None,
            })
        })
    }

    /// Addresses with their service access points; the same one only once.
    fn points(&mut self, to: u8, from: u8) {
        let Some((source, destination)) = self.stations() else { return };
        put!(self, "{source}");
        if from != to {
            match point(from) {
                Some(name) => {
                    put!(self, " {name}");
                }
                None => {
                    put!(self, " Unknown SSAP 0x{from:02x}");
                }
            }
        }
        put!(self, " > {destination} ");
        match point(to) {
            Some(name) => self.out.push_str(name),
            None => {
                put!(self, "Unknown DSAP 0x{to:02x}");
            }
        }
    }

    /// An organisation's protocol: with `-e` always, else where it is not known.
    pub(crate) fn snap(&mut self, layer: Layer) {
        let here = self.frame.bytes.get(layer.start()..).unwrap_or(&[]);
        let Ok(snap) = Snap::new(here) else { return };
        let left = self.bytes_from_layer(layer).saturating_sub(Snap::BYTES);
        let comma = if self.options.link_header { "" } else { ", " };
        let organisation = snap.organisation();
        let name = match organisation {
            0 => "Ethernet",
            CISCO => "Cisco",
            BRIDGED => "Ethernet bridged",
            0x08_0007 => "Appletalk",
            0x00_00f8 => "Cisco bridged",
            _ => "Unknown",
        };
        match snap.ether_type() {
            Some(ether_type) => {
                if self.options.link_header {
                    put!(self, "oui {name} (0x{organisation:06x}), ");
                }
                let name = super::ether_type_name(ether_type);
                put!(self, "{comma}ethertype {name} ({ether_type}), length {left}: ");
            }
            None => {
                let protocol = snap.protocol();
                put!(self, "{comma}oui {name} (0x{organisation:06x}), ");
                let name = protocol_name(organisation, protocol);
                put!(self, "pid {name} (0x{protocol:04x}), length {left}: ");
            }
        }
    }

    /// What the control field says (IEEE 802.2 section 5.4).
    fn control(&mut self, llc: &Llc<'_>, from: u8, left: usize) {
        let space = if self.options.link_header { "" } else { " " };
        let is_response = from & 1 != 0;
        let is_long = llc.header_bytes() > 3;
        let [low, second] = llc.control().to_le_bytes();
        let poll = if is_long { second & 1 != 0 } else { low & 0x10 != 0 };
        self.out.push_str(space);
        match low & 3 {
            3 => {
                let name = match low & 0xef {
                    0x03 => "ui",
                    0x0f => "dm",
                    0x43 => "disc",
                    0x63 => "ua",
                    0x6f => "sabme",
                    0x87 => "frmr",
                    0xaf => "xid",
                    0xe3 => "test",
                    other => {
                        put!(self, "Unnumbered, {other:02x}");
                        ""
                    }
                };
                if !name.is_empty() {
                    put!(self, "Unnumbered, {name}");
                }
            }
            1 => {
                let names = ["Receiver Ready", "Receiver not Ready", "Reject", "unknown"];
                let name = names[usize::from(low >> 2 & 3)];
                put!(self, "Supervisory, {name}, rcv seq {}", second >> 1);
            }
            _ => {
                put!(self, "Information, send seq {}, rcv seq {}", low >> 1, second >> 1);
            }
        }
        self.out.push_str(", Flags [");
        match (is_response, poll) {
            (false, false) => self.out.push_str("Command"),
            (true, true) => self.out.push_str("Response, Final"),
            _ => flags(
                self.out,
                u32::from(is_response) | u32::from(poll) << 1,
                &[(1, "Response"), (2, "Poll")],
            ),
        }
        put!(self, "], length {left}");
    }
}

/// Names of an organisation's protocols.
fn protocol_name(organisation: u32, protocol: u16) -> &'static str {
    match (organisation, protocol) {
        (CISCO, 0x010b) => "PVST",
        (CISCO, 0x010c) => "VLAN Bridge",
        (CISCO, 0x0111) => "UDLD",
        (CISCO, 0x2000) => "CDP",
        (CISCO, 0x2003) => "VTP",
        (CISCO, 0x2004) => "DTP",
        (BRIDGED, 1) => "Ethernet + FCS",
        (BRIDGED, 7) => "Ethernet w/o FCS",
        (BRIDGED, 0x0e) => "BPDU",
        _ => "Unknown",
    }
}

/// Names of service access points.
fn point(number: u8) -> Option<&'static str> {
    Some(match number {
        0x00 => "Null",
        0x02 => "802.1B I",
        0x04 => "SNA",
        0x06 => "IP",
        0x0e => "ProWay NM",
        0x42 => "STP",
        0x4e => "EIA RS-511",
        0x7e => "X.25 over LLC",
        0x80 => "XNS",
        0x82 => "ISO8208",
        0x8e => "ProWay ASM",
        0xaa => "SNAP",
        0xbc => "VINES",
        0xe0 => "IPX",
        0xf0 => "NetBeui",
        0xf4 => "LAN Network Manager",
        0xf8 => "IMPL",
        0xfc => "DISC",
        0xfe => "OSI",
        _ => return None,
    })
}
