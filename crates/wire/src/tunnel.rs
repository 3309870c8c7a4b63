//! Identifiers of tunnels.

use crate::{Erspan, Geneve, Gre, GtpU, Layer, LayerKind, Layers, Level, Vxlan};

/// Which tunnel a packet is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TunnelId {
    /// Network identifier of VXLAN, 24 bits.
    Vxlan(u32),
    /// Network identifier of Geneve, 24 bits.
    Geneve(u32),
    /// Endpoint identifier of GTP-U. It belongs to the receiver: the two directions differ.
    GtpU(u32),
    /// Key of GRE; for PPTP the call id, which belongs to the receiver.
    Gre(u32),
    /// Virtual subnet of NVGRE, 24 bits.
    Nvgre(u32),
    /// Session of ERSPAN, 10 bits.
    Erspan(u16),
}

impl TunnelId {
    /// The number alone.
    pub fn number(self) -> u32 {
        match self {
            TunnelId::Vxlan(id) | TunnelId::Geneve(id) | TunnelId::GtpU(id) => id,
            TunnelId::Gre(id) | TunnelId::Nvgre(id) => id,
            TunnelId::Erspan(id) => u32::from(id),
        }
    }

    /// Short name of the kind, as it stands in JSON output.
    pub fn name(self) -> &'static str {
        match self {
            TunnelId::Vxlan(_) => "vxlan",
            TunnelId::Geneve(_) => "geneve",
            TunnelId::GtpU(_) => "gtp_u",
            TunnelId::Gre(_) => "gre",
            TunnelId::Nvgre(_) => "nvgre",
            TunnelId::Erspan(_) => "erspan",
        }
    }

    /// The identifier in one header of a frame, if that header has one. NVGRE differs from a
    /// GRE key by what it carries: bridged Ethernet.
    pub fn of_layer(bytes: &[u8], layer: Layer) -> Option<TunnelId> {
        let here = bytes.get(layer.start()..)?;
        match layer.kind {
            LayerKind::Vxlan => Vxlan::new(here).ok().map(|v| TunnelId::Vxlan(v.vni())),
            LayerKind::Geneve => Geneve::new(here).ok().map(|g| TunnelId::Geneve(g.vni())),
            LayerKind::GtpU => GtpU::new(here).ok().map(|g| TunnelId::GtpU(g.teid())),
            LayerKind::Erspan => Erspan::new(here).ok().map(|e| TunnelId::Erspan(e.session())),
            LayerKind::Gre => {
                let gre = Gre::new(here).ok()?;
                if let Some(call) = gre.call_id() {
                    return Some(TunnelId::Gre(u32::from(call)));
                }
                gre.virtual_subnet().map(TunnelId::Nvgre).or(gre.key().map(TunnelId::Gre))
            }
            _ => None,
        }
    }

    /// The innermost identifier of a frame, if it has one.
    pub fn innermost(bytes: &[u8], layers: &Layers) -> Option<TunnelId> {
        layers.iter().rev().find_map(|layer| TunnelId::of_layer(bytes, layer))
    }

    /// The tunnel that carries the network header of a level: between it and the one before.
    pub fn around(bytes: &[u8], layers: &Layers, level: Level) -> Option<TunnelId> {
        layers.before_network(level).find_map(|layer| TunnelId::of_layer(bytes, layer))
    }
}
