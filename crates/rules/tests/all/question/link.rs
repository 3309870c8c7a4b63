//! Tags, labels, hardware addresses and types.

use super::frames::*;
use super::{dissected, judge};
use ringside_core::LinkType;
use ringside_inspect::DissectedFrame;
use ringside_wire::{EtherType, IpProtocol};

fn packet() -> Vec<u8> {
    ip4("10.0.0.1", "192.0.2.2", IpProtocol::UDP, &udp(53, 54, b"x"))
}

#[test]
fn hardware_addresses() {
    let frame = ethernet(EtherType::IPV4, &packet());
    let yes = [
        "src mac 02:00:5e:10:00:01",
        "dst mac 04:00:00:00:00:09",
        "mac 04:00:00:00:00:09",
        "src mac 02:00:00:00:00:00/8",
        "mac 00:00:00:00:00:01/00:00:00:00:00:ff",
        "mac 00:00:00:00:00:00/0",
        "src mac 04:00:00:00:00:09 bidir",
    ];
    let no = ["src mac 04:00:00:00:00:09", "dst mac 02:00:00:00:00:00/8", "mac 2:0:5e:10:0:2"];
    judge(&dissected(&frame), &yes, &no);
    let raw = packet();
    let raw = DissectedFrame::new(&raw, raw.len() as u32, LinkType::RAW);
    let no = ["mac 00:00:00:00:00:00/0", "ethertype 0-", "vlan any", "mpls 0-"];
    judge(&raw, &["ip4", "port 53", "bytes net = 45"], &no);
}

#[test]
fn tags() {
    let inside = tag(5, EtherType::IPV4, &packet());
    let one = ethernet(EtherType::VLAN, &inside);
    let yes = ["vlan 5", "vlan any", "vlan 1-4,5", "ethertype vlan", "ethertype ip", "port 53"];
    judge(&dissected(&one), &yes, &["vlan 6", "vlan 0-4", "ethertype ip6", "ethertype qinq"]);

    let two = ethernet(EtherType::QINQ, &tag(100, EtherType::VLAN, &inside));
    let yes = ["vlan 100", "vlan 5", "ethertype qinq", "ethertype vlan", "vlan 5 vlan 100"];
    judge(&dissected(&two), &yes, &["vlan 99", "vlan 6-99"]);

    let untagged = ethernet(EtherType::IPV4, &packet());
    judge(&dissected(&untagged), &["ethertype ip"], &["vlan any", "ethertype vlan"]);

    // No network header behind it.
    let lldp = ethernet(EtherType::VLAN, &tag(7, EtherType(0x88cc), &[2, 7, 4]));
    judge(&dissected(&lldp), &["vlan 7", "ethertype lldp"], &["ip4", "inner (any)"]);

    // The tag is cut, its announcement is not.
    let cut = DissectedFrame::new(&one[..16], one.len() as u32, LinkType::ETHERNET);
    judge(&cut, &["ethertype vlan"], &["vlan any", "ethertype ip"]);
}

#[test]
fn labels() {
    let frame = ethernet(EtherType::MPLS, &mpls(&[16, 1000], &packet()));
    let yes = ["mpls 16", "mpls 1000", "mpls 900-1100", "ethertype mpls", "ip4", "port 53"];
    judge(&dissected(&frame), &yes, &["mpls 17", "mpls 17-999", "inner (any)", "ethertype ip"]);

    // A pseudowire: what it carries is not of the outer link layer.
    let customer = ethernet(EtherType::VLAN, &tag(9, EtherType::IPV4, &packet()));
    let wire = [vec![0; 4], customer].concat();
    let frame = ethernet(EtherType::VLAN, &tag(3, EtherType::MPLS, &mpls(&[40], &wire)));
    let yes = ["vlan 3", "mpls 40", "ip 10.0.0.1", "udp"];
    judge(&dissected(&frame), &yes, &["vlan 9", "ethertype ip", "inner (any)"]);
}

/// Cisco's metadata has the type of what follows at its end, behind GRE at its beginning.
#[test]
fn types_behind_metadata() {
    let (ip, options) = (EtherType::IPV4.0.to_be_bytes(), [1, 1, 0, 1, 0, 5]);
    let header = [&options[..], &ip, &packet()].concat();
    let frame = ethernet(EtherType::CMD, &header);
    judge(&dissected(&frame), &["ethertype 0x8909", "ethertype ip", "port 53"], &["ethertype 1-9"]);
    let header = [&ip[..], &options, &packet()].concat();
    let frame = plain(IpProtocol::GRE, &gre(EtherType::CMD, &header));
    let yes = ["inner (ethertype ip)", "inner (port 53)", "ethertype ip"];
    judge(&dissected(&frame), &yes, &["inner (ethertype 0x8909)", "ethertype 0x8909"]);
    // Not taken from the outer link layer, which has another type here.
    let frame = ethernet(EtherType::IPV6, &ip6("::1", "::2", IpProtocol::GRE, &frame[34..]));
    judge(
        &dissected(&frame),
        &["inner (ethertype ip)"],
        &["ethertype ip", "inner (ethertype ip6)"],
    );
}

#[test]
fn types_of_other_link_layers() {
    let mut snap = vec![0xaa, 0xaa, 3, 0, 0, 0];
    snap.extend_from_slice(&EtherType::IPV4.0.to_be_bytes());
    snap.extend_from_slice(&packet());
    let frame = ethernet(EtherType(snap.len() as u16), &snap);
    judge(&dissected(&frame), &["ethertype ip", "ip4"], &["ethertype 0-1500", "ethertype arp"]);

    let mut cooked = vec![0, 0, 0, 1, 0, 6, 2, 0, 0x5e, 0x10, 0, 1, 0, 0, 0x08, 0x06];
    cooked.extend_from_slice(&arp());
    let cooked = DissectedFrame::new(&cooked, 44, LinkType::LINUX_SLL);
    judge(&cooked, &["ethertype arp"], &["mac 02:00:5e:10:00:01", "ethertype ip"]);

    let unknown = DissectedFrame::new(&[0; 60], 60, LinkType::IEEE802_11);
    judge(&unknown, &["any", "length 60", "bytes frame+59 = 00"], &["ethertype 0-", "ip4"]);
}
