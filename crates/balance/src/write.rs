//! Frames that a balancer makes: packets within others, and answers to clients.

use crate::packet::{ETHERNET_BYTES, Packet};
use crate::tables::{Path, RealEntry, Settings};
use ringside_wire::MacAddr;
use ringside_wire::checksum::{Sum, checksum, update};

/// Bytes of a packet that a too-big answer quotes: within what both versions of IP allow, and less
/// than any packet that is too big has.
pub const QUOTE_BYTES: usize = 512;
/// Time to live and hop limit of what we send.
const TTL: u8 = 64;
/// First source port of GUE; the 14 bits behind follow the flow (RFC 6335: dynamic ports).
const GUE_SOURCE_PORT: u16 = 0xc000;

/// Where a frame goes on Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Whose frame it is next.
    pub destination: MacAddr,
    /// The interface that it leaves by.
    pub source: MacAddr,
}

/// A frame of these headers and this payload.
fn assemble(link: &Link, ether_type: u16, headers: &[&[u8]], payload: &[u8]) -> Vec<u8> {
    let ethernet = [&link.destination.0[..], &link.source.0, &ether_type.to_be_bytes()].concat();
    [&ethernet, &headers.concat(), payload].concat()
}

/// The frame of a client as it goes to a real. `spread` has the bits that follow the flow.
pub fn to_real(
    frame: &[u8],
    packet: &Packet,
    real: &RealEntry,
    settings: &Settings,
    link: &Link,
    spread: u32,
) -> Vec<u8> {
    let inner = frame.get(ETHERNET_BYTES..).unwrap_or_default();
    let inner_protocol = if packet.version == 4 { 4 } else { 41 };
    let outer_bytes = packet.bytes + real.path.overhead();
    let udp = gue(settings, spread, packet.bytes + 8);
    let v4 = |protocol| outer_v4(settings, real, packet.tos, protocol, outer_bytes, spread);
    let v6 = |protocol| outer_v6(settings, real, packet.tos, protocol, outer_bytes - 40, spread);
    match real.path {
        Path::Direct => {
            let ether_type = if packet.version == 4 { 0x0800 } else { 0x86dd };
            assemble(link, ether_type, &[], inner)
        }
        Path::Ipip4 => assemble(link, 0x0800, &[&v4(inner_protocol)], inner),
        Path::Ipip6 => assemble(link, 0x86dd, &[&v6(inner_protocol)], inner),
        Path::Gue4 => assemble(link, 0x0800, &[&v4(17), &udp], inner),
        Path::Gue6 => assemble(link, 0x86dd, &[&v6(17), &udp], inner),
    }
}

/// The headers of the tunnel to a real, without lengths, of a packet that is of no client's flow;
/// `inner_v4` says what it is. None if there is no tunnel.
pub fn outer_without_lengths(real: &RealEntry, settings: &Settings, inner_v4: bool) -> Vec<u8> {
    let inner = if inner_v4 { 4 } else { 41 };
    let v4 = |protocol| outer_v4(settings, real, 0, protocol, 0, 0);
    let v6 = |protocol| outer_v6(settings, real, 0, protocol, 0, 0);
    let udp = gue(settings, 0, 0);
    match real.path {
        Path::Direct => Vec::new(),
        Path::Ipip4 => v4(inner).to_vec(),
        Path::Ipip6 => v6(inner).to_vec(),
        Path::Gue4 => [&v4(17)[..], &udp].concat(),
        Path::Gue6 => [&v6(17)[..], &udp].concat(),
    }
}

/// No checksum: over IPv4 it may be left out, over IPv6 tunnels may do so (RFC 6935, RFC 6936).
fn gue(settings: &Settings, spread: u32, bytes: usize) -> [u8; 8] {
    let mut udp = [0; 8];
    let source_port = GUE_SOURCE_PORT | (spread & 0x3fff) as u16;
    udp[..2].copy_from_slice(&source_port.to_be_bytes());
    udp[2..4].copy_from_slice(&settings.gue_port.to_be_bytes());
    udp[4..6].copy_from_slice(&(bytes as u16).to_be_bytes());
    udp
}

/// Not to be cut on the way, so that it needs no number of its own (RFC 6864).
fn outer_v4(
    settings: &Settings,
    real: &RealEntry,
    tos: u8,
    protocol: u8,
    bytes: usize,
    spread: u32,
) -> [u8; 20] {
    let (first, mask) = settings.source_v4;
    ipv4(tos, protocol, bytes, true, first | (spread & mask), real.address[1] as u32)
}

fn outer_v6(
    settings: &Settings,
    real: &RealEntry,
    tos: u8,
    protocol: u8,
    payload_bytes: usize,
    spread: u32,
) -> [u8; 40] {
    let ([high, low], mask) = settings.source_v6;
    let source = [high, low | (u64::from(spread) & mask)];
    ipv6(tos, spread & 0xf_ffff, protocol, payload_bytes, source, real.address)
}

fn ipv4(tos: u8, protocol: u8, bytes: usize, keep_whole: bool, from: u32, to: u32) -> [u8; 20] {
    let mut ip = [0; 20];
    (ip[0], ip[1]) = (0x45, tos);
    ip[2..4].copy_from_slice(&(bytes as u16).to_be_bytes());
    ip[6] = if keep_whole { 0x40 } else { 0 };
    (ip[8], ip[9]) = (TTL, protocol);
    ip[12..16].copy_from_slice(&from.to_be_bytes());
    ip[16..].copy_from_slice(&to.to_be_bytes());
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip
}

fn ipv6(
    tos: u8,
    label: u32,
    next_header: u8,
    payload_bytes: usize,
    from: [u64; 2],
    to: [u64; 2],
) -> [u8; 40] {
    let mut ip = [0; 40];
    ip[..4].copy_from_slice(&(6 << 28 | u32::from(tos) << 20 | label).to_be_bytes());
    ip[4..6].copy_from_slice(&(payload_bytes as u16).to_be_bytes());
    (ip[6], ip[7]) = (next_header, TTL);
    for (to, word) in ip[8..].as_chunks_mut::<8>().0.iter_mut().zip([from, to].concat()) {
        *to = word.to_be_bytes();
    }
    ip
}

/// The way back of a frame.
fn back(frame: &[u8]) -> Option<Link> {
    let mac = |at: usize| Some(MacAddr(*frame.get(at..)?.first_chunk()?));
    Some(Link { destination: mac(6)?, source: mac(0)? })
}

/// The answer to an echo request, which has no IP options: the same bytes, turned round.
pub fn echo_reply(frame: &[u8], packet: &Packet) -> Option<Vec<u8>> {
    let mut reply = frame.to_vec();
    let link = back(frame)?;
    reply[..6].copy_from_slice(&link.destination.0);
    reply[6..12].copy_from_slice(&link.source.0);
    let (addresses_at, address_bytes, reply_kind) = match packet.version {
        4 => (ETHERNET_BYTES + 12, 4, 0u8),
        _ => (ETHERNET_BYTES + 8, 16, 129),
    };
    let addresses = reply.get_mut(addresses_at..addresses_at + 2 * address_bytes)?;
    let (from, to) = addresses.split_at_mut(address_bytes);
    from.swap_with_slice(to);
    if packet.version == 4 {
        let (ttl_at, sum_at) = (ETHERNET_BYTES + 8, ETHERNET_BYTES + 10);
        let protocol = reply[ttl_at + 1];
        let words = [reply[ttl_at], TTL].map(|ttl| u16::from_be_bytes([ttl, protocol]));
        reply[ttl_at] = TTL;
        changed(&mut reply, sum_at, words)?;
    } else {
        reply[ETHERNET_BYTES + 7] = TTL;
    }
    let kind_at = packet.transport_at;
    let (kind, code) = (*reply.get(kind_at)?, *reply.get(kind_at + 1)?);
    reply[kind_at] = reply_kind;
    let words = [kind, reply_kind].map(|kind| u16::from_be_bytes([kind, code]));
    changed(&mut reply, kind_at + 2, words)?;
    Some(reply)
}

/// Brings a checksum up to date after a word of what it covers changed.
fn changed(frame: &mut [u8], sum_at: usize, [old, new]: [u16; 2]) -> Option<()> {
    let place: &mut [u8; 2] = frame.get_mut(sum_at..)?.first_chunk_mut()?;
    *place = update(u16::from_be_bytes(*place), old, new).to_be_bytes();
    Some(())
}

/// Says to a client that a packet was too big: the longest that is not. None if the packet is
/// shorter than what is quoted of it.
pub fn too_big(frame: &[u8], packet: &Packet, bytes_max: u32) -> Option<Vec<u8>> {
    let quote = frame.get(ETHERNET_BYTES..ETHERNET_BYTES + packet.bytes)?.get(..QUOTE_BYTES)?;
    let link = back(frame)?;
    let mut icmp = [0; 8];
    if packet.version == 4 {
        (icmp[0], icmp[1]) = (3, 4);
        icmp[6..].copy_from_slice(&(bytes_max as u16).to_be_bytes());
        let sum = Sum::new().bytes(&icmp).bytes(quote).checksum();
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());
        let (from, to) = (packet.destination[1] as u32, packet.source[1] as u32);
        let ip = ipv4(0, 1, 20 + 8 + QUOTE_BYTES, false, from, to);
        return Some(assemble(&link, 0x0800, &[&ip, &icmp], quote));
    }
    icmp[0] = 2;
    icmp[4..].copy_from_slice(&bytes_max.to_be_bytes());
    let ip = ipv6(0, 0, 58, 8 + QUOTE_BYTES, packet.destination, packet.source);
    // The pseudo header: both addresses, the length and the protocol (RFC 8200, section 8.1).
    let pseudo = Sum::new().bytes(&ip[8..]).add_u32(8 + QUOTE_BYTES as u32).add_u16(58);
    let sum = pseudo.bytes(&icmp).bytes(quote).checksum();
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    Some(assemble(&link, 0x86dd, &[&ip, &icmp], quote))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::config::Via;
    use crate::tables::Tables;

    /// The headers that the program for questions completes are those of a client's packet.
    #[test]
    fn headers_without_lengths_are_those_of_packets_but_for_these() {
        let text = "source_v4 = \"10.9.0.0/16\"\nsource_v6 = \"2001:db8:9::/64\"\n[[vip]]\n\
                    name = \"a\"\naddress = \"192.0.2.1\"\nprotocol = \"udp\"\n\
                    [[vip.real]]\naddress = \"10.0.0.1\"\n\
                    [[vip.real]]\naddress = \"2001:db8::1\"\n";
        let mut config = Config::read(text.as_bytes()).unwrap();
        let settings = Tables::new(&config, 0).settings;
        let mac = MacAddr([2; 6]);
        let inner = ipv4(0, 17, 60, true, 1, 2);
        let frame = assemble(&Link { destination: mac, source: mac }, 0x0800, &[&inner], &[7; 40]);
        let packet = Packet::read(&frame).unwrap();
        for via in [Via::Ipip, Via::Gue, Via::Direct] {
            config.vips[0].via = via;
            for real in &config.vips[0].reals {
                let entry = RealEntry::of(&config.vips[0], real);
                let link = Link { destination: mac, source: mac };
                let sent = to_real(&frame, &packet, &entry, &settings, &link, 0);
                let mut outer = sent[14..14 + entry.path.overhead()].to_vec();
                let is_v4 = real.address.is_ipv4();
                let (length_at, ip_bytes) = if is_v4 { (2, 20) } else { (4, 40) };
                if let Some(length) = outer.get_mut(length_at..length_at + 2) {
                    length.fill(0);
                }
                if let Some(length) = outer.get_mut(ip_bytes + 4..ip_bytes + 6) {
                    length.fill(0);
                }
                if is_v4 && !outer.is_empty() {
                    outer[10..12].fill(0);
                    let sum = checksum(&outer[..20]);
                    outer[10..12].copy_from_slice(&sum.to_be_bytes());
                }
                assert_eq!(
                    outer_without_lengths(&entry, &settings, true),
                    outer,
                    "{via:?} {real:?}"
                );
            }
        }
    }
}
