//! What changes in a header stack from one frame to the next.

use crate::TemplateError;
use ringside_wire::checksum::{self, Sum};
use ringside_wire::{
    Fragment, Gre, IpProtocol, Ipv4, Ipv6Extension, Layer, LayerKind, Tcp, Udp, WireError,
    pseudo_addresses, tcp_options::TcpOption,
};

/// Option type of a jumbo payload (RFC 2675).
const JUMBO: u8 = 0xc2;
/// Kinds of TCP options that sign one segment: MD5 (RFC 2385) and TCP-AO (RFC 5925).
const SIGNATURES: [u8; 2] = [19, 29];

/// How an IPv4 id goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdStep {
    Keep,
    PerFrame,
    PerDatagram,
}

/// A header with fields to be rewritten; `at` is where it begins. The template was checked to hold
/// each of them whole. `rest` is the sum of an IPv4 header but for what is rewritten: length, id,
/// fragment, checksum.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Field {
    Ipv4 {
        at: usize,
        header_bytes: usize,
        id: IdStep,
        rest: Sum,
    },
    /// Offset and "more fragments" of the IPv4 header at `at`; stands behind it.
    Ipv4Fragment {
        at: usize,
    },
    Ipv6 {
        at: usize,
    },
    Ipv6Fragment {
        at: usize,
    },
    /// GRE with a checksum.
    Gre {
        at: usize,
    },
    Tcp {
        at: usize,
        pseudo: Sum,
    },
    Udp {
        at: usize,
        pseudo: Sum,
        has_checksum: bool,
    },
    /// UDP whose payload goes on in later fragments.
    Datagram {
        at: usize,
        pseudo: Sum,
        has_checksum: bool,
    },
}

/// Fields of a stack, outermost first, and why it may belong to one frame alone.
#[derive(Default)]
pub(crate) struct Found {
    pub fields: Vec<Field>,
    pub obstacle: Option<&'static str>,
}

/// Looks through all headers of `bytes`.
pub(crate) fn find(bytes: &[u8], layers: &[Layer]) -> Result<Found, TemplateError> {
    let mut found = Found::default();
    for (index, &layer) in layers.iter().enumerate() {
        let is_last = index + 1 == layers.len();
        let here = bytes.get(layer.start()..).unwrap_or(&[]);
        found.look_at(bytes, layer, here, (&layers[..index], is_last))?;
    }
    Ok(found)
}

impl Found {
    fn look_at(
        &mut self,
        bytes: &[u8],
        layer: Layer,
        here: &[u8],
        (before, is_last): (&[Layer], bool),
    ) -> Result<(), TemplateError> {
        use LayerKind::{DestinationOptions, Ethernet, Geneve, Mpls, QinQ, Routing, Vlan, Vxlan};
        let at = layer.start();
        let unsupported = Err(TemplateError::Unsupported { header: layer.kind });
        match layer.kind {
            Ethernet | Vlan | QinQ | Mpls | Vxlan | Geneve | Routing | DestinationOptions => {}
            LayerKind::Ipv4 => {
                let ip = Ipv4::new(here).map_err(malformed)?;
                if ip.fragment() != Fragment::No {
                    return Err(TemplateError::Fragment { header: layer.kind });
                }
                let id = IdStep::PerFrame;
                let (header_bytes, rest) = (ip.header_bytes(), Sum::new());
                self.fields.push(Field::Ipv4 { at, header_bytes, id, rest });
            }
            LayerKind::Ipv6 => self.fields.push(Field::Ipv6 { at }),
            LayerKind::Fragment => return Err(TemplateError::Fragment { header: layer.kind }),
            LayerKind::HopByHop => {
                let options = Ipv6Extension::new(here, layer.kind).map_err(malformed)?;
                if has_jumbo(options.body()) {
                    return Err(TemplateError::Jumbo);
                }
            }
            LayerKind::Gre => {
                let gre = Gre::new(here).map_err(malformed)?;
                match (gre.version(), gre.checksum()) {
                    (0, Some(_)) => self.fields.push(Field::Gre { at }),
                    (0, None) => {}
                    _ => return unsupported,
                }
                if gre.has_sequence() {
                    self.obstacle = Some("GRE with sequence numbers");
                }
            }
            LayerKind::Tcp => {
                let tcp = Tcp::new(here).map_err(malformed)?;
                let (pseudo, _) = pseudo(bytes, before, IpProtocol::TCP)?;
                self.fields.push(Field::Tcp { at, pseudo });
                self.obstacle = self.obstacle.or(obstacle(&tcp));
            }
            LayerKind::Udp => {
                let udp = Udp::new(here).map_err(malformed)?;
                let (pseudo, is_v6) = pseudo(bytes, before, IpProtocol::UDP)?;
                // IPv6 demands a checksum (RFC 8200, section 8.1), but not of tunnels (RFC 6935).
                let has_checksum = udp.checksum() != 0 || (is_v6 && is_last);
                self.fields.push(Field::Udp { at, pseudo, has_checksum });
            }
            _ => return unsupported,
        }
        Ok(())
    }
}

/// Sum of the pseudo header but for the length, and whether it is that of IPv6.
fn pseudo(
    bytes: &[u8],
    before: &[Layer],
    protocol: IpProtocol,
) -> Result<(Sum, bool), TemplateError> {
    let is_ip = |layer: &Layer| matches!(layer.kind, LayerKind::Ipv4 | LayerKind::Ipv6);
    let Some(index) = before.iter().rposition(is_ip) else {
        return Err(TemplateError::NoTransport { bytes: bytes.len() });
    };
    // What hides the address that counts is a source route of a kind that is not known.
    let addresses = pseudo_addresses(bytes, before[index], &before[index + 1..])
        .ok_or(TemplateError::Unsupported { header: LayerKind::Routing })?;
    let is_v6 = before[index].kind == LayerKind::Ipv6;
    Ok((checksum::pseudo(addresses, protocol, 0), is_v6))
}

/// What forbids to spread a TCP packet over several frames. Linux sends such packets uncut.
fn obstacle(tcp: &Tcp<'_>) -> Option<&'static str> {
    let signed =
        |option| matches!(option, TcpOption::Other { kind, .. } if SIGNATURES.contains(&kind));
    match tcp.flags() {
        flags if flags & Tcp::SYN != 0 => Some("TCP with SYN"),
        flags if flags & Tcp::RST != 0 => Some("TCP with RST"),
        flags if flags & Tcp::URG != 0 => Some("TCP with urgent data"),
        _ => tcp.options().any(signed).then_some("TCP with a signature (MD5 or TCP-AO)"),
    }
}

/// Looks for a jumbo payload among the options of a hop-by-hop header.
fn has_jumbo(mut options: &[u8]) -> bool {
    while let [kind, rest @ ..] = options {
        let skipped = match (kind, rest) {
            (0, _) => 0,
            (&JUMBO, _) => return true,
            (_, [length, ..]) => 1 + usize::from(*length),
            (_, []) => return false,
        };
        options = rest.get(skipped..).unwrap_or(&[]);
    }
    false
}

fn malformed(error: WireError) -> TemplateError {
    TemplateError::Malformed { header: error.header() }
}
