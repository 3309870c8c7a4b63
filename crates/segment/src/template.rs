//! A header stack, read and checked from bytes that anybody may have made.

use crate::TemplateError;
use crate::field::{self, Field};
use ringside_core::LinkType;
use ringside_wire::{Ipv4, Ipv6, Layer, LayerKind, Layers, Level, Stop, Udp, dissect};
use std::ops::Range;

/// Bytes of a header stack. VXLAN over IPv6 with tags, and options everywhere, takes about 250;
/// more is no stack that anybody sends, and a slot for it would cost a chunk of its own.
pub const HEADER_BYTES_MAX: usize = 512;

/// The headers of every frame of a stream: Ethernet, tags, MPLS labels, tunnels, IPv4 or IPv6, and
/// TCP or UDP. Lengths and checksums may be anything that does not contradict the headers, also 0;
/// sequence number, ids and flags are those of the first frame. A UDP checksum of 0 means that
/// there is none, over IPv4 and in tunnels.
#[derive(Clone, Debug)]
pub struct Template {
    pub(crate) header: Vec<u8>,
    pub(crate) fields: Vec<Field>,
    pub(crate) layers: Layers,
    pub(crate) network: Layer,
    pub(crate) transport: Layer,
    /// Where what counts against an MTU begins: behind Ethernet and its tags.
    pub(crate) link_bytes: usize,
    /// What forbids more than one frame.
    pub(crate) obstacle: Option<&'static str>,
}

impl Template {
    /// Reads `header`, which is nothing but headers and begins with Ethernet.
    ///
    /// # Errors
    /// Headers that are cut, contradict each other or cannot be repeated; bytes behind them.
    pub fn parse(header: &[u8]) -> Result<Template, TemplateError> {
        if header.len() > HEADER_BYTES_MAX {
            return Err(TemplateError::TooLong { bytes: header.len() });
        }
        let template = Template::new(header, dissect(header, LinkType::ETHERNET))?;
        match header.len() - template.transport.end() {
            0 => Ok(template),
            bytes => Err(TemplateError::Trailing { bytes }),
        }
    }

    /// The headers of a received frame, and where its payload is: for a link whose MTU is smaller.
    /// Padding of the link is left out. TCP may be cut into segments, UDP into fragments; to cut
    /// UDP into datagrams changes what was said, unless offloading joined them before.
    ///
    /// # Errors
    /// As [`parse`](Template::parse); bytes of the packet are missing.
    pub fn of_frame(frame: &[u8]) -> Result<(Template, Range<usize>), TemplateError> {
        let layers = dissect(frame, LinkType::ETHERNET);
        let template = Template::new(frame, layers)?;
        let end = payload_end(frame, layers.as_slice())?;
        Ok((template, layers.last().map_or(end, Layer::end)..end))
    }

    fn new(bytes: &[u8], layers: Layers) -> Result<Template, TemplateError> {
        // A UDP header may be the last although its port promises a tunnel: then there is none.
        let is_transport = |layer: &Layer| matches!(layer.kind, LayerKind::Tcp | LayerKind::Udp);
        let transport = layers.last().filter(is_transport);
        let (Some(transport), Some(network)) = (transport, layers.network(Level::Inner)) else {
            return Err(why(bytes, &layers));
        };
        let end = transport.end();
        if end > HEADER_BYTES_MAX {
            return Err(TemplateError::TooLong { bytes: end });
        }
        let header = bytes.get(..end).unwrap_or(bytes);
        let found = field::find(header, layers.as_slice())?;
        use LayerKind::{Ethernet, QinQ, Vlan};
        let behind_link = layers.iter().find(|layer| !matches!(layer.kind, Ethernet | QinQ | Vlan));
        Ok(Template {
            header: header.to_vec(),
            fields: found.fields,
            layers,
            network,
            transport,
            link_bytes: behind_link.map_or(end, Layer::start),
            obstacle: found.obstacle,
        })
    }

    /// The headers as they were given.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// The headers one by one.
    pub fn layers(&self) -> &Layers {
        &self.layers
    }

    /// True for TCP, false for UDP.
    pub fn is_tcp(&self) -> bool {
        self.transport.kind == LayerKind::Tcp
    }
}

/// Why a dissection did not end with TCP or UDP.
fn why(bytes: &[u8], layers: &Layers) -> TemplateError {
    let bytes = bytes.len();
    match (layers.stop(), layers.last()) {
        (Stop::Truncated(header), _) => TemplateError::Truncated { header, bytes },
        (Stop::Malformed(header), _) => TemplateError::Malformed { header },
        (Stop::LaterFragment, Some(layer)) => TemplateError::Fragment { header: layer.kind },
        (Stop::Complete, Some(layer)) => TemplateError::Unsupported { header: layer.kind },
        _ => TemplateError::NoTransport { bytes },
    }
}

/// Where the payload of a frame ends, after all lengths; that of every packet must be there.
fn payload_end(frame: &[u8], layers: &[Layer]) -> Result<usize, TemplateError> {
    let mut end = frame.len();
    for layer in layers {
        let here = frame.get(layer.start()..).unwrap_or(&[]);
        let length = match layer.kind {
            LayerKind::Ipv4 => Ipv4::new(here).ok().and_then(|ip| ip.payload_length()),
            LayerKind::Ipv6 => Ipv6::new(here).ok().and_then(|ip| ip.payload_length()),
            LayerKind::Udp => Udp::new(here).ok().and_then(|udp| udp.payload_length()),
            _ => None,
        };
        // A length of 0 is that of a packet that offloading made too long for the field.
        let Some(length) = length else { continue };
        let ends = layer.end() + length;
        if ends > end {
            return Err(TemplateError::Cut { header: layer.kind, missing: ends - end });
        }
        // Only a link pads.
        if layer.kind == LayerKind::Udp && ends < end {
            return Err(TemplateError::Malformed { header: layer.kind });
        }
        end = ends;
    }
    Ok(end)
}
