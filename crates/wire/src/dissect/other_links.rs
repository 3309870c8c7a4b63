//! Link layers that are seldom met: radio, frame relay, FDDI, tags of switches, logs of the kernel.

use super::{Next, Step, Walk, unknown};
use crate::{Dsa, Fddi, FrameRelay, Ieee80211, LayerKind, Nflog, RelayProtocol, Stop, WlanKind};

impl Walk<'_> {
    /// Of what is no data, or is encrypted, the rest is payload.
    pub(super) fn wlan(&mut self, is_padded: bool) -> Step {
        let wlan = Ieee80211::new(self.rest(), is_padded).map_err(|e| self.stop(e))?;
        self.push(LayerKind::Ieee80211, wlan.header_bytes())?;
        match wlan.kind() {
            _ if !wlan.is_known() => unknown(u16::from(wlan.subtype())),
            WlanKind::Data if !wlan.has_data() || wlan.is_protected() => Err(Stop::Complete),
            // It has no header of its own.
            WlanKind::Data if wlan.fragment() > 0 => Err(Stop::LaterFragment),
            // The first of several frames.
            WlanKind::Data if wlan.is_aggregate() => Ok(Next::Ethernet),
            WlanKind::Data => Ok(Next::Llc),
            _ => Err(Stop::Complete),
        }
    }

    pub(super) fn frame_relay(&mut self) -> Step {
        let relay = FrameRelay::new(self.rest()).map_err(|e| self.stop(e))?;
        self.push(LayerKind::FrameRelay, relay.header_bytes())?;
        match relay.protocol() {
            RelayProtocol::Type(ether_type) => Ok(Next::Type(ether_type)),
            RelayProtocol::Nlpid(FrameRelay::IPV4) => self.ipv4(),
            RelayProtocol::Nlpid(FrameRelay::IPV6) => self.ipv6(),
            RelayProtocol::Nlpid(FrameRelay::SNAP) => self.snap(),
            RelayProtocol::Nlpid(FrameRelay::PPP) => Ok(Next::Ppp),
            RelayProtocol::Nlpid(other) => unknown(u16::from(other)),
        }
    }

    pub(super) fn nflog(&mut self) -> Step {
        let nflog = Nflog::new(self.rest()).map_err(|e| self.stop(e))?;
        self.push(LayerKind::Nflog, nflog.header_bytes())?;
        self.limit(nflog.payload_length());
        match nflog.ether_type() {
            Some(ether_type) => Ok(Next::Type(ether_type)),
            None => unknown(u16::from(nflog.family())),
        }
    }

    pub(super) fn fddi(&mut self) -> Step {
        let fddi = Fddi::new(self.rest()).map_err(|e| self.stop(e))?;
        self.push(LayerKind::Fddi, Fddi::BYTES)?;
        if fddi.is_llc() { Ok(Next::Llc) } else { unknown(u16::from(fddi.control())) }
    }

    pub(super) fn dsa(&mut self, is_extended: bool) -> Step {
        let dsa = Dsa::new(self.rest(), is_extended).map_err(|e| self.stop(e))?;
        self.push(LayerKind::Dsa, dsa.header_bytes())?;
        Ok(Next::TypeOrLength(dsa.type_or_length()))
    }
}
