//! Outer and inner headers.

use super::frames::*;
use super::{dissected, judge};
use ringside_core::LinkType;
use ringside_inspect::DissectedFrame;
use ringside_rules::key::Key;
use ringside_wire::{EtherType, IpProtocol, Level, Tcp};

/// From 172.16.0.1, port 1025, to 172.16.0.2, port 80.
fn customer() -> Vec<u8> {
    let segment = tcp(1025, 80, Tcp::SYN, b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    ip4("172.16.0.1", "172.16.0.2", IpProtocol::TCP, &segment)
}

const INNER: [&str; 9] = [
    "inner (ip 172.16.0.1)",
    "inner (src ip 172.16.0.0/12 and tcp and dst port 80)",
    "inner (tcpflags syn,!ack)",
    "inner (bytes transport+2 = 0050)",
    "inner (bytes net+9 = 06)",
    "inner (payload \"GET\" at 0)",
    "inner (http.host a.example)",
    "inner (src port 80) bidir",
    "not inner (udp)",
];

#[test]
fn vxlan_has_a_link_layer_of_its_own() {
    let inside = ethernet(EtherType::VLAN, &tag(9, EtherType::IPV4, &customer()));
    let outside = ip4("10.0.0.1", "10.0.0.2", IpProtocol::UDP, &vxlan(&inside));
    let frame = ethernet(EtherType::VLAN, &tag(3, EtherType::IPV4, &outside));
    let dissected = dissected(&frame);
    judge(&dissected, &INNER, &["inner (udp)", "inner (ip 10.0.0.1)", "inner (vlan 3)"]);
    let yes = [
        "inner (vlan 9 and ethertype vlan and ethertype ip)",
        "inner (src mac 02:00:5e:10:00:01)",
        "udp dst port 4789",
        "vlan 3",
        "ip 10.0.0.1 inner (ip 172.16.0.1)",
        "payload hex \"08 00 00 00 00 00 4d\" at 0",
        "payload \"a.example\"",
    ];
    let no = ["vlan 9", "tcp", "ip 172.16.0.1", "http.host a.example", "tcpflags syn"];
    judge(&dissected, &yes, &no);
    let inner = Key::of(&dissected, Level::Inner);
    assert_eq!((inner.ports(), inner.protocol()), (Some((1025, 80)), Some(6)));
    assert_eq!(Key::of(&dissected, Level::Outer).ports(), Some((50_000, 4789)));

    // Cut within the inner IP header: no tunnel is seen, and the outer headers stay.
    let cut = DissectedFrame::new(&frame[..80], frame.len() as u32, LinkType::ETHERNET);
    judge(&cut, &["udp port 4789", "vlan 3"], &["inner (any)", "inner (not any)", "vlan 9"]);
}

#[test]
fn ip_in_ip_and_gre_have_none() {
    let no = ["inner (vlan any)", "inner (mac 0:0:0:0:0:0/0)", "inner (ethertype 0-)"];
    let frame = plain(IpProtocol::IPV4, &customer());
    judge(&dissected(&frame), &INNER, &no);
    judge(
        &dissected(&frame),
        &["proto ipip", "ip 10.0.0.1"],
        &["tcp", "port 80", "payload \"GET\""],
    );

    let frame = plain(IpProtocol::GRE, &gre(EtherType::IPV4, &customer()));
    judge(&dissected(&frame), &INNER, &no);
    judge(&dissected(&frame), &["gre"], &["bytes transport = 00/00", "tcp"]);

    let labelled = gre(EtherType::MPLS, &mpls(&[20], &customer()));
    let frame = plain(IpProtocol::GRE, &labelled);
    judge(&dissected(&frame), &INNER, &["mpls 20", "inner (mpls 21)"]);
    judge(&dissected(&frame), &["inner (mpls 20)"], &[]);

    let inside = ethernet(EtherType::IPV4, &customer());
    let frame = plain(IpProtocol::GRE, &gre(EtherType::TEB, &inside));
    judge(&dissected(&frame), &INNER, &["inner (ethertype arp)"]);
    judge(&dissected(&frame), &["inner (ethertype ip mac 04:00:00:00:00:09)"], &[]);
}

#[test]
fn the_innermost_of_several() {
    let middle = ip4("10.1.0.1", "10.1.0.2", IpProtocol::IPV4, &customer());
    let frame = plain(IpProtocol::IPV4, &middle);
    judge(&dissected(&frame), &INNER, &["inner (ip 10.1.0.1)", "ip 10.1.0.1"]);
    let v6 = ip6("2001:db8::1", "2001:db8::2", IpProtocol::IPV4, &customer());
    let frame = ethernet(EtherType::IPV6, &v6);
    judge(&dissected(&frame), &INNER, &["inner (ip6)", "ip4"]);
    judge(&dissected(&frame), &["ip6 inner (ip4)"], &[]);
}

#[test]
fn what_is_no_tunnel() {
    let no = ["inner (any)", "inner (not any)", "inner (tcp)"];
    let frame = ethernet(EtherType::IPV4, &customer());
    judge(&dissected(&frame), &["tcp", "not inner (any)"], &no);
    // It carries no network header.
    let lldp = ethernet(EtherType::VLAN, &tag(9, EtherType(0x88cc), &[2, 7, 4]));
    let frame = plain(IpProtocol::UDP, &vxlan(&lldp));
    judge(&dissected(&frame), &["udp", "ethertype ip"], &no);
    judge(&dissected(&frame), &[], &["vlan 9", "ethertype lldp", "inner (vlan 9)"]);
    // An inner ARP is one, without addresses.
    let inside = ethernet(EtherType::ARP, &arp());
    let frame = plain(IpProtocol::UDP, &vxlan(&inside));
    let yes = ["inner (ethertype arp)", "inner (bytes net+14 = 0a000001)", "inner (not ip4)"];
    judge(
        &dissected(&frame),
        &yes,
        &["inner (ip 10.0.0.1)", "inner (udp)", "inner (payload \"x\")"],
    );
}

#[test]
fn the_payload_of_a_tunnel_ends_where_its_datagram_ends() {
    // The inner frame is padded, the outer one too.
    let inside = [ethernet(EtherType::IPV4, &customer()), b"inner pad".to_vec()].concat();
    let frame = [plain(IpProtocol::UDP, &vxlan(&inside)), b"outer pad".to_vec()].concat();
    let no = ["payload \"outer\"", "inner (payload \"inner\")", "inner (payload \"outer\")"];
    judge(&dissected(&frame), &["payload \"inner pad\""], &no);
}
