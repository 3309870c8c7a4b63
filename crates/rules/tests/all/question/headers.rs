//! Addresses, protocols, ports, flags, lengths and bytes.

use super::frames::*;
use super::{dissected, judge, matches, question};
use ringside_core::LinkType;
use ringside_inspect::DissectedFrame;
use ringside_rules::Question;
use ringside_rules::key::Key;
use ringside_wire::{EtherType, IpProtocol, Level, Tcp};

#[test]
fn addresses_and_ports_of_ipv4() {
    let frame = plain(IpProtocol::TCP, &tcp(1025, 80, Tcp::SYN, b"x"));
    let yes = [
        "any",
        "ip4",
        "tcp",
        "proto 1-6",
        "src ip 10.0.0.0/8",
        "dst ip 192.0.2.1-192.0.2.3",
        "ip 10.0.0.1",
        "ip 192.0.2.2,2001:db8::1",
        "src port 1025",
        "dst port 80",
        "port 80,443",
        "port 1024-2000",
        "src ip 10.0.0.1 dst ip 192.0.2.2 tcp src port 1025 dst port 80",
        "src ip 192.0.2.2 dst ip 10.0.0.1 tcp src port 80 dst port 1025 bidir",
    ];
    let no = [
        "not any",
        "ip6",
        "udp",
        "proto 7-255,0-5",
        "dst ip 10.0.0.0/8",
        "src ip 192.0.2.2",
        "ip 10.0.0.2",
        "ip ::/0",
        "ip ::ffff:10.0.0.1",
        "src port 80",
        "dst port 1025",
        "port 443",
        "src ip 192.0.2.2 dst ip 10.0.0.1 tcp src port 80 dst port 1025",
    ];
    judge(&dissected(&frame), &yes, &no);
    let bidirectional = question("src ip 192.0.2.2 src port 1025 bidir");
    assert!(!bidirectional.holds(&dissected(&frame)), "both ends are exchanged together");
    assert!(!question("udp src port 80 bidir").holds(&dissected(&frame)));
}

#[test]
fn addresses_and_ports_of_ipv6_behind_extension_headers() {
    let (from, to) = ("2001:db8::1", "2001:db8::2");
    let inside = extension(IpProtocol::UDP, &udp(5000, 53, b"payload"));
    let inside = extension(IpProtocol::DESTINATION_OPTIONS, &inside);
    let packet = ip6(from, to, IpProtocol::HOP_BY_HOP, &inside);
    let frame = ethernet(EtherType::IPV6, &packet);
    let yes = ["ip6", "udp", "dst port 53", "src ip 2001:db8::/127", "bytes transport+2 = 0035"];
    judge(&dissected(&frame), &yes, &["ip4", "proto 0", "proto 60", "src port 53", "ip 0.0.0.0/0"]);

    // Cut within the second extension header: what is named last is known, and no ports.
    let cut =
        DissectedFrame::new(&frame[..14 + 40 + 8 + 3], frame.len() as u32, LinkType::ETHERNET);
    let no = ["udp", "port 0-65535", "bytes transport = 00/00"];
    judge(&cut, &["ip6", "proto 60", "ip 2001:db8::1"], &no);
}

#[test]
fn authentication_is_read_past() {
    let mut header = vec![IpProtocol::TCP.0, 4, 0, 0];
    header.extend_from_slice(&[0; 20]);
    header.extend_from_slice(&tcp(1, 2, 0, b""));
    let frame = plain(IpProtocol::AUTH, &header);
    judge(&dissected(&frame), &["tcp", "dst port 2"], &["proto ah"]);
    let cut = DissectedFrame::new(&frame[..40], frame.len() as u32, LinkType::ETHERNET);
    judge(&cut, &["proto ah"], &["tcp", "port 2"]);
}

#[test]
fn fragments() {
    let mut first = plain(IpProtocol::UDP, &udp(53, 54, b"ab"));
    first[14 + 6] = 0x20;
    judge(&dissected(&first), &["udp", "port 53", "payload \"ab\""], &["tcp"]);
    let mut later = first.clone();
    later[14 + 7] = 1;
    let no = ["port 0-65535", "payload \"ab\"", "bytes transport = 00/00", "bytes payload = 00/00"];
    judge(&dissected(&later), &["udp", "ip 10.0.0.1", "bytes net+9 = 11"], &no);

    let v6 = |offset, more| {
        let inside = fragment(IpProtocol::UDP, offset, more, &udp(53, 54, b"ab"));
        ethernet(EtherType::IPV6, &ip6("fe80::1", "fe80::2", IpProtocol::FRAGMENT, &inside))
    };
    judge(&dissected(&v6(0, true)), &["udp", "src port 53"], &["proto 44"]);
    judge(&dissected(&v6(8, false)), &["udp", "ip6"], &["port 53", "payload \"ab\""]);
}

#[test]
fn all_protocols_with_ports_and_one_without() {
    judge(&dissected(&plain(IpProtocol::SCTP, &sctp(7, 9, b"chunk"))), &["sctp port 9"], &["tcp"]);
    judge(&dissected(&plain(IpProtocol::UDP, &udp(7, 9, b""))), &["udp dst port 9"], &["sctp"]);
    let echo = plain(IpProtocol::ICMP, &[8, 0, 0, 0, 0, 7, 0, 9, b'p', b'i']);
    let yes = ["icmp", "bytes transport = 0800", "payload \"pi\" at 0", "bytes payload = 7069"];
    judge(&dissected(&echo), &yes, &["port 0-65535", "port 7", "tcpflags !syn", "icmp6"]);
    let unknown = plain(IpProtocol(89), &[2; 40]);
    judge(
        &dissected(&unknown),
        &["proto ospf"],
        &["bytes transport = 00/00", "payload hex \"02\""],
    );
}

#[test]
fn arp_is_no_ip() {
    let frame = ethernet(EtherType::ARP, &arp());
    let yes = ["ethertype arp", "bytes net+14 = 0a000001", "not ip4 not ip6", "mac 2:0:5e:10:0:1"];
    let no = ["ip 10.0.0.1", "ip 0.0.0.0/0,::/0", "proto 0-255", "port 0-65535", "inner (any)"];
    judge(&dissected(&frame), &yes, &no);
    let key = Key::of(&dissected(&frame), Level::Outer);
    assert_eq!((key.addresses(), key.ports(), key.protocol()), (None, None, None));
}

#[test]
fn flags() {
    let frame = |flags| plain(IpProtocol::TCP, &tcp(1, 2, flags, b""));
    let syn = frame(Tcp::SYN | Tcp::CWR | Tcp::AE);
    let no = ["tcpflags ack", "tcpflags syn,ack", "tcpflags !syn", "tcpflags syn,!cwr"];
    judge(&dissected(&syn), &["tcpflags syn", "tcpflags syn,cwr,!ack", "tcpflags !fin,!rst"], &no);
    judge(&dissected(&frame(0)), &["tcpflags !syn"], &["tcpflags syn"]);
    judge(
        &dissected(&frame(0xff)),
        &["tcpflags fin,syn,rst,psh,ack,urg,ece,cwr"],
        &["tcpflags !urg"],
    );
    judge(&dissected(&plain(IpProtocol::UDP, &udp(1, 2, &[2; 20]))), &[], &["tcpflags !fin"]);
}

#[test]
fn lengths_are_those_of_the_wire() {
    let frame = plain(IpProtocol::UDP, &udp(1, 2, b"abc"));
    let cut = DissectedFrame::new(&frame[..30], 1000, LinkType::ETHERNET);
    judge(&cut, &["length 1000", "length 900-", "length 1-2,999-1001"], &["length -999"]);
    judge(&dissected(&[]), &["length 0", "any", "not ip4"], &["length 1-", "bytes frame = 00/00"]);
}

#[test]
fn bytes_at_places() {
    let frame = plain(IpProtocol::TCP, &tcp(0x1234, 80, Tcp::ACK, b"GET /"));
    let yes = [
        "bytes frame+12 = 0800",
        "bytes net = 40/f0",
        "bytes net+12 = 0a000001",
        "bytes transport = 1234",
        "bytes transport+13 = 10/12",
        "bytes payload = 47455420",
        "bytes payload+4 = 2f",
        "bytes frame+58 = 2f",
    ];
    let no = [
        "bytes frame+12 = 0806",
        "bytes transport+13 = 02/02",
        "bytes payload+4 = 2f00/ff00",
        "bytes payload+5 = 00/00",
        "bytes frame+59 = 00/00",
        "bytes frame+262143 = 00/00",
    ];
    judge(&dissected(&frame), &yes, &no);
}

#[test]
fn headers_that_are_cut_are_not_there() {
    let frame = plain(IpProtocol::TCP, &tcp(1025, 80, Tcp::SYN, b"payload"));
    let cut =
        |bytes: usize| DissectedFrame::new(&frame[..bytes], frame.len() as u32, LinkType::ETHERNET);
    let no = ["port 80", "tcpflags syn", "bytes transport = 00/00", "payload \"p\""];
    judge(&cut(53), &["tcp", "ip 10.0.0.1", "bytes net+22 = 0050"], &no);
    judge(&cut(33), &["ethertype ip", "mac 2:0:5e:10:0:1"], &["ip4", "ip 10.0.0.1", "tcp"]);
    judge(&cut(13), &["bytes frame+6 = 0200"], &["ethertype ip", "mac 2:0:5e:10:0:1"]);
    judge(&cut(57), &["port 80", "payload \"pay\""], &["payload \"payl\""]);
}

#[test]
fn keys() {
    let frame = plain(IpProtocol::UDP, &udp(53, 54, b""));
    let key = Key::of(&dissected(&frame), Level::Outer);
    let addresses = ("10.0.0.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
    assert_eq!(key.addresses(), Some(addresses));
    assert_eq!((key.ports(), key.protocol()), (Some((53, 54)), Some(17)));
    assert_eq!(Key::of(&dissected(&frame), Level::Inner), key);
}

#[test]
fn filters_are_asked_about_the_whole_frame_and_errors_name_them() {
    let frame = plain(IpProtocol::UDP, &udp(53, 54, b""));
    let yes = ["filter \"udp port 53\"", "filter \"len = 42\" and udp"];
    judge(&dissected(&frame), &yes, &["filter \"tcp\"", "filter \"src port 54\" bidir"]);
    let wrong = matches("udp or not filter \"prot 53\"");
    let error = Question::new(&wrong, LinkType::ETHERNET, &super::COMPILER).unwrap_err();
    assert!(error.to_string().contains("'prot 53'"), "{error}");
}
