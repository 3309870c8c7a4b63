//! Every answer that `etherparse` gives about a frame is ours too: over every capture, and over
//! mutations of them.
//!
//! Deliberate differences:
//! - A frame to one of Cisco's ISL addresses is ISL here, 802.3 there.
//! - IPv4 with a total length below its header (but not 0) is malformed here; there the rest of
//!   the frame is taken as its payload.
//! - There the version nibble counts and not the EtherType; here IPv4 under the EtherType of IPv6
//!   (or the reverse) is malformed.
//! - A UDP length of 1 to 7 is malformed here; there likewise the rest is taken.
//! - There an EtherType below 1536 is unknown; here 802.3 frames are followed through LLC, which
//!   gives answers where that crate has none. Likewise MPLS, PPPoE, tunnels, SCTP.
//! - There MACsec is followed where it is not encrypted; here it is an unknown protocol.

use etherparse::{LaxNetSlice, LaxSlicedPacket, TransportSlice};
use ringside_core::LinkType;
use ringside_testkit::Random;
use ringside_wire::{
    Isl, LayerKind, Layers, Level, Stop, Tcp, Udp, dissect, ipv4::Ipv4, ipv6::Ipv6,
};

/// Mutated frames that are compared.
const MUTATIONS: usize = 150_000;

/// What was compared, so that the test cannot pass by comparing nothing.
#[derive(Debug, Default)]
struct Compared {
    networks: u64,
    transports: u64,
    differences: u64,
}

#[test]
fn captures_read_alike() {
    let frames = crate::support::corpus("captures_read_alike");
    let mut compared = Compared::default();
    for (link, bytes) in &frames {
        compare(bytes, *link, &mut compared);
    }
    eprintln!("{} frames: {compared:?}", frames.len());
    assert!(frames.is_empty() || compared.transports > 10_000);
    assert!(compared.differences * 1000 <= compared.networks);
}

#[test]
fn mutated_captures_read_alike() {
    let frames = crate::support::corpus("mutated_captures_read_alike");
    let seeds: Vec<Vec<u8>> = frames
        .into_iter()
        .filter(|(link, bytes)| *link == LinkType::ETHERNET && bytes.len() < 400)
        .map(|(_, bytes)| bytes)
        .collect();
    if seeds.is_empty() {
        return;
    }
    let mut random = Random::new(4);
    let mut compared = Compared::default();
    for _ in 0..MUTATIONS {
        let bytes = ringside_testkit::fuzz::mutate(&seeds, &mut random);
        compare(&bytes, LinkType::ETHERNET, &mut compared);
    }
    eprintln!("{compared:?}");
    assert!(compared.networks > MUTATIONS as u64 / 4);
    assert!(compared.transports > MUTATIONS as u64 / 4);
}

fn compare(bytes: &[u8], link: LinkType, compared: &mut Compared) {
    let theirs = match link {
        LinkType::ETHERNET => LaxSlicedPacket::from_ethernet(bytes).ok(),
        LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 => LaxSlicedPacket::from_ip(bytes).ok(),
        _ => None,
    };
    let Some(theirs) = theirs else { return };
    let layers = dissect(bytes, link);
    let Some(net) = &theirs.net else { return };
    if is_deliberate(bytes, &theirs, &layers) {
        compared.differences += 1;
        return;
    }
    compared.networks += 1;
    let Some(network) = layers.network(Level::Outer) else {
        panic!("no network header, they have one\n{net:?}\n{layers:?}\n{bytes:02x?}");
    };
    let ours = &bytes[network.start()..];
    match net {
        LaxNetSlice::Ipv4(v4) => {
            let ip = Ipv4::new(ours).unwrap();
            assert_eq!(network.kind, LayerKind::Ipv4);
            assert_eq!(network.start(), offset(bytes, v4.header().slice()));
            assert_eq!(ip.source(), v4.header().source_addr());
            assert_eq!(ip.destination(), v4.header().destination_addr());
            assert_eq!(ip.header_bytes(), v4.header().slice().len());
        }
        LaxNetSlice::Ipv6(v6) => {
            let ip = Ipv6::new(ours).unwrap();
            assert_eq!(network.kind, LayerKind::Ipv6);
            assert_eq!(network.start(), offset(bytes, v6.header().slice()));
            assert_eq!(ip.source(), v6.header().source_addr());
            assert_eq!(ip.destination(), v6.header().destination_addr());
        }
        LaxNetSlice::Arp(arp) => {
            assert_eq!(network.kind, LayerKind::Arp);
            assert_eq!(network.start(), offset(bytes, arp.slice()));
            assert_eq!(usize::from(network.header_bytes), arp.slice().len());
        }
    }
    compare_transport(bytes, &theirs, &layers, compared);
}

fn compare_transport(
    bytes: &[u8],
    theirs: &LaxSlicedPacket<'_>,
    layers: &Layers,
    compared: &mut Compared,
) {
    let Some(transport) = &theirs.transport else { return };
    compared.transports += 1;
    let Some(layer) = layers.transport(Level::Outer) else {
        panic!("no transport header, they have one\n{transport:?}\n{layers:?}\n{bytes:02x?}");
    };
    let ours = &bytes[layer.start()..];
    let (kind, slice) = match transport {
        TransportSlice::Tcp(tcp) => {
            let view = Tcp::new(ours).unwrap();
            assert_eq!(view.source().0, tcp.source_port());
            assert_eq!(view.destination().0, tcp.destination_port());
            assert_eq!(view.sequence(), tcp.sequence_number());
            assert_eq!(view.header_bytes(), tcp.header_slice().len());
            (LayerKind::Tcp, tcp.slice())
        }
        TransportSlice::Udp(udp) => {
            let view = Udp::new(ours).unwrap();
            assert_eq!(view.source().0, udp.source_port());
            assert_eq!(view.destination().0, udp.destination_port());
            (LayerKind::Udp, udp.slice())
        }
        TransportSlice::Icmpv4(icmp) => (LayerKind::Icmp, icmp.slice()),
        TransportSlice::Icmpv6(icmp) => (LayerKind::Icmpv6, icmp.slice()),
        TransportSlice::Igmp(igmp) => (LayerKind::Igmp, igmp.slice()),
    };
    assert_eq!(layer.kind, kind);
    assert_eq!(layer.start(), offset(bytes, slice));
}

fn is_deliberate(bytes: &[u8], theirs: &LaxSlicedPacket<'_>, layers: &Layers) -> bool {
    let malformed = |kind| layers.stop() == Stop::Malformed(kind);
    let bad_ip = malformed(LayerKind::Ipv4) || malformed(LayerKind::Ipv6);
    let macsec =
        theirs.link_exts.iter().any(|e| !matches!(e, etherparse::LaxLinkExtSlice::Vlan(_)));
    Isl::is_isl(bytes) || bad_ip || malformed(LayerKind::Udp) || macsec
}

/// Where `part` lies in `whole`.
fn offset(whole: &[u8], part: &[u8]) -> usize {
    part.as_ptr() as usize - whole.as_ptr() as usize
}
