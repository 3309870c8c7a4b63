//! tshark names the same headers in the same order, for every capture of tunnels and tags.

use ringside_testkit::{by_run, capture_sample, judge, need_tool};
use ringside_wire::{LayerKind, Stop, dissect};

/// What tshark calls a layer. `None` where it has no name of its own: SNAP is part of its LLC, an
/// EtherType that follows a tag is a layer only there, IPv6 fragments are reassembled, and tags of
/// switches are part of Ethernet.
fn tshark_name(kind: LayerKind) -> Option<&'static str> {
    Some(match kind {
        LayerKind::Ethernet => "eth",
        LayerKind::Vlan => "vlan",
        LayerKind::QinQ => "ieee8021ad",
        LayerKind::Isl => "isl",
        LayerKind::VnTag => "vntag",
        LayerKind::Cmd => "cmd",
        LayerKind::Llc => "llc",
        LayerKind::Snap => return None,
        LayerKind::Mpls => "mpls",
        LayerKind::ControlWord => "pwethcw",
        LayerKind::Pppoe => "pppoes",
        LayerKind::Ppp => "ppp",
        LayerKind::Null => "null",
        LayerKind::Sll | LayerKind::Sll2 => "sll",
        LayerKind::Chdlc => "chdlc",
        LayerKind::Radiotap => "radiotap",
        LayerKind::Ieee80211 => "wlan",
        LayerKind::FrameRelay => "fr",
        LayerKind::Nflog => "nflog",
        LayerKind::Fddi => "fddi",
        LayerKind::Dsa => return None,
        LayerKind::Arp => "arp",
        LayerKind::Ipv4 => "ip",
        LayerKind::Ipv6 => "ipv6",
        LayerKind::HopByHop => "ipv6.hopopts",
        LayerKind::Routing => "ipv6.routing",
        LayerKind::Fragment => "ipv6.fraghdr",
        LayerKind::DestinationOptions => "ipv6.dstopts",
        LayerKind::Auth => "ah",
        LayerKind::Tcp => "tcp",
        LayerKind::Udp => "udp",
        LayerKind::Sctp => "sctp",
        LayerKind::Icmp => "icmp",
        LayerKind::Icmpv6 => "icmpv6",
        LayerKind::Igmp => "igmp",
        LayerKind::Gre => "gre",
        LayerKind::Erspan => "erspan",
        LayerKind::Vxlan => "vxlan",
        LayerKind::Geneve => "geneve",
        LayerKind::GtpU => "gtp",
    })
}

#[test]
fn tunnels_have_the_layers_that_tshark_sees() {
    let test = "tunnels_have_the_layers_that_tshark_sees";
    if !need_tool(test, "tshark") {
        return;
    }
    let (mut compared, mut files) = (0, 0);
    for path in capture_sample(test, 3) {
        let folder = path.parent().and_then(|dir| dir.file_name()).and_then(|name| name.to_str());
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // The captures "pngtest" try the file format; their frames are made up.
        if !matches!(folder, Some("encap" | "formats")) || name.starts_with("pngtest") {
            continue;
        }
        let frames = crate::support::frames(&path);
        // Without reassembly, a fragment shows what is in it.
        let whole = ["-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE", "-n"];
        let fields = ["-T", "fields", "-e", "frame.protocols", "-r"];
        let answer = judge::ask("tshark", &[whole, fields].concat(), &path);
        files += 1;
        for (number, (line, (link, bytes))) in answer.text().lines().zip(&frames).enumerate() {
            let layers = dissect(bytes, *link);
            if layers.stop() == Stop::UnknownLink {
                continue;
            }
            let ours: Vec<&str> =
                layers.iter().filter_map(|layer| tshark_name(layer.kind)).collect();
            let theirs = simplify(line);
            // What tshark goes on to read (an application, a packet that ICMP quotes) is payload
            // here; it must begin with our layers, and name no header of ours next.
            let context = format!("{} frame {}\n{line}\n{layers:?}", path.display(), number + 1);
            assert!(theirs.starts_with(&ours), "{ours:?} {context}");
            // tshark looks for an EtherType in half of a family that no system has.
            let guessed = layers.last().is_some_and(|layer| layer.kind == LayerKind::Null);
            if matches!(layers.stop(), Stop::Unknown { .. }) && !guessed {
                let next = theirs.get(ours.len()).copied().unwrap_or("data");
                assert!(!["ip", "ipv6", "eth", "vlan", "mpls"].contains(&next), "{next} {context}");
            }
            compared += 1;
        }
    }
    eprintln!("{compared} frames of {files} files");
    assert!(files == 0 || compared > by_run(100, 500));
}

/// tshark's layers without those that are no header on the wire.
fn simplify(protocols: &str) -> Vec<&str> {
    let no_header = ["ethertype", "pwethheuristic", "raw", "wlan_radio"];
    protocols.split(':').filter(|name| !no_header.contains(name)).collect()
}
