//! Headers that captures seldom hold, byte by byte from their documents.

use ringside_core::LinkType;
use ringside_wire::{
    Cmd, Erspan, EtherType, Fragment, Geneve, Gre, GtpU, Isl, LayerKind, Level, MacAddr, Mpls, Ppp,
    Stop, TunnelId, VnTag, Vxlan, WireError, dissect,
};

pub(crate) fn kinds(bytes: &[u8], link: LinkType) -> (Vec<LayerKind>, Stop) {
    let layers = dissect(bytes, link);
    (layers.iter().map(|layer| layer.kind).collect(), layers.stop())
}

fn ethernet(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(ether_type.to_be_bytes());
    frame.extend(payload);
    frame
}

/// IPv4 from 10.0.0.1 to 10.0.0.2 around `payload`.
pub(crate) fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let total = 20 + payload.len() as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(total.to_be_bytes());
    packet.extend([0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend(payload);
    packet
}

pub(crate) fn udp(destination: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = 4000u16.to_be_bytes().to_vec();
    packet.extend(destination.to_be_bytes());
    packet.extend((8 + payload.len() as u16).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(payload);
    packet
}

#[test]
fn isl_carries_an_ethernet_frame() {
    let mut frame =
        vec![1, 0, 0x0c, 0, 0, 0x03, 0, 1, 2, 3, 4, 5, 0, 60, 0xaa, 0xaa, 3, 0, 0, 0x0c];
    frame.extend([0x00, 0x15, 0x12, 0x34, 0, 0]);
    let isl_bytes = frame.clone();
    let isl = Isl::new(&isl_bytes).unwrap();
    assert_eq!((isl.frame_type(), isl.user(), isl.length()), (0, 3, 60));
    assert_eq!((isl.vlan_id(), isl.is_bpdu(), isl.index()), (10, true, 0x1234));
    assert_eq!(isl.source(), MacAddr([0, 1, 2, 3, 4, 5]));
    frame.extend(ethernet(0x0800, &ipv4(17, &udp(53, b"x"))));
    let expected = [LayerKind::Isl, LayerKind::Ethernet, LayerKind::Ipv4, LayerKind::Udp];
    assert_eq!(kinds(&frame, LinkType::ETHERNET), (expected.to_vec(), Stop::Complete));
    frame[5] = 0x13; // Token Ring
    assert_eq!(kinds(&frame, LinkType::ETHERNET).1, Stop::Unknown { protocol: 1 });
}

#[test]
fn vn_tag_and_cisco_metadata() {
    let tag = [0xc0, 0x05, 0xa0, 0x07, 0x08, 0x00];
    let view = VnTag::new(&tag).unwrap();
    assert!(view.to_interface() && view.is_pointer() && view.is_looped());
    assert_eq!((view.destination(), view.version(), view.source()), (5, 2, 7));
    assert_eq!(view.ether_type(), EtherType::IPV4);

    let cmd = [1, 1, 0, 1, 0x12, 0x34, 0x81, 0x00];
    let view = Cmd::new(&cmd).unwrap();
    assert_eq!((view.version(), view.security_group()), (1, Some(0x1234)));
    assert_eq!((view.header_bytes(), view.ether_type()), (8, EtherType::VLAN));

    let mut payload = tag[..4].to_vec();
    payload.extend([0x89, 0x09]);
    payload.extend(cmd);
    payload.extend([0, 5, 0x08, 0x00]);
    payload.extend(ipv4(1, &[8, 0, 0, 0, 0, 1, 0, 2]));
    let expected = [
        LayerKind::Ethernet,
        LayerKind::VnTag,
        LayerKind::Cmd,
        LayerKind::Vlan,
        LayerKind::Ipv4,
        LayerKind::Icmp,
    ];
    let frame = ethernet(0x8926, &payload);
    assert_eq!(kinds(&frame, LinkType::ETHERNET), (expected.to_vec(), Stop::Complete));
}

#[test]
fn gre_with_every_field() {
    let all = [0xb0, 0, 0x65, 0x58, 0xab, 0xcd, 0, 0, 0, 0x12, 0x34, 0x56, 0, 0, 0, 9];
    let gre = Gre::new(&all).unwrap();
    assert_eq!(
        (gre.checksum(), gre.key(), gre.sequence()),
        (Some(0xabcd), Some(0x123456), Some(9))
    );
    assert_eq!((gre.virtual_subnet(), gre.header_bytes()), (Some(0x1234), 16));

    let pptp = [0x30, 0x81, 0x88, 0x0b, 0, 4, 0, 7, 0, 0, 0, 1, 0, 0, 0, 2];
    let gre = Gre::new(&pptp).unwrap();
    assert_eq!((gre.version(), gre.call_id()), (1, Some(7)));
    assert_eq!((gre.sequence(), gre.acknowledgment()), (Some(1), Some(2)));
    assert_eq!(gre.checksum(), None);

    // Two source routes; the second ends the list.
    let routed = [0x40, 0, 8, 0, 0, 0, 0, 0, 8, 0, 0, 4, 1, 2, 3, 4, 0, 0, 0, 0];
    assert_eq!(Gre::new(&routed).unwrap().header_bytes(), 20);
    assert!(matches!(Gre::new(&routed[..14]), Err(WireError::Truncated { .. })));
    let version_2 = [0, 2, 8, 0];
    let error = Gre::new(&version_2).unwrap_err();
    assert_eq!(error.to_string(), "gre has version 2");
}

#[test]
fn erspan_of_three_types() {
    let inner = ethernet(0x0806, &[0, 1, 8, 0, 6, 4, 0, 1]);
    let mut one = vec![0, 0, 0x88, 0xbe];
    one.extend(&inner);
    let two = [0x10, 0x64, 0x20, 0x05, 0, 0, 0, 7];
    let view = Erspan::new(&two).unwrap();
    assert_eq!((view.version(), view.vlan_id(), view.session()), (1, 100, 5));
    assert_eq!((view.class_of_service(), view.index(), view.header_bytes()), (1, Some(7), 8));
    let three = [0x20, 0x64, 0x00, 0x05, 0, 0, 0, 9, 0, 0, 0x08, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let view = Erspan::new(&three).unwrap();
    assert_eq!((view.version(), view.timestamp(), view.frame_type()), (2, Some(9), 2));
    assert_eq!(view.header_bytes(), 20);

    let start = [LayerKind::Ethernet, LayerKind::Ipv4, LayerKind::Gre];
    let frame = ethernet(0x0800, &ipv4(47, &one));
    let expected = [&start[..], &[LayerKind::Ethernet]].concat();
    assert_eq!(kinds(&frame, LinkType::ETHERNET).0, expected);
    let mut gre = vec![0x10, 0, 0x22, 0xeb, 0, 0, 0, 1];
    gre.extend(three);
    gre.extend(ipv4(6, &[]));
    let frame = ethernet(0x0800, &ipv4(47, &gre));
    let expected = [&start[..], &[LayerKind::Erspan, LayerKind::Ipv4]].concat();
    // The inner packet says that it is 20 bytes long: no room for TCP, and nothing was cut.
    let stop = Stop::Malformed(LayerKind::Tcp);
    assert_eq!(kinds(&frame, LinkType::ETHERNET), (expected, stop));
}

#[test]
fn gtp_u_with_extension_headers() {
    let mut gtp = vec![0x36, 255, 0, 0, 0, 0, 0, 0x2a, 0, 7, 0, 0x85];
    gtp.extend([1, 0x10, 0x05, 0xc0]); // PDU session container, then another
    gtp.extend([2, 1, 2, 3, 4, 5, 6, 0]);
    let inner = ipv4(17, &udp(53, b"query"));
    gtp[2..4].copy_from_slice(&(16 + inner.len() as u16).to_be_bytes());
    gtp.extend(&inner);
    let view = GtpU::new(&gtp).unwrap();
    assert_eq!((view.teid(), view.sequence(), view.header_bytes()), (42, Some(7), 24));
    let extensions: Vec<(u8, &[u8])> = view.extensions().collect();
    assert_eq!(extensions, [(0x85, &[0x10, 0x05][..]), (0xc0, &[1, 2, 3, 4, 5, 6][..])]);
    assert_eq!(view.payload(), inner);

    let frame = ethernet(0x0800, &ipv4(17, &udp(2152, &gtp)));
    let layers = dissect(&frame, LinkType::ETHERNET);
    assert_eq!(layers.last().unwrap().kind, LayerKind::Udp);
    assert_eq!(&frame[layers.payload()], b"query");
    assert_eq!(TunnelId::innermost(&frame, &layers), Some(TunnelId::GtpU(42)));
    assert!(layers.is_tunnelled());
    gtp[12] = 0;
    assert!(matches!(GtpU::new(&gtp), Err(WireError::Malformed { .. })));
}

#[test]
fn vxlan_and_geneve() {
    let vxlan = [0x88, 0, 0, 9, 0x12, 0x34, 0x56, 0];
    let view = Vxlan::new(&vxlan).unwrap();
    assert_eq!((view.vni(), view.group_policy(), view.flags()), (0x123456, Some(9), 0x8800));
    assert!(Vxlan::new(&[0; 8]).is_err());
    let geneve = [0x01, 0xc0, 0x65, 0x58, 0, 0, 9, 0, 1, 2, 3, 4];
    let view = Geneve::new(&geneve).unwrap();
    assert_eq!(
        (view.vni(), view.protocol(), view.options()),
        (9, EtherType::TEB, &[1, 2, 3, 4][..])
    );
    assert!(view.is_control() && view.has_critical_options());
}

#[test]
fn mpls_pseudowires_and_their_limits() {
    let mut stack = vec![0, 1, 0x06, 64, 0, 2, 0x01, 63];
    let view = Mpls::new(&stack).unwrap();
    let labels: Vec<_> = view.labels().map(|l| (l.value(), l.traffic_class(), l.ttl())).collect();
    assert_eq!(labels, [(16, 3, 64), (32, 0, 63)]);
    stack.extend([0, 0, 0, 1]); // control word
    stack.extend(ethernet(0x0800, &ipv4(6, &[])));
    let frame = ethernet(0x8847, &stack);
    let expected = [
        LayerKind::Ethernet,
        LayerKind::Mpls,
        LayerKind::ControlWord,
        LayerKind::Ethernet,
        LayerKind::Ipv4,
    ];
    assert_eq!(kinds(&frame, LinkType::ETHERNET).0, expected);
    let endless = [0, 0, 0, 0].repeat(100);
    let stop = kinds(&ethernet(0x8847, &endless), LinkType::ETHERNET).1;
    assert_eq!(stop, Stop::Malformed(LayerKind::Mpls));
}

#[test]
fn ppp_in_its_three_shapes() {
    for (bytes, header_bytes) in
        [(&[0xff, 3, 0, 0x21][..], 4), (&[0, 0x21][..], 2), (&[0x21][..], 1)]
    {
        let ppp = Ppp::new(bytes).unwrap();
        assert_eq!((ppp.protocol(), ppp.header_bytes()), (Ppp::IPV4, header_bytes));
    }
    assert!(Ppp::new(&[0xff]).is_err());
}

#[test]
fn ipv6_with_all_its_headers() {
    let mut packet = vec![0x60, 0, 0, 0, 0, 0, 0, 64];
    packet.extend([0xfe; 16]);
    packet.extend([0xfd; 16]);
    packet.extend([60, 0, 1, 4, 0, 0, 0, 0]); // hop by hop
    packet.extend([43, 0, 1, 4, 0, 0, 0, 0]); // destination options
    packet.extend([51, 0, 0, 0, 0, 0, 0, 0]); // routing
    packet.extend([44, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2]); // authentication
    packet.extend([17, 0, 0, 1, 0, 0, 0, 3]); // first fragment
    packet.extend(udp(4789, &[8, 0, 0, 0, 0, 0, 1, 0]));
    packet[6] = 0;
    let length = packet.len() as u16 - 40;
    packet[4..6].copy_from_slice(&length.to_be_bytes());
    let layers = dissect(&packet, LinkType::IPV6);
    let kinds: Vec<LayerKind> = layers.iter().map(|layer| layer.kind).collect();
    let expected = [
        LayerKind::Ipv6,
        LayerKind::HopByHop,
        LayerKind::DestinationOptions,
        LayerKind::Routing,
        LayerKind::Auth,
        LayerKind::Fragment,
        LayerKind::Udp,
        LayerKind::Vxlan,
    ];
    assert_eq!(kinds, expected);
    assert_eq!(layers.fragment(Level::Outer), Fragment::First);
    // All of the packet is there by its own length, so the missing frame is not a cut.
    assert_eq!(layers.stop(), Stop::Malformed(LayerKind::Ethernet));
    let at = layers.find(LayerKind::Fragment).unwrap().start();
    packet[at + 2] = 1;
    let layers = dissect(&packet, LinkType::IPV6);
    assert_eq!(
        (layers.stop(), layers.fragment(Level::Outer)),
        (Stop::LaterFragment, Fragment::Later)
    );
    assert_eq!(layers.transport(Level::Outer), None);
}
