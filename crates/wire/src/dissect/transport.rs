//! Transport headers, and the tunnels over GRE and UDP.

use super::{Next, Step, Walk, unknown};
use crate::{
    Cmd, Erspan, EtherType, Geneve, Gre, GtpU, Icmp, Icmpv6, Igmp, LayerKind, Port, Sctp, Stop,
    Tcp, Udp, Vxlan,
};

impl Walk<'_> {
    #[inline]
    pub(super) fn tcp(&mut self) -> Step {
        let tcp = Tcp::new(self.rest()).map_err(|e| self.stop(e))?;
        self.push(LayerKind::Tcp, tcp.header_bytes())?;
        Err(Stop::Complete)
    }

    #[inline]
    pub(super) fn udp(&mut self) -> Step {
        let udp = Udp::new(self.rest()).map_err(|e| self.stop(e))?;
        self.push(LayerKind::Udp, Udp::BYTES)?;
        if let Some(length) = udp.payload_length() {
            self.limit(length);
        }
        self.layers.set_datagram_end(self.end);
        match (udp.source(), udp.destination()) {
            // The source port of these is a hash of the flow inside: only the destination counts.
            (_, Port::VXLAN | Port::VXLAN_LINUX) => Ok(Next::Vxlan),
            (_, Port::GENEVE) => Ok(Next::Geneve),
            (_, Port::MPLS) => Ok(Next::Mpls),
            // Replies of the control plane go back to the port that asked.
            (Port::GTP_U, _) | (_, Port::GTP_U) => Ok(Next::GtpU),
            _ => Err(Stop::Complete),
        }
    }

    pub(super) fn sctp(&mut self) -> Step {
        Sctp::new(self.rest()).map_err(|e| self.stop(e))?;
        self.push(LayerKind::Sctp, Sctp::BYTES)?;
        Err(Stop::Complete)
    }

    pub(super) fn icmp(&mut self) -> Step {
        Icmp::new(self.rest()).map_err(|e| self.stop(e))?;
        self.push(LayerKind::Icmp, Icmp::BYTES)?;
        Err(Stop::Complete)
    }

    pub(super) fn icmpv6(&mut self) -> Step {
        Icmpv6::new(self.rest()).map_err(|e| self.stop(e))?;
        self.push(LayerKind::Icmpv6, Icmpv6::BYTES)?;
        Err(Stop::Complete)
    }

    pub(super) fn igmp(&mut self) -> Step {
        Igmp::new(self.rest()).map_err(|e| self.stop(e))?;
        self.push(LayerKind::Igmp, Igmp::BYTES)?;
        Err(Stop::Complete)
    }

    pub(super) fn gre(&mut self) -> Step {
        let gre = Gre::new(self.rest()).map_err(|e| self.stop(e))?;
        self.push(LayerKind::Gre, gre.header_bytes())?;
        match gre.protocol() {
            // Type I of ERSPAN has no header, and GRE then no sequence number.
            EtherType::ERSPAN if !gre.has_sequence() => Ok(Next::Ethernet),
            EtherType::ERSPAN | EtherType::ERSPAN_III => Ok(Next::Erspan),
            EtherType::CMD => self.cmd(Cmd::new_in_gre(self.rest())),
            // Without a sequence number version 1 only acknowledges.
            EtherType::PPP if gre.version() == 1 && !gre.has_sequence() => Err(Stop::Complete),
            EtherType::PPP => Ok(Next::Ppp),
            other => Ok(Next::Type(other)),
        }
    }

    pub(super) fn erspan(&mut self) -> Step {
        let erspan = Erspan::new(self.rest()).map_err(|e| self.stop(e))?;
        self.push(LayerKind::Erspan, erspan.header_bytes())?;
        match erspan.frame_type() {
            0 => Ok(Next::Ethernet),
            2 => Ok(Next::Version),
            other => unknown(u16::from(other)),
        }
    }

    pub(super) fn vxlan(&mut self) -> Step {
        Vxlan::new(self.rest()).map_err(|e| self.stop(e))?;
        self.push(LayerKind::Vxlan, Vxlan::BYTES)?;
        Ok(Next::Ethernet)
    }

    pub(super) fn geneve(&mut self) -> Step {
        let geneve = Geneve::new(self.rest()).map_err(|e| self.stop(e))?;
        self.push(LayerKind::Geneve, geneve.header_bytes())?;
        Ok(Next::Type(geneve.protocol()))
    }

    pub(super) fn gtp_u(&mut self) -> Step {
        let gtp = GtpU::new(self.rest()).map_err(|e| self.stop(e))?;
        self.push(LayerKind::GtpU, gtp.header_bytes())?;
        self.limit(gtp.payload_length());
        if gtp.message_type() != GtpU::USER_DATA || gtp.payload_length() == 0 {
            return Err(Stop::Complete);
        }
        Ok(Next::Version)
    }
}
