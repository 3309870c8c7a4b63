//! GRE, ERSPAN, VXLAN, Geneve, GTP-U: a prefix, then the packet inside.

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
                    put!(self, "VXLAN, flags [I] (0x{flags:02x}), vni {}", vxlan.vni());
                }
            }
            LayerKind::Geneve => {
                if let Ok(geneve) = Geneve::new(here) {
                    let flags = match (geneve.is_control(), geneve.has_critical_options()) {
                        (false, false) => "none",
                        (true, false) => "O",
                        (false, true) => "C",
                        (true, true) => "OC",
                    };
                    put!(self, "Geneve, Flags [{flags}], vni 0x{:x}", geneve.vni());
                }
            }
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
            self.out.push_str(": ");
        }
    }

    fn is_unknown(&self) -> bool {
        matches!(self.layers.stop(), ringside_wire::Stop::Unknown { .. })
    }

    fn gre(&mut self, index: usize, here: &[u8]) {
        let Ok(gre) = Gre::new(here) else { return };
        put!(self, "GREv{}", gre.version());
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
        put!(self, ", length {}", self.bytes_from(index));
    }
}
