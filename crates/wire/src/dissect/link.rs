//! Link layers, tags, and what selects by EtherType.

use super::{Next, RAW_BSD, Step, Walk, unknown};
use crate::{
    Arp, Chdlc, Cmd, EtherType, Ethernet, Isl, LayerKind, Llc, Mpls, Null, Ppp, Pppoe, Radiotap,
    Sll, Snap, Stop, Vlan, VnTag, WireError,
};
use ringside_core::LinkType;

/// Organisation code of IEEE 802.1 for bridged frames (RFC 2684).
const BRIDGED: u32 = 0x0080c2;

impl Walk<'_> {
    pub(super) fn link(&mut self, link: LinkType) -> Step {
        match link {
            LinkType::ETHERNET => Ok(Next::Ethernet),
            LinkType::RAW => Ok(Next::Version),
            LinkType::IPV4 => Ok(Next::Type(EtherType::IPV4)),
            LinkType::IPV6 => Ok(Next::Type(EtherType::IPV6)),
            LinkType::PPP => Ok(Next::Ppp),
            LinkType::NULL => self.null(Null::new(self.rest())),
            LinkType::LOOP => self.null(Null::new_loop(self.rest())),
            LinkType::LINUX_SLL => self.sll(LayerKind::Sll, Sll::new(self.rest())),
            LinkType::LINUX_SLL2 => self.sll(LayerKind::Sll2, Sll::new_v2(self.rest())),
            LinkType::C_HDLC => {
                let hdlc = Chdlc::new(self.rest()).map_err(|e| self.stop(e))?;
                self.push(LayerKind::Chdlc, Chdlc::BYTES)?;
                match hdlc.ether_type() {
                    // SLARP has the number of RARP, and is something else.
                    EtherType::RARP => unknown(EtherType::RARP.0),
                    ether_type => Ok(Next::Type(ether_type)),
                }
            }
            LinkType::IEEE802_11 => self.wlan(false),
            LinkType::IEEE802_11_RADIOTAP => {
                let radiotap = Radiotap::new(self.rest()).map_err(|e| self.stop(e))?;
                self.push(LayerKind::Radiotap, radiotap.header_bytes())?;
                self.wlan(radiotap.has_padding())
            }
            LinkType::FRELAY => self.frame_relay(),
            LinkType::NFLOG => self.nflog(),
            LinkType::FDDI => self.fddi(),
            LinkType::DSA_TAG_DSA => self.dsa(false),
            LinkType::DSA_TAG_EDSA => self.dsa(true),
            other if RAW_BSD.contains(&other) => Ok(Next::Version),
            _ => Err(Stop::UnknownLink),
        }
    }

    fn null(&mut self, view: Result<Null<'_>, WireError>) -> Step {
        let null = view.map_err(|e| self.stop(e))?;
        self.push(LayerKind::Null, Null::BYTES)?;
        match null.ether_type() {
            Some(ether_type) => Ok(Next::Type(ether_type)),
            None => unknown(u16::try_from(null.family()).unwrap_or(u16::MAX)),
        }
    }

    fn sll(&mut self, kind: LayerKind, view: Result<Sll<'_>, WireError>) -> Step {
        let sll = view.map_err(|e| self.stop(e))?;
        self.push(kind, sll.header_bytes())?;
        match sll.protocol() {
            Sll::LLC => Ok(Next::Llc),
            protocol => Ok(Next::Type(EtherType(protocol))),
        }
    }

    #[inline]
    pub(super) fn ethernet(&mut self) -> Step {
        let rest = self.rest();
        if Isl::is_isl(rest) {
            let isl = Isl::new(rest).map_err(|e| self.stop(e))?;
            self.push(LayerKind::Isl, Isl::BYTES)?;
            let kind = isl.frame_type();
            return if kind == 0 { Ok(Next::Ethernet) } else { unknown(u16::from(kind)) };
        }
        let ethernet = Ethernet::new(rest).map_err(|e| self.stop(e))?;
        self.push(LayerKind::Ethernet, Ethernet::BYTES)?;
        Ok(Next::TypeOrLength(ethernet.type_or_length()))
    }

    #[inline]
    pub(super) fn type_or_length(&mut self, value: u16) -> Step {
        if value > Ethernet::LENGTH_MAX {
            return self.ether_type(EtherType(value));
        }
        self.limit(usize::from(value));
        Ok(Next::Llc)
    }

    #[inline]
    pub(super) fn ether_type(&mut self, ether_type: EtherType) -> Step {
        match ether_type {
            EtherType::IPV4 => self.ipv4(),
            EtherType::IPV6 => self.ipv6(),
            EtherType::ARP | EtherType::RARP => self.arp(),
            EtherType::VLAN => self.vlan(LayerKind::Vlan),
            EtherType::QINQ | EtherType::QINQ_OLD => self.vlan(LayerKind::QinQ),
            EtherType::MPLS | EtherType::MPLS_UPSTREAM => Ok(Next::Mpls),
            EtherType::PPPOE_SESSION | EtherType::PPPOE_DISCOVERY => self.pppoe(),
            EtherType::VN_TAG => {
                let tag = VnTag::new(self.rest()).map_err(|e| self.stop(e))?;
                self.push(LayerKind::VnTag, VnTag::BYTES)?;
                Ok(Next::TypeOrLength(tag.ether_type().0))
            }
            EtherType::CMD => self.cmd(Cmd::new(self.rest())),
            EtherType::TEB => Ok(Next::Ethernet),
            other => unknown(other.0),
        }
    }

    fn vlan(&mut self, kind: LayerKind) -> Step {
        let vlan = Vlan::new(self.rest()).map_err(|e| self.stop(e))?;
        self.push(kind, Vlan::BYTES)?;
        Ok(Next::TypeOrLength(vlan.type_or_length()))
    }

    pub(super) fn cmd(&mut self, view: Result<Cmd<'_>, WireError>) -> Step {
        let cmd = view.map_err(|e| self.stop(e))?;
        self.push(LayerKind::Cmd, cmd.header_bytes())?;
        Ok(Next::TypeOrLength(cmd.ether_type().0))
    }

    fn arp(&mut self) -> Step {
        let arp = Arp::new(self.rest()).map_err(|e| self.stop(e))?;
        self.push(LayerKind::Arp, arp.header_bytes())?;
        Err(Stop::Complete)
    }

    pub(super) fn llc(&mut self) -> Step {
        let llc = Llc::new(self.rest()).map_err(|e| self.stop(e))?;
        self.push(LayerKind::Llc, llc.header_bytes())?;
        if llc.destination() == Llc::IPV4 && llc.source() == Llc::IPV4 && llc.control() == 3 {
            return Ok(Next::Type(EtherType::IPV4));
        }
        if !llc.is_snap() {
            return unknown(u16::from(llc.destination()));
        }
        self.snap()
    }

    pub(super) fn snap(&mut self) -> Step {
        let snap = Snap::new(self.rest()).map_err(|e| self.stop(e))?;
        self.push(LayerKind::Snap, Snap::BYTES)?;
        match (snap.ether_type(), snap.organisation(), snap.protocol()) {
            (Some(ether_type), _, _) => Ok(Next::Type(ether_type)),
            // With and without the check sequence of the bridged frame.
            (None, BRIDGED, 1 | 7) => Ok(Next::Ethernet),
            (None, _, protocol) => unknown(protocol),
        }
    }

    fn pppoe(&mut self) -> Step {
        let pppoe = Pppoe::new(self.rest()).map_err(|e| self.stop(e))?;
        self.push(LayerKind::Pppoe, Pppoe::BYTES)?;
        self.limit(usize::from(pppoe.length()));
        if pppoe.code() == 0 { Ok(Next::Ppp) } else { Err(Stop::Complete) }
    }

    pub(super) fn ppp(&mut self) -> Step {
        let ppp = Ppp::new(self.rest()).map_err(|e| self.stop(e))?;
        self.push(LayerKind::Ppp, ppp.header_bytes())?;
        match ppp.protocol() {
            Ppp::IPV4 => Ok(Next::Type(EtherType::IPV4)),
            Ppp::IPV6 => Ok(Next::Type(EtherType::IPV6)),
            Ppp::MPLS | Ppp::MPLS_UPSTREAM => Ok(Next::Mpls),
            other => unknown(other),
        }
    }

    /// Nothing in a label says what it carries. As every tool does: 4 and 6 are versions of IP,
    /// and 0 is the control word of a pseudowire (RFC 4385), taken to be an Ethernet one.
    pub(super) fn mpls(&mut self) -> Step {
        let mpls = Mpls::new(self.rest()).map_err(|e| self.stop(e))?;
        self.push(LayerKind::Mpls, mpls.header_bytes())?;
        match mpls.payload() {
            [first, ..] if first >> 4 != 0 => Ok(Next::Version),
            [_, _, _, _, ..] if self.rest().len() >= 4 => {
                self.push(LayerKind::ControlWord, 4)?;
                Ok(Next::Ethernet)
            }
            _ if self.is_cut => Err(Stop::Truncated(LayerKind::ControlWord)),
            _ => Err(Stop::Malformed(LayerKind::ControlWord)),
        }
    }
}
