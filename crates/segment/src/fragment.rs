//! IP fragments: which headers the first and which the later ones have (RFC 791, RFC 8200 section
//! 4.5).

use crate::field::Field;
use crate::{SegmentError, Template};
use ringside_wire::{IpProtocol, Ipv4, Ipv6, Ipv6Fragment, LayerKind};

/// Headers as they are copied, and what is rewritten in them.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub header: Vec<u8>,
    pub fields: Vec<Field>,
}

/// The headers of a datagram that becomes several packets.
#[derive(Clone, Debug)]
pub(crate) struct Fragments {
    pub first: Form,
    pub later: Form,
    /// Bytes of headers that count as content of the first fragment: UDP, and IPv6 options for
    /// the destination.
    pub carried_bytes: usize,
    /// Longest payload that fits into the packet that is put together again.
    pub payload_bytes_max: usize,
}

impl Fragments {
    pub fn of(template: &Template) -> Result<Fragments, SegmentError> {
        if template.is_tcp() {
            return Err(SegmentError::NotUdp);
        }
        match template.network.kind {
            LayerKind::Ipv4 => v4(template),
            _ => Ok(v6(template)),
        }
    }
}

fn v4(template: &Template) -> Result<Fragments, SegmentError> {
    let (at, split) = (template.network.start(), template.network.end());
    if template.header[at + 6] & 0x40 != 0 {
        return Err(SegmentError::DontFragment);
    }
    let mut later = template.header[..split].to_vec();
    keep_copied_options(&mut later[at + Ipv4::BYTES_MIN..]);
    let carried_bytes = template.header.len() - split;
    let payload_bytes_max = usize::from(u16::MAX) - (template.header.len() - at);
    let first = template.header.clone();
    let forms = forms(template, [first, later], Field::Ipv4Fragment { at }, 0);
    let [first, later] = forms;
    Ok(Fragments { first, later, carried_bytes, payload_bytes_max })
}

/// Options that are not to be copied stand in the first fragment alone; later ones have no
/// operation in their place, as Linux does it (`ip_options_fragment`).
fn keep_copied_options(mut options: &mut [u8]) {
    const NO_OPERATION: u8 = 1;
    const COPIED: u8 = 0x80;
    loop {
        let bytes = match options {
            [NO_OPERATION, ..] => 1,
            [0, ..] | [] | [_] => return,
            [_, length, ..] if *length < 2 || usize::from(*length) > options.len() => return,
            [_, length, ..] => usize::from(*length),
        };
        let (option, rest) = options.split_at_mut(bytes);
        if option[0] & COPIED == 0 {
            option.fill(NO_OPERATION);
        }
        options = rest;
    }
}

fn v6(template: &Template) -> Fragments {
    let network = template.network;
    // What routers read stays before the fragment header. Linux leaves options for the destination
    // there too, if no source route is before them (`ip6_find_1stfragopt`).
    let (mut split, mut next_header_at) = (network.end(), network.start() + 6);
    let mut is_routed = false;
    for layer in template.layers.iter().filter(|layer| layer.start() >= network.end()) {
        match layer.kind {
            LayerKind::HopByHop => {}
            LayerKind::Routing => is_routed = true,
            LayerKind::DestinationOptions if !is_routed => {}
            _ => break,
        }
        (split, next_header_at) = (layer.end(), layer.start());
    }
    let mut first = template.header.clone();
    let next_header = std::mem::replace(&mut first[next_header_at], IpProtocol::FRAGMENT.0);
    first.splice(split..split, [next_header, 0, 0, 0, 0, 0, 0, 0]);
    let later = first[..split + Ipv6Fragment::BYTES].to_vec();
    let rewritten = Field::Ipv6Fragment { at: split };
    let [first, later] = forms(template, [first, later], rewritten, Ipv6Fragment::BYTES);
    let payload_bytes_max =
        usize::from(u16::MAX) - (template.header.len() - network.start() - Ipv6::BYTES);
    let carried_bytes = template.header.len() - split;
    Fragments { first, later, carried_bytes, payload_bytes_max }
}

/// The fields of the first and the later fragments: those of the template, with `fragment` behind
/// its IP header. UDP stands in the first alone, `shift` bytes further on.
fn forms(
    template: &Template,
    [first, later]: [Vec<u8>; 2],
    fragment: Field,
    shift: usize,
) -> [Form; 2] {
    let (transport, before) = template.fields.split_last().expect("a template ends with UDP");
    let mut fields = before.to_vec();
    fields.push(fragment);
    let later = Form { header: later, fields: fields.clone() };
    if let Field::Udp { at, pseudo, has_checksum } = *transport {
        fields.push(Field::Datagram { at: at + shift, pseudo, has_checksum });
    }
    [Form { header: first, fields }, later]
}
