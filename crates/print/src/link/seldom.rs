//! Headers of links that are seldom met: frame relay, FDDI, tags of switches, logs of the kernel.

use super::ether_type_name;
use crate::application::names::flags;
use crate::{HexDump, Line, put};
use ringside_wire::{
    Dsa, DsaMode, EtherType, Fddi, FrameRelay, Layer, LayerKind, Nflog, RelayProtocol,
};
use std::fmt::Write;

impl Line<'_> {
    /// Frame relay; `length` is that of the frame.
    pub(crate) fn frame_relay(&mut self, here: &[u8], length: usize) {
        let Ok(relay) = FrameRelay::new(here) else { return };
        if self.options.quick {
            put!(self, "Q.922, DLCI {}, length {length}: ", relay.dlci());
            return;
        }
        let (bytes, dlci) = (relay.address_bytes(), relay.dlci());
        put!(self, "Q.922, hdr-len {bytes}, DLCI {dlci}, Flags [");
        let set = u32::from(relay.is_response())
            | u32::from(relay.discard_eligible()) << 1
            | u32::from(relay.backward_congestion()) << 2
            | u32::from(relay.forward_congestion()) << 3
            | u32::from(relay.is_control()) << 4;
        let names = [(1, "C!"), (2, "DE"), (4, "BECN"), (8, "FECN"), (16, "sdlcore")];
        flags(self.out, set, &names);
        match relay.protocol() {
            RelayProtocol::Nlpid(number) => {
                put!(self, "], NLPID {} (0x{number:02x})", nlpid_name(number));
            }
            RelayProtocol::Type(ether_type) => {
                put!(self, "], cisco-ethertype {} ({ether_type})", ether_type_name(ether_type));
            }
        }
        put!(self, ", length {length}: ");
    }

    pub(crate) fn nflog(&mut self, here: &[u8], length: usize) {
        let Ok(nflog) = Nflog::new(here) else { return };
        put!(self, "version 0, resource ID {}", nflog.resource());
        let (family, number) = (family_name(nflog.family()), nflog.family());
        if self.options.quick && family == "Unknown" {
            put!(self, ", {family} NFLOG (0x{number:02x})");
        } else if self.options.quick {
            put!(self, ", {family}");
        } else {
            put!(self, ", family {family} ({number})");
        }
        put!(self, ", length {length}: ");
    }

    pub(crate) fn fddi(&mut self, here: &[u8], length: usize) {
        let Ok(fddi) = Fddi::new(here) else { return };
        if !self.options.quick {
            self.fddi_control(fddi.control());
        }
        put!(self, "{} > {}, length {length}: ", fddi.source(), fddi.destination());
    }

    /// Frame control (ANSI X3.139, section 7.3.3).
    fn fddi_control(&mut self, control: u8) {
        let name = match control {
            0x40 => "void",
            0x80 => "nrt",
            0xc0 => "rt",
            0x41 => "info",
            0x4f => "nsa",
            0xc2 => "beacon",
            0xc3 => "claim",
            _ => "",
        };
        let class = match control & 0xf0 {
            _ if !name.is_empty() => name,
            0x40 => "smt",
            0x50 => "async",
            0x60 => "imp_async",
            0xc0 => "mac",
            0xd0 => "sync",
            0xe0 => "imp_sync",
            _ => "",
        };
        if class.is_empty() {
            put!(self, "{control:02x} ");
        } else if class == name {
            put!(self, "{name} ");
        } else {
            put!(self, "{class}{:x} ", control & 0x0f);
        }
    }

    /// The tag always, addresses and type with `-e` or where nothing else is known.
    pub(crate) fn dsa(&mut self, index: usize, layer: Layer, here: &[u8]) {
        let is_extended = usize::from(layer.header_bytes) == Dsa::BYTES_EXTENDED;
        let Ok(dsa) = Dsa::new(here, is_extended) else { return };
        let ends = format!("{} > {}, ", dsa.source(), dsa.destination());
        if self.options.link_header {
            self.out.push_str(&ends);
            self.dsa_fields(&dsa);
        } else {
            self.dsa_tag(&dsa);
            if !self.is_unexplained(index) {
                return;
            }
            self.out.push_str(&ends);
        }
        if dsa.type_or_length() > 1500 {
            self.ether_type(EtherType(dsa.type_or_length()));
        } else {
            self.out.push_str("802.3");
        }
        put!(self, ", length {}: ", self.frame.meta.wire_bytes);
    }

    fn dsa_tag(&mut self, dsa: &Dsa<'_>) {
        match dsa.extended() {
            Some((ether_type, _)) => {
                put!(self, "EDSA 0x{ether_type:04x}, ");
            }
            None => self.out.push_str("DSA "),
        }
        let (device, port) = (dsa.device(), dsa.port());
        let is_set = dsa.is_trunk_or_ingress();
        match dsa.mode() {
            DsaMode::Forward => {
                put!(self, "Forward {} {device}.{port}, ", if is_set { "trunk" } else { "port" });
            }
            DsaMode::FromCpu => {
                put!(self, "CPU > port {device}.{port}, ");
            }
            DsaMode::ToCpu => {
                put!(self, "port {device}.{port} > CPU, ");
            }
            DsaMode::ToSniffer => {
                let side = if is_set { "Rx" } else { "Tx" };
                put!(self, "port {device}.{port} > {side} Sniffer, ");
            }
        }
        put!(self, "VLAN {}{}, ", dsa.vlan_id(), if dsa.is_tagged() { 't' } else { 'u' });
    }

    fn dsa_fields(&mut self, dsa: &Dsa<'_>) {
        match dsa.extended() {
            Some((ether_type, [first, second])) => {
                let name = ether_type_name(EtherType(ether_type));
                put!(self, "Marvell EDSA ethertype 0x{ether_type:04x} ({name}), ");
                put!(self, "rsvd {first} {second}, ");
            }
            None => self.out.push_str("Marvell DSA "),
        }
        let (device, port) = (dsa.device(), dsa.port());
        match dsa.mode() {
            DsaMode::Forward => {
                let kind = if dsa.is_trunk_or_ingress() { "trunk" } else { "port" };
                put!(self, "mode Forward, dev {device}, {kind} {port}, ");
            }
            DsaMode::FromCpu => {
                put!(self, "mode From CPU, target dev {device}, port {port}, ");
            }
            DsaMode::ToCpu => {
                put!(self, "mode To CPU, source dev {device}, port {port}, ");
                put!(self, "code {}, ", dsa_code(dsa.code()));
            }
            DsaMode::ToSniffer => {
                let side = if dsa.is_trunk_or_ingress() { "ingress" } else { "egress" };
                put!(self, "mode To Sniffer, source dev {device}, port {port}, {side} sniff, ");
            }
        }
        self.out.push_str(if dsa.is_tagged() { "tagged, " } else { "untagged, " });
        self.out.push_str(if dsa.has_cfi() { "CFI, " } else { "" });
        put!(self, "VID {}, FPri {}, ", dsa.vlan_id(), dsa.priority());
    }

    /// What no layer explains behind one of these headers; the header again where `-e` did not
    /// show it. tcpdump shows the bytes of frame relay with `-q` too.
    pub(crate) fn unknown_seldom(&mut self, layer: Layer, here: &[u8]) {
        let is_shown = self.options.link_header;
        let length = self.bytes_from_layer(layer);
        match layer.kind {
            LayerKind::Fddi if !is_shown => self.fddi(here, length),
            // Of the attributes the fixed part alone counts.
            LayerKind::Nflog if !is_shown => {
                let behind = length.saturating_sub(layer.header_bytes.into());
                self.nflog(here, behind + Nflog::BYTES_MIN);
            }
            LayerKind::FrameRelay if !is_shown => self.frame_relay(here, length),
            _ => {}
        }
        let bytes = self.frame.bytes.get(layer.end()..).unwrap_or_default();
        let is_wanted = !self.options.quick || layer.kind == LayerKind::FrameRelay;
        if is_wanted && self.options.bytes.dump == HexDump::None {
            crate::hex::dump(self.out, bytes, HexDump::WithAscii);
        }
    }
}

/// Network layer protocol identifiers (ISO 9577).
fn nlpid_name(number: u8) -> &'static str {
    match number {
        0x00 => "NULL",
        0x08 => "Q.933",
        0x09 => "LMI",
        0x80 => "SNAP",
        0x81 => "CLNP",
        0x82 => "ES-IS",
        0x83 => "IS-IS",
        0x84 => "CONS",
        0x85 => "IDRP",
        0x8e => "IPv6",
        0xb1 => "FRF.15",
        0xc1 => "ISIS_SPB",
        0xcc => "IPv4",
        0xcf => "PPP",
        _ => "unknown",
    }
}

/// Address families of Linux.
fn family_name(number: u8) -> &'static str {
    match number {
        2 => "IPv4",
        10 => "IPv6",
        _ => "Unknown",
    }
}

/// Why a switch gave a frame to the CPU.
fn dsa_code(code: u8) -> &'static str {
    match code {
        0 => "BPDU (MGMT) Trap",
        1 => "Frame2Reg",
        2 => "IGMP/MLD Trap",
        3 => "Policy Trap",
        4 => "ARP Mirror",
        5 => "Policy Mirror",
        _ => "reserved",
    }
}
