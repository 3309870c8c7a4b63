//! Questions against libpcap's meaning, on every frame of every real capture, wherever a rule and
//! a filter expression say the same about the outermost headers.

use super::{COMPILER, matches};
use crate::common::captures;
use ringside_core::LinkType;
use ringside_filter::{Prepared, compile};
use ringside_inspect::DissectedFrame;
use ringside_rules::Question;
use ringside_wire::{EtherType, Layer, LayerKind, Level, Stop};
use std::collections::{BTreeMap, BTreeSet};

/// A rule's match, and the same in pcap-filter(7), whose `tcp[]` and `udp[]` are about IPv4 alone.
const PAIRS: [(&str, &str); 58] = [
    ("any", ""),
    ("ip4", "ip"),
    ("ip6", "ip6"),
    ("ethertype arp", "arp"),
    ("ethertype ip", "ether proto 0x800"),
    ("ethertype 0x88cc", "ether proto 0x88cc"),
    ("tcp", "tcp"),
    ("udp", "udp"),
    ("sctp", "sctp"),
    ("icmp", "icmp"),
    ("icmp6", "icmp6"),
    ("igmp", "igmp"),
    ("gre", "proto 47"),
    ("proto ospf", "proto 89"),
    ("proto ipip,ipv6", "proto 4 or proto 41"),
    ("not udp", "not udp"),
    ("src ip 10.0.0.0/8", "src net 10.0.0.0/8"),
    ("dst ip 10.0.0.0/8", "dst net 10.0.0.0/8"),
    ("ip 192.168.0.0/16", "net 192.168.0.0/16"),
    ("ip 192.168.1.1", "host 192.168.1.1"),
    ("src ip 127.0.0.1 dst ip 127.0.0.1", "src and dst host 127.0.0.1"),
    ("dst ip 224.0.0.0/4", "ip and dst net 224.0.0.0/4"),
    ("ip 0.0.0.0-127.255.255.255", "net 0.0.0.0/1"),
    ("ip fe80::/10", "net fe80::/10"),
    ("src ip 2001:db8::/32", "src net 2001:db8::/32"),
    ("dst ip ff00::/8", "dst net ff00::/8"),
    ("ip ::1", "host ::1"),
    ("port 53", "port 53"),
    ("src port 53", "src port 53"),
    ("dst port 53", "dst port 53"),
    ("port 80,443", "port 80 or port 443"),
    ("tcp port 80", "tcp port 80"),
    ("udp port 5060", "udp port 5060"),
    ("sctp port 0-65535", "sctp portrange 0-65535"),
    ("port 1024-", "portrange 1024-65535"),
    ("udp dst port 0-1023", "udp dst portrange 0-1023"),
    ("not port 53", "not port 53"),
    (
        "src ip 10.0.0.0/8 src port 1024- bidir",
        "(src net 10.0.0.0/8 and src portrange 1024-65535) or \
         (dst net 10.0.0.0/8 and dst portrange 1024-65535)",
    ),
    ("mac ff:ff:ff:ff:ff:ff", "ether host ff:ff:ff:ff:ff:ff"),
    ("src mac 00:00:00:00:00:00", "ether src 00:00:00:00:00:00"),
    ("dst mac 01:00:00:00:00:00/1:0:0:0:0:0", "ether[0] & 1 != 0"),
    ("length -64", "less 64"),
    ("length 1000-", "greater 1000"),
    ("length 60", "len = 60"),
    ("tcpflags syn", "tcp[13] & 2 != 0 or (ip6[6] = 6 and ip6[53] & 2 != 0)"),
    ("tcpflags syn,!ack", "tcp[13] & 0x12 = 2 or (ip6[6] = 6 and ip6[53] & 0x12 = 2)"),
    ("tcpflags !fin", "tcp[13] & 1 = 0 or (ip6[6] = 6 and ip6[53] & 1 = 0)"),
    ("ip4 bytes net+8 = 40", "ip[8] = 0x40"),
    (
        "tcp bytes transport+12 = 50/f0",
        "tcp[12] & 0xf0 = 0x50 or (ip6[6] = 6 and ip6[52] & 0xf0 = 0x50)",
    ),
    ("udp bytes transport+4 = 00/ff", "udp[4] = 0 or (ip6[6] = 17 and ip6[44] = 0)"),
    ("bytes frame+12 = 0800", "ether[12:2] = 0x800"),
    ("vlan any", "vlan"),
    ("mpls 0-", "mpls"),
    ("vlan any tcp", "vlan and tcp"),
    ("vlan any ip 10.0.0.0/8", "vlan and net 10.0.0.0/8"),
    ("vlan any udp port 53", "vlan and udp port 53"),
    (
        "vlan 100-199 ip4",
        "vlan and ether[14:2] & 0xfff >= 100 and ether[14:2] & 0xfff < 200 and ip",
    ),
    ("filter \"tcp port 80 or arp\"", "tcp port 80 or arp"),
];

/// Why the two may differ about a frame; none if they may not. Each reason explains one direction:
/// the rule finds what the filter does not, or the other way round.
fn explained(
    (rule, filter): (&str, &str),
    dissected: &DissectedFrame<'_>,
    ours: bool,
) -> Option<&'static str> {
    let layers = dissected.layers();
    let finds = ours != rule.starts_with("not ");
    let network = layers.network(Level::Outer).map(|layer| layer.kind);
    let all = layers.as_slice();
    let is_network = |layer: &Layer| layer.kind.is_network();
    let headers = all.iter().position(is_network).unwrap_or(all.len());
    // What libpcap reads before IP: one header of the link, and a tag if it was asked for one.
    let read = usize::from(!all.first().is_some_and(is_network))
        + usize::from(filter.starts_with("vlan and"));
    let behind = all.get(headers + 1).map(|layer| layer.kind);
    let is_extension = matches!(
        behind,
        Some(
            LayerKind::HopByHop
                | LayerKind::Routing
                | LayerKind::Fragment
                | LayerKind::DestinationOptions
                | LayerKind::Auth
        )
    );
    let is_cut = matches!(layers.stop(), Stop::Truncated(_) | Stop::Malformed(_));
    let is_ipv6 = network == Some(LayerKind::Ipv6);
    let reasons = if finds {
        let is_short = all.first().is_some_and(|l| l.kind == LayerKind::Ppp && l.header_bytes < 4);
        // Two bytes of address, then a network protocol id (gencode.c, DLT_FRELAY).
        let is_relayed = all.first().is_some_and(|l| l.kind == LayerKind::FrameRelay);
        vec![
            (is_short, "it knows one length of the header of PPP"),
            (is_relayed, "it knows one form of the header of frame relay"),
            (headers > read, "it looks behind a known number of tags and labels"),
            (is_extension, "it follows few extension headers"),
            (is_ipv6 && dissected.link() == LinkType::NULL, "it knows one system's number of IPv6"),
        ]
    } else {
        let is_slarp = dissected.link() == LinkType::C_HDLC && network.is_none();
        let has_types = matches!(
            dissected.link(),
            LinkType::ETHERNET | LinkType::LINUX_SLL | LinkType::LINUX_SLL2 | LinkType::C_HDLC
        );
        vec![
            (is_cut && layers.transport(Level::Outer).is_none(), "it reads parts of headers"),
            (network == Some(LayerKind::Arp) && rule.contains("ip "), "ARP has hosts for it"),
            (is_slarp || layers.stop() == Stop::UnknownLink, "it knows this link layer"),
            (!has_types && rule.contains("ethertype"), "all link layers have types for it"),
        ]
    };
    reasons.into_iter().find(|(applies, _)| *applies).map(|(_, reason)| reason)
}

/// True if a pair says the same about frames of `link`: bytes of Ethernet are there in no other.
fn applies((rule, _): (&str, &str), link: LinkType) -> bool {
    let is_ethernet = ["mac", "frame", "vlan"].iter().any(|word| rule.contains(word));
    link == LinkType::ETHERNET || !is_ethernet
}

/// The frame as libpcap is asked about it, where that is another: without tags, labels and whatever
/// else stands between Ethernet and the network header, if the pair is about what is behind.
fn bared((rule, _): (&str, &str), dissected: &DissectedFrame<'_>) -> Option<Vec<u8>> {
    let before = ["vlan", "mpls", "ethertype", "length", "frame", "filter"];
    if dissected.link() != LinkType::ETHERNET || before.iter().any(|word| rule.contains(word)) {
        return None;
    }
    let network =
        dissected.layers().network(Level::Outer).filter(|network| network.start() > 14)?;
    let kind = match network.kind {
        LayerKind::Ipv4 => EtherType::IPV4,
        LayerKind::Ipv6 => EtherType::IPV6,
        _ => EtherType::ARP,
    };
    let bytes = dissected.bytes();
    Some([&bytes[..12], &kind.0.to_be_bytes(), &bytes[network.start()..]].concat())
}

#[test]
fn as_libpcap_says() {
    let files = captures("rules against libpcap");
    let links: BTreeSet<LinkType> = files.iter().map(|file| file.link_type).collect();
    let (mut compared, mut held) = (0u64, 0u64);
    let mut differing: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut unexplained, mut bared_frames) = (Vec::new(), 0u64);
    for pair in PAIRS {
        let mut answers = [0u64; 2];
        for &link in links.iter().filter(|&&link| applies(pair, link)) {
            let Ok(filter) = compile(pair.1, link, 0, &COMPILER) else { continue };
            let filter = Prepared::new(&filter.program).unwrap();
            let question = Question::new(&matches(pair.0), link, &COMPILER).unwrap();
            for file in files.iter().filter(|file| file.link_type == link) {
                for (number, frame) in file.frames.iter().enumerate() {
                    let dissected = DissectedFrame::new(&frame.bytes, frame.wire_bytes, link);
                    let ours = question.holds(&dissected);
                    answers[usize::from(ours)] += 1;
                    let bare = bared(pair, &dissected);
                    bared_frames += u64::from(bare.is_some());
                    let asked = bare.as_deref().unwrap_or(&frame.bytes);
                    if ours == filter.accepts(asked, frame.wire_bytes) {
                        continue;
                    }
                    match explained(pair, &dissected, ours) {
                        Some(reason) => *differing.entry(reason).or_default() += 1,
                        None => {
                            let (path, layers) = (file.path.display(), dissected.layers());
                            let frame = format!("{ours} on frame {number} of {path}: {layers:?}");
                            unexplained.push(format!("{pair:?}: {frame}"));
                        }
                    }
                }
            }
        }
        compared += answers.iter().sum::<u64>();
        held += answers[1];
    }
    let total: u64 = differing.values().sum();
    eprintln!("{compared} answers, {held} of them yes, {bared_frames} about what is behind tags");
    eprintln!("{total} explained: {differing:#?}");
    assert!(unexplained.is_empty(), "{unexplained:#?}");
    let is_enough = compared > 1_000_000 && held > compared / 20 && total < compared / 500;
    assert!(files.is_empty() || is_enough);
}
