//! One pass over a frame: which headers it has, and where. Nothing is allocated or copied.
//!
//! Each step reads one header through its view, records it, and says what comes next. A step
//! records one layer or leads to one that does, and layers are bounded, so the loop ends.

mod link;
mod network;
mod other_links;
mod transport;

use crate::{EtherType, IpProtocol, Layer, LayerKind, Layers, Stop, WireError};
use ringside_core::LinkType;

/// BSD's values of LINKTYPE_RAW, which some programs put into files.
const RAW_BSD: [LinkType; 2] = [LinkType(12), LinkType(14)];

/// Finds the headers of a frame that begins as `link` says. Reads nothing beyond `bytes`; for a
/// frame that was cut, the result is what the whole frame's begins with.
pub fn dissect(bytes: &[u8], link: LinkType) -> Layers {
    let end = bytes.len().min(u32::MAX as usize);
    let mut walk = Walk { bytes, at: 0, end, is_cut: true, layers: Layers::empty() };
    let mut step = walk.link(link);
    loop {
        step = match step {
            Ok(Next::Ethernet) => walk.ethernet(),
            Ok(Next::Type(ether_type)) => walk.ether_type(ether_type),
            Ok(Next::TypeOrLength(value)) => walk.type_or_length(value),
            Ok(Next::Ip(protocol)) => walk.ip_protocol(protocol),
            Ok(Next::Version) => walk.version(),
            Ok(Next::Ppp) => walk.ppp(),
            Ok(Next::Llc) => walk.llc(),
            Ok(Next::Mpls) => walk.mpls(),
            Ok(Next::Erspan) => walk.erspan(),
            Ok(Next::Vxlan) => walk.vxlan(),
            Ok(Next::Geneve) => walk.geneve(),
            Ok(Next::GtpU) => walk.gtp_u(),
            Err(stop) => {
                walk.layers.finish(stop, walk.at, walk.end);
                return walk.layers;
            }
        }
    }
}

/// What the header just read announces.
enum Next {
    Ethernet,
    Type(EtherType),
    TypeOrLength(u16),
    Ip(IpProtocol),
    /// IP of the version that its first four bits say.
    Version,
    Ppp,
    Llc,
    Mpls,
    Erspan,
    Vxlan,
    Geneve,
    GtpU,
}

type Step = Result<Next, Stop>;

struct Walk<'a> {
    bytes: &'a [u8],
    /// Where the next header begins; never beyond `end`.
    at: usize,
    /// Where the bytes end, or where a header's length says that they do.
    end: usize,
    /// True while `end` may be due to the snapshot length: no header has said otherwise.
    is_cut: bool,
    layers: Layers,
}

impl<'a> Walk<'a> {
    /// The bytes from here on.
    #[inline]
    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..self.end).unwrap_or(&[])
    }

    /// Records a header whose bytes were checked to be there.
    #[inline]
    fn push(&mut self, kind: LayerKind, header_bytes: usize) -> Result<(), Stop> {
        // Every view's header is far below 64 KiB, and offsets were clamped to 32 bits.
        let layer = Layer { kind, header_bytes: header_bytes as u16, offset: self.at as u32 };
        self.layers.push(layer)?;
        self.at += header_bytes;
        Ok(())
    }

    /// A header's length says that `payload_bytes` follow.
    #[inline]
    fn limit(&mut self, payload_bytes: usize) {
        let end = self.at.saturating_add(payload_bytes);
        if end <= self.end {
            self.end = end;
            self.is_cut = false;
        }
    }

    /// Why a header could not be read: cut by the snapshot length, or short by its own doing.
    #[cold]
    fn stop(&self, error: WireError) -> Stop {
        match error {
            WireError::Truncated { header, .. } if self.is_cut => Stop::Truncated(header),
            error => Stop::Malformed(error.header()),
        }
    }

    /// The first four bits tell the version.
    fn version(&mut self) -> Step {
        match self.rest().first().map(|byte| byte >> 4) {
            Some(4) => self.ipv4(),
            Some(6) => self.ipv6(),
            Some(version) => Err(Stop::Unknown { protocol: u16::from(version) }),
            None if self.is_cut => Err(Stop::Truncated(LayerKind::Ipv4)),
            None => Err(Stop::Malformed(LayerKind::Ipv4)),
        }
    }
}

fn unknown(protocol: u16) -> Step {
    Err(Stop::Unknown { protocol })
}
