//! Random header stacks, and a plain way to cut a payload under them: every frame is made from
//! scratch, from the inside out, with checksums word by word. Slow, and easy to read.

use crate::Random;

/// One header, with the fields that stay. The headers after it tell its type and its length.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // fields have the names that their RFCs give them
pub enum Header {
    Ethernet,
    /// A VLAN tag; `ether_type` is its own.
    Tag {
        ether_type: u16,
        tci: u16,
    },
    Mpls {
        label: u32,
    },
    Ipv4 {
        id: u16,
        dont_fragment: bool,
        addresses: [u8; 8],
        options: Vec<u8>,
    },
    /// `extensions` are kinds and bodies, without the two bytes before them; the first
    /// `before_fragment` of them stand before a fragment header.
    Ipv6 {
        addresses: [u8; 32],
        extensions: Vec<(u8, Vec<u8>)>,
        before_fragment: usize,
    },
    Gre {
        has_checksum: bool,
        key: Option<u32>,
    },
    Vxlan {
        vni: u32,
    },
    Geneve {
        vni: u32,
        options: Vec<u8>,
    },
    Udp {
        ports: [u16; 2],
        has_checksum: bool,
    },
    Tcp {
        ports: [u16; 2],
        sequence: u32,
        flags: u8,
        options: Vec<u8>,
    },
}

/// Headers of one frame, as they are dissected (`ringside_wire::LAYERS_MAX`).
pub const LAYERS_MAX: usize = 20;

/// What stacks are asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// Most tunnels within each other.
    pub tunnels_max: usize,
    /// TCP or UDP; either if it is none.
    pub is_tcp: Option<bool>,
    /// No DF, and no IPv4 option that belongs to the first fragment alone.
    pub is_fragmentable: bool,
    /// UDP has a checksum, in all places.
    pub is_summed: bool,
}

/// A header stack: outermost first, TCP or UDP last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack(pub Vec<Header>);

/// What differs from frame to frame.
#[derive(Clone, Copy, Debug, Default)]
struct Change {
    id: u16,
    inner_id: u16,
    sequence: u32,
    cleared_flags: u8,
    fragment: Option<Fragment>,
}

/// A fragment of the innermost packet; kind of its content and id are those of IPv6.
#[derive(Clone, Copy, Debug)]
struct Fragment {
    offset: usize,
    more: bool,
    kind: u8,
    id: u32,
}

const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

impl Stack {
    /// Any stack as it is wanted, of no more headers than are dissected.
    pub fn random(random: &mut Random, wanted: Wanted) -> Stack {
        loop {
            let stack = Stack::of_any_depth(random, wanted);
            // A fragment has one more.
            if stack.layers() < LAYERS_MAX {
                return stack;
            }
        }
    }

    /// Headers, each extension of IPv6 and each tag for itself.
    pub fn layers(&self) -> usize {
        let extensions = self.0.iter().map(|header| match header {
            Header::Ipv6 { extensions, .. } => extensions.len(),
            _ => 0,
        });
        self.0.len() + extensions.sum::<usize>()
    }

    fn of_any_depth(random: &mut Random, wanted: Wanted) -> Stack {
        let mut headers = vec![Header::Ethernet];
        tags(random, &mut headers);
        for _ in 0..random.below(wanted.tunnels_max + 1) {
            tunnel(random, wanted, &mut headers);
        }
        let network = network(random, wanted);
        let is_v6 = matches!(network, Header::Ipv6 { .. });
        headers.push(network);
        let ports = [1024 + random.below(900) as u16, 1024 + random.below(900) as u16];
        headers.push(if wanted.is_tcp.unwrap_or_else(|| random.below(2) == 0) {
            // Any of FIN, PSH, ACK, ECE and CWR.
            let flags = random.next_u64() as u8 & 0xd9;
            let sequence = random.next_u64() as u32;
            Header::Tcp { ports, sequence, flags, options: tcp_options(random) }
        } else {
            let has_checksum = wanted.is_summed || is_v6 || random.below(4) > 0;
            Header::Udp { ports, has_checksum }
        });
        Stack(headers)
    }

    /// Bytes of all headers.
    pub fn header_bytes(&self) -> usize {
        self.uncut(&[]).len()
    }

    /// Where the transport header begins, and how far behind it its checksum is.
    pub fn checksum_place(&self) -> (usize, usize) {
        let (last, _) = self.0.split_last().expect("a stack ends with TCP or UDP");
        match last {
            Header::Tcp { options, .. } => (self.header_bytes() - 20 - options.len(), 16),
            _ => (self.header_bytes() - 8, 6),
        }
    }

    /// The whole packet in one frame.
    pub fn uncut(&self, payload: &[u8]) -> Vec<u8> {
        frame(&self.0, payload, None, Change::default())
    }

    /// Segments of TCP or datagrams of UDP, `mss` bytes of payload each.
    pub fn segments(&self, payload: &[u8], mss: usize) -> Vec<Vec<u8>> {
        let count = payload.len().div_ceil(mss).max(1);
        let make = |index: usize| {
            let mut change =
                Change { id: index as u16, inner_id: index as u16, ..Change::default() };
            change.sequence = (index * mss) as u32;
            change.cleared_flags |= if index + 1 < count { FIN_PSH } else { 0 };
            change.cleared_flags |= if index > 0 { CWR } else { 0 };
            let end = payload.len().min((index + 1) * mss);
            frame(&self.0, &payload[index * mss..end], None, change)
        };
        (0..count).map(make).collect()
    }

    /// Fragments of the innermost IP packet with `mss` bytes of content each; `id` is that of IPv6.
    pub fn fragments(&self, payload: &[u8], mss: usize, id: u32) -> Vec<Vec<u8>> {
        let (mut headers, at) = (self.0.clone(), self.0.len() - 2);
        let mut content = frame(&self.0[at + 1..], payload, Some(&self.0[at]), Change::default());
        let mut kind = self.0[at + 1].ip_protocol();
        if let Header::Ipv6 { extensions, before_fragment, .. } = &mut headers[at] {
            // Options for the destination behind a source route belong to the content.
            for (extension, body) in extensions.split_off(*before_fragment).into_iter().rev() {
                content = [&extension_bytes(kind, &body), &content[..]].concat();
                kind = extension;
            }
        }
        headers.truncate(at + 1);
        let count = content.len().div_ceil(mss);
        let make = |index: usize| {
            let fragment =
                Some(Fragment { offset: index * mss, more: index + 1 < count, kind, id });
            let change = Change { id: index as u16, fragment, ..Change::default() };
            let end = content.len().min((index + 1) * mss);
            frame(&headers, &content[index * mss..end], None, change)
        };
        (0..count).map(make).collect()
    }
}

impl Header {
    fn ip_protocol(&self) -> u8 {
        match self {
            Header::Ipv4 { .. } => 4,
            Header::Ipv6 { .. } => 41,
            Header::Tcp { .. } => 6,
            Header::Udp { .. } => 17,
            Header::Gre { .. } => 47,
            Header::Mpls { .. } => 137,
            other => panic!("{other:?} does not follow IP"),
        }
    }

    fn ether_type(&self) -> u16 {
        match self {
            Header::Ethernet => 0x6558,
            Header::Tag { ether_type, .. } => *ether_type,
            Header::Mpls { .. } => 0x8847,
            Header::Ipv4 { .. } => 0x0800,
            Header::Ipv6 { .. } => 0x86dd,
            other => panic!("{other:?} has no EtherType"),
        }
    }
}

/// The frame that begins with `headers`; `ip` is the IP header before them.
fn frame(headers: &[Header], payload: &[u8], ip: Option<&Header>, change: Change) -> Vec<u8> {
    let Some((first, after)) = headers.split_first() else { return payload.to_vec() };
    let here =
        if matches!(first, Header::Ipv4 { .. } | Header::Ipv6 { .. }) { Some(first) } else { ip };
    let inner = frame(after, payload, here, change);
    let is_inner = !after.iter().any(|h| matches!(h, Header::Ipv4 { .. } | Header::Ipv6 { .. }));
    let next = after.first();
    let ether_type = || next.map_or(0, Header::ether_type).to_be_bytes();
    let mut bytes = Vec::new();
    match first {
        Header::Ethernet => {
            bytes.extend([2, 0x52, 0x53, 0, 0, 9, 2, 0x52, 0x53, 0, 0, 8]);
            bytes.extend(ether_type());
        }
        Header::Tag { tci, .. } => {
            bytes.extend(tci.to_be_bytes());
            bytes.extend(ether_type());
        }
        Header::Mpls { label } => bytes.extend((label << 12 | 0x140).to_be_bytes()),
        Header::Ipv4 { .. } => {
            let protocol = next.map_or(17, Header::ip_protocol);
            bytes = ipv4(first, protocol, inner.len(), is_inner, change);
        }
        Header::Ipv6 { .. } => {
            bytes = ipv6(first, next.map(Header::ip_protocol), inner.len(), is_inner, change);
        }
        Header::Gre { has_checksum, key } => {
            let flags = u16::from(*has_checksum) << 15 | u16::from(key.is_some()) << 13;
            bytes.extend(flags.to_be_bytes());
            bytes.extend(ether_type());
            bytes.extend(if *has_checksum { &[0; 4][..] } else { &[] });
            bytes.extend(key.iter().flat_map(|key| key.to_be_bytes()));
            if *has_checksum {
                let sum = complement(&[&bytes, &inner]);
                bytes[4..6].copy_from_slice(&sum.to_be_bytes());
            }
        }
        Header::Vxlan { vni } => {
            bytes.extend([8, 0, 0, 0]);
            bytes.extend((vni << 8).to_be_bytes());
        }
        Header::Geneve { vni, options } => {
            bytes.extend([(options.len() / 4) as u8, 0]);
            bytes.extend(ether_type());
            bytes.extend((vni << 8).to_be_bytes());
            bytes.extend(options);
        }
        Header::Udp { .. } | Header::Tcp { .. } => bytes = transport(first, ip, &inner, change),
    }
    bytes.extend(inner);
    bytes
}

fn ipv4(header: &Header, protocol: u8, content: usize, is_inner: bool, change: Change) -> Vec<u8> {
    let Header::Ipv4 { id, dont_fragment, addresses, options } = header else { return Vec::new() };
    let step = if is_inner { change.inner_id } else { change.id };
    let (offset, more) = match change.fragment {
        Some(Fragment { offset, more, .. }) if is_inner => (offset, more),
        _ => (0, false),
    };
    let flags = u16::from(*dont_fragment) << 14 | u16::from(more) << 13;
    let mut bytes = vec![0x45 + (options.len() / 4) as u8, 2];
    bytes.extend(((20 + options.len() + content) as u16).to_be_bytes());
    bytes.extend(id.wrapping_add(step).to_be_bytes());
    bytes.extend((flags | (offset / 8) as u16).to_be_bytes());
    bytes.extend([64, protocol, 0, 0]);
    bytes.extend(addresses);
    bytes.extend(options);
    let sum = complement(&[&bytes]);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes
}

fn ipv6(
    header: &Header,
    next: Option<u8>,
    content: usize,
    is_inner: bool,
    change: Change,
) -> Vec<u8> {
    let Header::Ipv6 { addresses, extensions, .. } = header else { return Vec::new() };
    let (mut behind, mut kind) = (Vec::new(), next.unwrap_or(0));
    if let Some(fragment) = change.fragment
        && is_inner
    {
        behind.extend([fragment.kind, 0]);
        behind.extend((fragment.offset as u16 | u16::from(fragment.more)).to_be_bytes());
        behind.extend(fragment.id.to_be_bytes());
        kind = 44;
    }
    for (extension, body) in extensions.iter().rev() {
        behind = [extension_bytes(kind, body), behind].concat();
        kind = *extension;
    }
    let mut bytes = vec![0x60, 0x21, 0x23, 0x45];
    bytes.extend(((behind.len() + content) as u16).to_be_bytes());
    bytes.extend([kind, 63]);
    bytes.extend(addresses);
    bytes.extend(behind);
    bytes
}

fn extension_bytes(next: u8, body: &[u8]) -> Vec<u8> {
    [&[next, ((body.len() + 2) / 8 - 1) as u8], body].concat()
}

fn transport(header: &Header, ip: Option<&Header>, inner: &[u8], change: Change) -> Vec<u8> {
    let mut bytes = Vec::new();
    match header {
        Header::Udp { ports, .. } => {
            ports.iter().for_each(|port| bytes.extend(port.to_be_bytes()));
            bytes.extend(((8 + inner.len()) as u16).to_be_bytes());
            bytes.extend([0, 0]);
        }
        Header::Tcp { ports, sequence, flags, options } => {
            ports.iter().for_each(|port| bytes.extend(port.to_be_bytes()));
            bytes.extend(sequence.wrapping_add(change.sequence).to_be_bytes());
            bytes.extend([0, 1, 2, 3]);
            bytes.extend([(5 + options.len() as u8 / 4) << 4, flags & !change.cleared_flags]);
            bytes.extend([1, 0xf0, 0, 0, 0, 0]);
            bytes.extend(options);
        }
        _ => {}
    }
    let (is_udp, at) = (bytes.len() == 8, if bytes.len() == 8 { 6 } else { 16 });
    if matches!(header, Header::Udp { has_checksum: false, .. }) {
        return bytes;
    }
    let length = ((bytes.len() + inner.len()) as u32).to_be_bytes();
    let pseudo = [&pseudo_addresses(ip)[..], &length, &[0, header.ip_protocol()]].concat();
    let mut sum = complement(&[&pseudo, &bytes, inner]);
    if is_udp && sum == 0 {
        sum = 0xffff;
    }
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Source and final destination.
fn pseudo_addresses(ip: Option<&Header>) -> Vec<u8> {
    match ip {
        Some(Header::Ipv4 { addresses, .. }) => addresses.to_vec(),
        Some(Header::Ipv6 { addresses, extensions, .. }) => {
            let mut all = addresses.to_vec();
            if let Some((_, body)) = extensions.iter().find(|(kind, _)| *kind == 43)
                && body[1] > 0
            {
                all[16..].copy_from_slice(&body[6..22]);
            }
            all
        }
        other => panic!("no addresses in {other:?}"),
    }
}

/// RFC 1071, word by word; every part but the last is even.
fn complement(parts: &[&[u8]]) -> u16 {
    let mut sum: u64 = 0;
    for pair in parts.iter().flat_map(|part| part.chunks(2)) {
        sum += u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn tags(random: &mut Random, headers: &mut Vec<Header>) {
    let types: &[u16] = [&[][..], &[], &[0x8100], &[0x88a8, 0x8100]][random.below(4)];
    for &ether_type in types {
        headers.push(Header::Tag { ether_type, tci: random.below(4095) as u16 + 1 });
    }
}

/// Adds one tunnel: what it travels in and its own header; another network header must follow.
fn tunnel(random: &mut Random, wanted: Wanted, headers: &mut Vec<Header>) {
    if random.below(6) == 0 && matches!(headers.last(), Some(Header::Ethernet | Header::Tag { .. }))
    {
        headers.push(Header::Mpls { label: 16 + random.below(1000) as u32 });
        return;
    }
    headers.push(network(random, wanted));
    let vni = random.below(1 << 24) as u32;
    let has_checksum = wanted.is_summed || random.below(2) == 0;
    let (kind, source) = (random.below(5), 49_152 + random.below(9999) as u16);
    let udp = |port| {
        let ports = [source, port];
        Header::Udp { ports, has_checksum }
    };
    match kind {
        0 => headers.extend([udp(4789), Header::Vxlan { vni }]),
        1 => headers.extend([udp(6081), Header::Geneve { vni, options: vec![1, 2, 3, 0] }]),
        2 => headers.push(Header::Gre { has_checksum, key: (vni & 64 != 0).then_some(vni) }),
        // The IP header carries the next one itself.
        _ => return,
    }
    // VXLAN carries Ethernet; the others carry either.
    if kind == 0 || vni & 128 != 0 {
        headers.push(Header::Ethernet);
        tags(random, headers);
    }
}

fn network(random: &mut Random, wanted: Wanted) -> Header {
    let mut addresses = [0; 32];
    addresses.iter_mut().for_each(|byte| *byte = random.next_u64() as u8);
    if random.below(2) == 0 {
        let [.., a, b, c] = addresses;
        let dont_fragment = !wanted.is_fragmentable && random.below(2) == 0;
        let options = ipv4_options(random, wanted);
        let addresses = [10, a, b, c, 10, c, a, b];
        return Header::Ipv4 { id: random.next_u64() as u16, dont_fragment, addresses, options };
    }
    addresses[0] = 0xfd;
    addresses[16] = 0xfd;
    let mut extensions = Vec::new();
    // Padding, as a hop-by-hop header and as options for the destination.
    let padding = vec![1, 4, 0, 0, 0, 0];
    if random.below(5) == 0 {
        extensions.push((0, padding.clone()));
    }
    let mut before_fragment = usize::MAX;
    if random.below(5) == 0 {
        // Type 2: one address, to be visited yet or not.
        let mut body = vec![2, random.below(2) as u8, 0, 0, 0, 0, 0xfd];
        body.extend(random.bytes(15));
        extensions.push((43, body));
        before_fragment = extensions.len();
    }
    if random.below(5) == 0 {
        extensions.push((60, padding));
    }
    let before_fragment = before_fragment.min(extensions.len());
    Header::Ipv6 { addresses, extensions, before_fragment }
}

/// Router alert, which is copied into fragments; record route, which is not; or padding.
fn ipv4_options(random: &mut Random, wanted: Wanted) -> Vec<u8> {
    match random.below(8) {
        0 => vec![0x94, 4, 0, 0],
        1 => vec![1, 1, 0x94, 4, 0, 0, 1, 0],
        2 if !wanted.is_fragmentable => vec![7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        3 => vec![1; 40],
        _ => Vec::new(),
    }
}

/// Timestamps, a selective acknowledgment, something unknown, or nothing.
fn tcp_options(random: &mut Random) -> Vec<u8> {
    let mut options = match random.below(4) {
        0 => return Vec::new(),
        1 => vec![1, 1, 8, 10],
        2 => vec![1, 1, 5, 34],
        _ => vec![1, 1, 253, 6],
    };
    let bytes = usize::from(options[3]) - 2;
    options.extend(random.bytes(bytes));
    options
}
