//! IPv4, IPv6 and its extension headers, and what selects by IP protocol.

use super::{Next, Step, Walk, unknown};
use crate::{Fragment, IpProtocol, Ipv4, Ipv6, Ipv6Extension, Ipv6Fragment, LayerKind, Stop};

impl Walk<'_> {
    #[inline]
    pub(super) fn ipv4(&mut self) -> Step {
        let ip = Ipv4::new(self.rest()).map_err(|e| self.stop(e))?;
        self.push(LayerKind::Ipv4, ip.header_bytes())?;
        if let Some(length) = ip.payload_length() {
            self.limit(length);
        }
        let fragment = ip.fragment();
        if fragment != Fragment::No {
            self.layers.set_fragment(fragment);
            if fragment == Fragment::Later {
                return Err(Stop::LaterFragment);
            }
        }
        self.ip_protocol(ip.protocol())
    }

    #[inline]
    pub(super) fn ipv6(&mut self) -> Step {
        let ip = Ipv6::new(self.rest()).map_err(|e| self.stop(e))?;
        self.push(LayerKind::Ipv6, Ipv6::BYTES)?;
        if let Some(length) = ip.payload_length() {
            self.limit(length);
        }
        self.ip_protocol(ip.next_header())
    }

    #[inline]
    pub(super) fn ip_protocol(&mut self, protocol: IpProtocol) -> Step {
        match protocol {
            IpProtocol::TCP => self.tcp(),
            IpProtocol::UDP => self.udp(),
            IpProtocol::SCTP => self.sctp(),
            IpProtocol::ICMP => self.icmp(),
            IpProtocol::ICMPV6 => self.icmpv6(),
            IpProtocol::IGMP => self.igmp(),
            IpProtocol::GRE => self.gre(),
            IpProtocol::IPV4 => self.ipv4(),
            IpProtocol::IPV6 => self.ipv6(),
            IpProtocol::MPLS => Ok(Next::Mpls),
            IpProtocol::AUTH => self.extension(LayerKind::Auth),
            other if self.is_in_ipv6() => self.ipv6_header(other),
            other => unknown(u16::from(other.0)),
        }
    }

    /// Extension headers mean something only after IPv6.
    fn is_in_ipv6(&self) -> bool {
        use LayerKind::{Auth, DestinationOptions, Fragment, HopByHop, Ipv6, Routing};
        let mut kinds = self.layers.iter().rev().map(|layer| layer.kind);
        let last = kinds.find(|kind| {
            !matches!(kind, HopByHop | Routing | Fragment | DestinationOptions | Auth)
        });
        last == Some(Ipv6)
    }

    fn ipv6_header(&mut self, protocol: IpProtocol) -> Step {
        match protocol {
            IpProtocol::HOP_BY_HOP => self.extension(LayerKind::HopByHop),
            IpProtocol::ROUTING => self.extension(LayerKind::Routing),
            IpProtocol::DESTINATION_OPTIONS => self.extension(LayerKind::DestinationOptions),
            IpProtocol::FRAGMENT => {
                let view = Ipv6Fragment::new(self.rest()).map_err(|e| self.stop(e))?;
                self.push(LayerKind::Fragment, Ipv6Fragment::BYTES)?;
                let fragment = view.fragment();
                if fragment != Fragment::No {
                    self.layers.set_fragment(fragment);
                    if fragment == Fragment::Later {
                        return Err(Stop::LaterFragment);
                    }
                }
                Ok(Next::Ip(view.next_header()))
            }
            IpProtocol::NO_NEXT => Err(Stop::Complete),
            other => unknown(u16::from(other.0)),
        }
    }

    fn extension(&mut self, kind: LayerKind) -> Step {
        let extension = Ipv6Extension::new(self.rest(), kind).map_err(|e| self.stop(e))?;
        self.push(kind, extension.header_bytes())?;
        Ok(Next::Ip(extension.next_header()))
    }
}
