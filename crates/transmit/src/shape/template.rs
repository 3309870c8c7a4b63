//! What generated frames begin with: a header stack and, behind it, the first bytes of a payload.

use crate::{Error, TemplateFix};
use ringside_core::LinkType;
use ringside_wire::build::{self, Ipv4Fields, Ipv6Fields, TcpFields};
use ringside_wire::checksum::Addresses;
use ringside_wire::{
    EtherType, Fragment, IpProtocol, LayerKind, Level, MacAddr, Port, Stop, dissect,
};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Longest frame that is taken for a template.
const TEMPLATE_BYTES_MAX: usize = crate::FRAME_BYTES_MAX as usize;

/// Locally administered addresses, which no card has.
const SOURCE_MAC: MacAddr = MacAddr([0x02, 0x52, 0x53, 0, 0, 0xfe]);
const DESTINATION_MAC: MacAddr = MacAddr([0x02, 0x52, 0x53, 0, 0, 0xff]);
/// The benchmarking networks of RFC 2544 and RFC 5180, and a private one for the sources.
const SOURCE_V4: Ipv4Addr = Ipv4Addr::new(10, 16, 0, 0);
const DESTINATION_V4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const SOURCE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0);
const DESTINATION_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 1);
const SOURCE_PORT: Port = Port(1024);
/// Discard.
const DESTINATION_PORT: Port = Port(9);

/// A header stack of our own making.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// With a VLAN tag.
    pub vlan: bool,
    /// IPv6 instead of IPv4.
    pub ipv6: bool,
    /// TCP instead of UDP.
    pub tcp: bool,
    /// UDP over IPv4 with a checksum too; the others always have one.
    pub checksum: bool,
}

/// Where in a frame something is; `None` where it has no such field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    /// End of the headers.
    pub payload: usize,
    /// Tag control information of the outermost VLAN tag.
    pub vlan: Option<usize>,
    pub ipv4: Option<usize>,
    pub ipv6: Option<usize>,
    /// TCP or UDP, if it begins in this frame and nothing but payload follows.
    pub transport: Option<usize>,
    pub is_udp: bool,
    /// The transport has a checksum.
    pub checksum: Option<usize>,
    /// Lengths and checksums can be made anew, so that frames may have any size.
    pub is_elastic: bool,
}

/// A frame that generated frames are like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pub(super) frame: Vec<u8>,
    pub(super) places: Places,
}

impl Template {
    /// A header stack without payload.
    pub fn of(stack: Stack) -> Template {
        let mut frame = vec![0; 128];
        let bytes = write(stack, &mut frame).unwrap_or(0);
        frame.truncate(bytes);
        let mut places = places(&frame);
        if !stack.tcp && !stack.ipv6 && !stack.checksum {
            let at = places.checksum.take();
            at.into_iter().for_each(|at| frame[at..at + 2].fill(0));
        }
        Template { frame, places }
    }

    /// A frame that was captured, as on the wire.
    ///
    /// # Errors
    /// No Ethernet header, one that contradicts itself or ends within a header, or a frame of more
    /// than 65,535 bytes.
    pub fn captured(frame: Vec<u8>) -> Result<Template, Error> {
        let refused = |reason: String| Err(Error::Template { reason, fix: TemplateFix::None });
        if frame.len() > TEMPLATE_BYTES_MAX {
            return refused(format!("it has {} bytes, at most 65,535 can be sent", frame.len()));
        }
        match dissect(&frame, LinkType::ETHERNET).stop() {
            Stop::Truncated(header) => {
                refused(format!("it ends within its {} header", header.name()))
            }
            Stop::Malformed(header) => {
                refused(format!("its {} header contradicts itself", header.name()))
            }
            _ => Ok(Template { places: places(&frame), frame }),
        }
    }

    /// Bytes of its headers.
    pub fn header_bytes(&self) -> usize {
        self.places.payload
    }

    /// The frame itself.
    pub fn frame(&self) -> &[u8] {
        &self.frame
    }

    pub(super) fn set_destination(&mut self, destination: [u8; 6]) {
        if let Some(field) = self.frame.first_chunk_mut() {
            *field = destination;
        }
    }

    /// True if frames of any size can be made of it: IP alone or with TCP or UDP, no tunnel and no
    /// fragment. Others keep their own size.
    pub fn is_elastic(&self) -> bool {
        self.places.is_elastic
    }

    /// True if frames can bear a number: they have a payload of TCP or UDP.
    pub fn can_be_numbered(&self) -> bool {
        self.places.is_elastic && self.places.transport.is_some()
    }
}

fn write(stack: Stack, out: &mut [u8]) -> Result<usize, ringside_wire::WireError> {
    let ip_type = if stack.ipv6 { EtherType::IPV6 } else { EtherType::IPV4 };
    let first_type = if stack.vlan { EtherType::VLAN } else { ip_type };
    let mut at = build::ethernet(out, DESTINATION_MAC, SOURCE_MAC, first_type)?;
    if stack.vlan {
        at += build::vlan(&mut out[at..], 0, ip_type)?;
    }
    let transport_bytes = if stack.tcp { 20 } else { 8 };
    let protocol = if stack.tcp { IpProtocol::TCP } else { IpProtocol::UDP };
    let addresses = if stack.ipv6 {
        let (source, destination) = (SOURCE_V6, DESTINATION_V6);
        let fields = Ipv6Fields {
            source,
            destination,
            next_header: protocol,
            flow_label: 0,
            hop_limit: 64,
            payload_bytes: transport_bytes,
        };
        at += build::ipv6(&mut out[at..], &fields)?;
        Addresses::V6 { source, destination }
    } else {
        let (source, destination) = (SOURCE_V4, DESTINATION_V4);
        let fields = Ipv4Fields {
            source,
            destination,
            protocol,
            id: 0,
            ttl: 64,
            dont_fragment: true,
            payload_bytes: transport_bytes,
        };
        at += build::ipv4(&mut out[at..], &fields)?;
        Addresses::V4 { source, destination }
    };
    let segment = &mut out[at..at + transport_bytes];
    let (source, destination) = (SOURCE_PORT, DESTINATION_PORT);
    at += if stack.tcp {
        let (sequence, acknowledgment, flags, window) = (1, 1, 0x10, 65_535);
        let fields = TcpFields { source, destination, sequence, acknowledgment, flags, window };
        build::tcp(segment, addresses, &fields)?
    } else {
        build::udp(segment, addresses, source, destination)?
    };
    Ok(at)
}

fn places(frame: &[u8]) -> Places {
    let layers = dissect(frame, LinkType::ETHERNET);
    let network = layers.network(Level::Outer);
    let at = |kind| network.filter(|layer| layer.kind == kind).map(|layer| layer.start());
    let (ipv4, ipv6) = (at(LayerKind::Ipv4), at(LayerKind::Ipv6));
    let tag = layers.iter().find(|layer| matches!(layer.kind, LayerKind::Vlan | LayerKind::QinQ));
    let is_plain = !layers.is_tunnelled() && layers.fragment(Level::Outer) == Fragment::No;
    let transport = layers
        .transport(Level::Outer)
        .filter(|layer| is_plain && matches!(layer.kind, LayerKind::Tcp | LayerKind::Udp));
    let is_udp = transport.is_some_and(|layer| layer.kind == LayerKind::Udp);
    let checksum = transport.map(|layer| layer.start() + if is_udp { 6 } else { 16 });
    let has_checksum = |at: &usize| !is_udp || frame.get(*at..at + 2) != Some(&[0, 0]);
    Places {
        payload: transport.map_or(layers.payload_offset(), |layer| layer.end()),
        vlan: tag.map(|layer| layer.start()),
        ipv4,
        ipv6,
        transport: transport.map(|layer| layer.start()),
        is_udp,
        checksum: checksum.filter(has_checksum),
        is_elastic: is_plain && (ipv4.is_some() || ipv6.is_some()),
    }
}
