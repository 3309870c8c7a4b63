//! Flow keys, and headers that `build` writes, judged by `etherparse` and by our own views.

use proptest::prelude::*;
use ringside_core::LinkType;
use ringside_wire::build::{self, Ipv4Fields, Ipv6Fields, TcpFields};
use ringside_wire::checksum::Addresses;
use ringside_wire::{
    Discriminator, EtherType, FlowDirection, FlowKey, IpProtocol, Level, MacAddr, Port, Tcp,
    TunnelId, Verdict, dissect, verify_network, verify_transport,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One end: address and port.
type End = (IpAddr, u16);

fn headers(
    vlan: Option<u16>,
    from: IpAddr,
    to: IpAddr,
    protocol: IpProtocol,
    len: usize,
) -> Vec<u8> {
    let mut out = vec![0; 58];
    let inner = if from.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
    let outer = if vlan.is_some() { EtherType::VLAN } else { inner };
    let mut at = build::ethernet(&mut out, MacAddr([2; 6]), MacAddr([4; 6]), outer).unwrap();
    if let Some(id) = vlan {
        at += build::vlan(&mut out[at..], id, inner).unwrap();
    }
    at += match (from, to) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let (id, ttl, dont_fragment, payload_bytes) = (7, 64, true, len);
            let fields =
                Ipv4Fields { source, destination, protocol, id, ttl, dont_fragment, payload_bytes };
            build::ipv4(&mut out[at..], &fields).unwrap()
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let (next_header, flow_label, hop_limit) = (protocol, 0xf_1234, 64);
            let fields = Ipv6Fields {
                source,
                destination,
                next_header,
                flow_label,
                hop_limit,
                payload_bytes: len,
            };
            build::ipv6(&mut out[at..], &fields).unwrap()
        }
        _ => panic!("one family"),
    };
    out.truncate(at);
    out
}

fn addresses(from: IpAddr, to: IpAddr) -> Addresses {
    match (from, to) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Addresses::V4 { source, destination },
        (IpAddr::V6(source), IpAddr::V6(destination)) => Addresses::V6 { source, destination },
        _ => panic!("one family"),
    }
}

fn frame(vlan: Option<u16>, from: End, to: End, tcp: bool, payload: &[u8]) -> Vec<u8> {
    let header_bytes = if tcp { 20 } else { 8 };
    let mut segment = vec![0; header_bytes];
    segment.extend(payload);
    let (source, destination) = (Port(from.1), Port(to.1));
    let addresses = addresses(from.0, to.0);
    if tcp {
        let (sequence, acknowledgment, flags, window) = (1, 2, Tcp::SYN, 3);
        let fields = TcpFields { source, destination, sequence, acknowledgment, flags, window };
        build::tcp(&mut segment, addresses, &fields).unwrap();
    } else {
        build::udp(&mut segment, addresses, source, destination).unwrap();
    }
    let protocol = if tcp { IpProtocol::TCP } else { IpProtocol::UDP };
    let mut frame = headers(vlan, from.0, to.0, protocol, segment.len());
    frame.extend(segment);
    frame
}

fn key(frame: &[u8], level: Level) -> (FlowKey, FlowDirection) {
    FlowKey::of(frame, &dissect(frame, LinkType::ETHERNET), level).unwrap()
}

fn end(v6: bool, address: u32, port: u16) -> End {
    match v6 {
        true => (Ipv6Addr::from(u128::from(address) << 64 | 1).into(), port),
        false => (Ipv4Addr::from(address).into(), port),
    }
}

proptest! {
    #[test]
    fn built_frames_are_right_and_both_directions_have_one_key(
        v6: bool, tcp: bool, a: u32, b: u32,
        // Below the ports of tunnels, whose payload would be read.
        ports in (1u16..2000, 1u16..2000),
        vlan in proptest::option::of(0u16..4096),
        payload in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let (from, to) = (end(v6, a, ports.0), end(v6, b, ports.1));
        let there = frame(vlan, from, to, tcp, &payload);
        let layers = dissect(&there, LinkType::ETHERNET);
        prop_assert_eq!(&there[layers.payload()], &payload[..]);
        let network = verify_network(&there, &layers, Level::Outer);
        prop_assert_eq!(network, if v6 { Verdict::Absent } else { Verdict::Correct });
        let transport = verify_transport(&there, &layers, Level::Outer);
        prop_assert_eq!(transport, Verdict::Correct);

        // etherparse checks lengths strictly, and computes the checksum again.
        let theirs = etherparse::PacketHeaders::from_ethernet_slice(&there).unwrap();
        let checksum = match (theirs.net.unwrap(), theirs.transport.unwrap()) {
            (net, etherparse::TransportHeader::Tcp(tcp)) => (tcp.checksum, match net {
                etherparse::NetHeaders::Ipv4(ip, _) => tcp.calc_checksum_ipv4(&ip, &payload),
                etherparse::NetHeaders::Ipv6(ip, _) => tcp.calc_checksum_ipv6(&ip, &payload),
                other => panic!("{other:?}"),
            }),
            (net, etherparse::TransportHeader::Udp(udp)) => (udp.checksum, match net {
                etherparse::NetHeaders::Ipv4(ip, _) => udp.calc_checksum_ipv4(&ip, &payload),
                etherparse::NetHeaders::Ipv6(ip, _) => udp.calc_checksum_ipv6(&ip, &payload),
                other => panic!("{other:?}"),
            }),
            other => panic!("{other:?}"),
        };
        prop_assert_eq!(checksum.0, checksum.1.unwrap());

        let back = frame(vlan, to, from, tcp, &payload);
        let (forward, way) = key(&there, Level::Outer);
        let (reverse, other_way) = key(&back, Level::Inner);
        prop_assert_eq!(forward, reverse);
        prop_assert_eq!(way == other_way, from == to);
        prop_assert_eq!(forward.vlan, vlan);
        prop_assert_eq!(forward.tunnel, None);
        let (low, high) = if from <= to { (from, to) } else { (to, from) };
        prop_assert_eq!((forward.low, forward.high), (low.0, high.0));
        let expected = Discriminator::Ports { low: Port(low.1), high: Port(high.1) };
        prop_assert_eq!(forward.discriminator, expected);

        // A flipped bit of the payload is seen.
        let mut wrong = there.clone();
        if let Some(last) = wrong.last_mut().filter(|_| !payload.is_empty()) {
            *last ^= 1;
            let layers = dissect(&wrong, LinkType::ETHERNET);
            let verdict = verify_transport(&wrong, &layers, Level::Outer);
            let is_wrong = matches!(verdict, Verdict::Wrong { .. });
            prop_assert!(is_wrong);
        }
    }
}

#[test]
fn a_tunnel_is_part_of_the_inner_key_only() {
    let (a, b) = (end(false, 1, 5), end(false, 2, 6));
    let inner = frame(Some(9), a, b, true, b"");
    let mut payload = vec![8, 0, 0, 0, 0, 0, 42, 0];
    payload.extend(inner);
    let outer = frame(Some(3), end(true, 7, 100), end(true, 8, 4789), false, &payload);
    let (key_outer, _) = key(&outer, Level::Outer);
    assert_eq!((key_outer.tunnel, key_outer.vlan, key_outer.protocol.0), (None, Some(3), 17));
    let (key_inner, way) = key(&outer, Level::Inner);
    assert_eq!(key_inner.tunnel, Some(TunnelId::Vxlan(42)));
    assert_eq!((key_inner.vlan, key_inner.protocol.0), (Some(9), 6));
    assert_eq!(way, FlowDirection::LowToHigh);
}

#[test]
fn an_echo_and_its_reply_are_one_flow_and_later_fragments_have_no_ports() {
    let echo = |from: u32, to: u32, kind: u8| {
        let (from, to) = (Ipv4Addr::from(from).into(), Ipv4Addr::from(to).into());
        let mut frame = headers(None, from, to, IpProtocol::ICMP, 8);
        frame.extend([kind, 0, 0, 0, 0x12, 0x34, 0, 1]);
        frame
    };
    let (request, way) = key(&echo(1, 2, 8), Level::Outer);
    let (reply, back) = key(&echo(2, 1, 0), Level::Outer);
    assert_eq!(request, reply);
    assert_ne!(way, back);
    let expected = Discriminator::Icmp { kind: 8, code: 0, id: Some(0x1234) };
    assert_eq!(request.discriminator, expected);

    let mut later = frame(None, end(false, 1, 5), end(false, 2, 6), false, b"data");
    later[21] = 1;
    let (fragment, _) = key(&later, Level::Outer);
    assert_eq!((fragment.discriminator, fragment.protocol.0), (Discriminator::None, 17));
}
