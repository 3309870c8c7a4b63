//! Properties of dissection that hold for every input.

use ringside_core::LinkType;
use ringside_testkit::fuzz;
use ringside_wire::{
    FiveTuple, FlowKey, LayerKind, Layers, Level, Stop, TunnelId, dissect, verify_network,
    verify_transport,
};

const LINKS: [LinkType; 17] = [
    LinkType::ETHERNET,
    LinkType::NULL,
    LinkType::LOOP,
    LinkType::RAW,
    LinkType::IPV4,
    LinkType::IPV6,
    LinkType::LINUX_SLL,
    LinkType::LINUX_SLL2,
    LinkType::PPP,
    LinkType::C_HDLC,
    LinkType::IEEE802_11,
    LinkType::IEEE802_11_RADIOTAP,
    LinkType::FRELAY,
    LinkType::NFLOG,
    LinkType::FDDI,
    LinkType::DSA_TAG_DSA,
    LinkType::DSA_TAG_EDSA,
];

/// Layers follow each other, lie within the bytes, and their views can be had.
fn check(bytes: &[u8], layers: &Layers) {
    let mut at = 0;
    for layer in layers.iter() {
        assert_eq!(layer.start(), at, "{layers:?}");
        assert!(layer.header_bytes > 0);
        at = layer.end();
    }
    assert!(at <= bytes.len());
    assert_eq!(layers.payload_offset(), at);
    assert!(layers.payload().end >= at && layers.payload().end <= bytes.len());
    for level in [Level::Outer, Level::Inner] {
        if let Some((key, _)) = FlowKey::of(bytes, layers, level) {
            assert!(key.low <= key.high);
        }
        if let Some(payload) = layers.transport_payload(level) {
            assert!(payload.start <= payload.end && payload.end <= bytes.len(), "{layers:?}");
            if layers.last() == layers.transport(level) {
                assert_eq!(payload, layers.payload(), "{layers:?}");
            }
        }
        verify_network(bytes, layers, level);
        verify_transport(bytes, layers, level);
    }
    TunnelId::innermost(bytes, layers);
}

/// The short way to the addresses and ports of a plain frame leads where the long one does.
fn check_plain(link: LinkType, bytes: &[u8], layers: &Layers) {
    if link == LinkType::ETHERNET
        && let Some(plain) = FiveTuple::of_plain(bytes)
    {
        assert_eq!(Some(plain), FiveTuple::of(bytes, layers, Level::Outer), "{layers:?}");
    }
}

/// The layers of a frame that was cut are the first of the whole frame's, and only a cut frame is
/// called truncated.
#[test]
fn layers_of_a_prefix_are_a_prefix_of_the_layers() {
    let mut frames = crate::support::corpus("layers_of_a_prefix_are_a_prefix_of_the_layers");
    // Headers lie in front: longer prefixes of the same frame say nothing new.
    frames.iter_mut().for_each(|(_, bytes)| bytes.truncate(300));
    frames.sort();
    frames.dedup();
    for (link, bytes) in &frames {
        let whole = dissect(bytes, *link);
        for cut in 0..bytes.len() {
            let prefix = &bytes[..cut];
            let layers = dissect(prefix, *link);
            assert!(whole.as_slice().starts_with(layers.as_slice()), "{bytes:02x?} {cut}");
            check(prefix, &layers);
            check_plain(*link, prefix, &layers);
            let missing = whole.as_slice().len() - layers.as_slice().len();
            if missing > 0 {
                let next = whole.as_slice()[layers.as_slice().len()].kind;
                assert!(is_cut_before(layers.stop(), next), "{layers:?} {next}");
            }
        }
    }
    eprintln!("{} frames", frames.len());
}

/// Where nothing is left of a packet inside MPLS or a tunnel, its version is not known yet.
fn is_cut_before(stop: Stop, next: LayerKind) -> bool {
    match stop {
        Stop::Truncated(LayerKind::Ipv4 | LayerKind::ControlWord) => {
            matches!(next, LayerKind::Ipv4 | LayerKind::Ipv6 | LayerKind::ControlWord)
        }
        // An SLL2 frame is cut in a view that both versions share.
        Stop::Truncated(kind) => {
            kind == next
                || (kind, next) == (LayerKind::Vlan, LayerKind::QinQ)
                || (kind, next) == (LayerKind::Ethernet, LayerKind::Isl)
        }
        _ => false,
    }
}

#[test]
fn dissect_survives_mutated_captures() {
    let seeds: Vec<Vec<u8>> = crate::support::corpus("dissect_survives_mutated_captures")
        .into_iter()
        .map(|(_, mut bytes)| {
            bytes.truncate(600);
            bytes
        })
        .collect();
    fuzz("dissect", 300_000, &seeds, |bytes| {
        // The right link type for most seeds, and one of the others to reach the rest.
        let other = LINKS[bytes.len() % LINKS.len()];
        for link in [LinkType::ETHERNET, other] {
            let layers = dissect(bytes, link);
            check(bytes, &layers);
            check_plain(link, bytes, &layers);
        }
    });
}

#[test]
fn a_chain_of_headers_is_bounded() {
    // IPv4 in IPv4, and tags in tags, far beyond any limit.
    let ip = [0x45, 0, 0, 0, 0, 0, 0, 0, 9, 4, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let nested: Vec<u8> = ip.iter().copied().cycle().take(20 * 100).collect();
    let layers = dissect(&nested, LinkType::RAW);
    assert_eq!(layers.stop(), Stop::DepthLimit);
    assert_eq!(layers.as_slice().len(), ringside_wire::layers::TUNNELS_MAX + 1);

    let mut tags = vec![0; 12];
    tags.extend([0x81, 0x00, 0x00, 0x05].repeat(100));
    let layers = dissect(&tags, LinkType::ETHERNET);
    assert_eq!(layers.stop(), Stop::DepthLimit);
    assert_eq!(layers.as_slice().len(), ringside_wire::layers::LAYERS_MAX);
}
