//! GRE, ERSPAN, VXLAN, Geneve, GTP-U: a prefix, then the packet inside.

use super::application::names::flags;
use super::cursor::Cursor;
use super::{Line, put};
use ringside_wire::{Erspan, Geneve, Gre, GtpU, LayerKind, Vxlan};
use std::fmt::Write;

impl Line<'_> {
    pub(super) fn tunnel(&mut self, index: usize, kind: LayerKind, here: &[u8]) {
        match kind {
            LayerKind::Gre => self.gre(index, here),
            LayerKind::Erspan => {
                if let Ok(erspan) = Erspan::new(here) {
                    let kind = erspan.version() + 1;
                    put!(self, "ERSPAN type {kind}, session {}", erspan.session());
                }
            }
            LayerKind::Vxlan => {
                if let Ok(vxlan) = Vxlan::new(here) {
                    let flags = vxlan.flags() >> 8;
                    put!(self, "VXLAN, flags [I] (0x{flags:02x}), vni {}\n", vxlan.vni());
                }
                return;
            }
            LayerKind::Geneve => self.geneve(here),
            _ => {
                if let Ok(gtp) = GtpU::new(here) {
                    put!(self, "GTP-U, teid 0x{:x}", gtp.teid());
                    if gtp.message_type() != GtpU::USER_DATA {
                        put!(self, ", type {}, length {}", gtp.message_type(), gtp.length());
                    }
                }
            }
        }
        if self.after(index).is_some() || self.is_unknown() {
            self.out.push_str(if self.options.verbosity > 0 { "\n\t" } else { ": " });
        }
    }

    fn geneve(&mut self, here: &[u8]) {
        let Ok(geneve) = Geneve::new(here) else { return };
        let flags = match (geneve.is_control(), geneve.has_critical_options()) {
            (false, false) => "none",
            (true, false) => "O",
            (false, true) => "C",
            (true, true) => "OC",
        };
        put!(self, "Geneve, Flags [{flags}], vni 0x{:x}", geneve.vni());
        let options = here.get(8..geneve.header_bytes()).unwrap_or_default();
        if options.is_empty() {
            return;
        }
        if self.options.verbosity == 0 {
            put!(self, ", options [{} bytes]", options.len());
            return;
        }
        self.out.push_str(", options [");
        let mut cursor = Cursor::new(options);
        let mut comma = "";
        while let (Ok(class), Ok(kind), Ok(length)) = (cursor.u16(), cursor.u8(), cursor.u8()) {
            let name = match class {
                0..0x100 => "Standard",
                0x100 => "Linux",
                0x101 => "Open vSwitch",
                0x102 => "Open Virtual Networking (OVN)",
                0x103 => "In-band Network Telemetry (INT)",
                0x104 => "VMware",
                0xff00.. => "Experimental",
                _ => "Unassigned",
            };
            let critical = if kind & 0x80 != 0 { "(C)" } else { "" };
            let bytes = 4 * usize::from(length & 0x1f);
            put!(
                self,
                "{comma}class {name} (0x{class:x}) type 0x{kind:x}{critical} len {}",
                bytes + 4
            );
            if cursor.take(bytes).is_err() {
                self.out.push_str(" [bad length]");
                break;
            }
            comma = ", ";
        }
        self.out.push(']');
    }

    fn is_unknown(&self) -> bool {
        matches!(self.layers.stop(), ringside_wire::Stop::Unknown { .. })
    }

    fn gre(&mut self, index: usize, here: &[u8]) {
        let Ok(gre) = Gre::new(here) else { return };
        put!(self, "GREv{}", gre.version());
        if self.options.verbosity > 0 {
            self.out.push_str(", Flags [");
            let names = [
                (0x8000, "checksum present"),
                (0x4000, "routing present"),
                (0x2000, "key present"),
                (0x1000, "sequence# present"),
                (0x0800, "source routing present"),
                (0x0080, "ack present"),
            ];
            flags(self.out, gre.flags().into(), &names);
            self.out.push(']');
        }
        if let Some(sum) = gre.checksum() {
            if self.options.verbosity > 0 {
                put!(self, ", sum 0x{sum:x}");
            }
            let offset = here.get(6..).and_then(|rest| rest.first_chunk());
            put!(self, ", off 0x{:x}", offset.map_or(0, |offset| u16::from_be_bytes(*offset)));
        }
        match (gre.call_id(), gre.key()) {
            (Some(call), _) => {
                put!(self, ", call {call}");
            }
            (None, Some(key)) => {
                put!(self, ", key=0x{key:x}");
            }
            (None, None) => {}
        }
        if let Some(sequence) = gre.sequence() {
            put!(self, ", seq {sequence}");
        }
        if let Some(acknowledgment) = gre.acknowledgment() {
            put!(self, ", ack {acknowledgment}");
        }
        if gre.version() == 1 && !gre.has_sequence() {
            self.out.push_str(", no-payload");
        }
        put!(self, ", length {}", self.bytes_from(index));
    }
}
