//! Random rules, as text, and frames that have to do with each other.

use crate::Random;
use std::fmt::Write;

fn one_of<'t>(random: &mut Random, list: &[&'t str]) -> &'t str {
    list[random.below(list.len())]
}

fn address(random: &mut Random) -> String {
    let last = random.below(4);
    match random.below(6) {
        0 => format!("2001:db8::{last}"),
        1 => one_of(random, &["2001:db8::2/127", "2001:db8::/126", "2001:db8::/64"]).into(),
        2 => format!("10.0.0.{last}-10.0.0.{}", 4 + random.below(3)),
        3 => one_of(random, &["10.0.0.2/31", "10.0.0.0/30", "10.0.0.0/24", "10.0.0.0/8"]).into(),
        _ => format!("10.0.0.{last}"),
    }
}

fn ports(random: &mut Random) -> String {
    match random.below(3) {
        0 => format!("{}", random.below(5)),
        1 => format!("{}-{}", random.below(4), 4 + random.below(3)),
        _ => "1,3,5-70".to_owned(),
    }
}

/// A term that a driver can answer, or with `any` also others.
fn term(random: &mut Random, any: bool) -> String {
    let side = one_of(random, &["", "src ", "dst "]);
    match random.below(if any { 20 } else { 17 }) {
        0 => "any".into(),
        1 | 2 => one_of(random, &["tcp", "udp", "icmp", "ip6", "ip4", "proto 6-17,58"]).into(),
        3..=5 => format!("{side}ip {}", address(random)),
        6..=8 => format!("{side}port {}", ports(random)),
        9 => format!("tcpflags {}", one_of(random, &["syn", "!syn", "syn,!ack", "ack,!fin,!rst"])),
        10 => format!("length {}", one_of(random, &["-60", "61-", "50-59,70-90", "64"])),
        11 => format!("vlan {}", one_of(random, &["5", "7-9", "any", "1,6-7"])),
        12 => format!("mpls {}", one_of(random, &["16-20", "18", "1-15,19-40"])),
        13 => format!(
            "ethertype {}",
            one_of(random, &["arp", "ip,0x88cc", "0x8100", "0x86dd-0xffff"])
        ),
        14 => {
            let mac = ["02:00:00:00:00:09", "02:00:00:00:00:00/ff:ff:ff:ff:ff:fe"];
            format!("{side}mac {}", one_of(random, &mac))
        }
        15 => format!(
            "bytes {}",
            one_of(
                random,
                &[
                    "net+8 = 40",
                    "net+9 = 06/fe",
                    "transport = 0001",
                    "transport+2 = 0003/00ff",
                    "payload = 61",
                    "payload+1 = 6263",
                    "frame+12 = 0800",
                    "frame+40 = 00/01",
                    "frame+20 = 00000000000000000000/01010101010101010101",
                    "payload+2 = 6364656667686970",
                ]
            )
        ),
        16 => format!(
            "{side}ip {}",
            (0..120).fold(String::from("2001:db8::1"), |mut list, at| {
                // More than the tables hold: a set.
                let _ = write!(list, ",10.0.{at}.1-10.0.{at}.4");
                list
            })
        ),
        17 => "payload \"b\"".into(),
        18 => "payload \"a\" at 0".into(),
        _ => one_of(random, &["inner (tcp)", "http.method GET", "dns.qname *.com"]).into(),
    }
}

/// A match; with `any` perhaps one that a driver cannot answer.
fn matches(random: &mut Random, any: bool) -> String {
    let bidir = if random.below(4) == 0 { " bidir" } else { "" };
    if random.below(5) == 0 {
        let (a, b, p, q) = (random.below(4), random.below(4), random.below(5), random.below(5));
        let protocol = one_of(random, &["udp", "tcp"]);
        let net = one_of(random, &["2001:db8::", "10.0.0.", "10.0.0.", "10.0.0."]);
        return format!(
            "src ip {net}{a} dst ip {net}{b} {protocol} src port {p} dst port {q}{bidir}"
        );
    }
    let count = 1 + random.below(4);
    let mut parts = Vec::new();
    for _ in 0..count {
        let not = if random.below(4) == 0 { "not " } else { "" };
        parts.push(match random.below(6) {
            // Alternatives that the tables hold.
            0 => format!("({not}ip {} or port {})", address(random), ports(random)),
            _ => format!("{not}({})", term(random, any)),
        });
    }
    parts.join(" ") + bidir
}

/// A rule; with `any` perhaps one that is not for a driver.
pub fn random_rule(random: &mut Random, id: usize, any: bool) -> String {
    format!("{id}: {} => {}\n", matches(random, any), actions(random, any))
}

fn actions(random: &mut Random, any: bool) -> &'static str {
    const HERE: [&str; 11] = [
        "drop",
        "drop",
        "take",
        "pass",
        "pass, continue",
        "count",
        "count, stop",
        "drop, sample 1/3",
        "count, sample 1/2",
        "redirect cpu 0",
        "drop, continue",
    ];
    const ABOVE: [&str; 3] = ["take, cap 64", "digest", "pass, digest, continue"];
    match any && random.below(5) == 0 {
        true => ABOVE[random.below(ABOVE.len())],
        false => HERE[random.below(HERE.len())],
    }
}

/// A frame of those that the rules are about, perhaps with tags, labels or options, perhaps cut.
pub fn random_frame(random: &mut Random) -> Vec<u8> {
    let payload = [&b""[..], b"abcdefgh", b"abcdefghijklmnopqrstuvwxyz", b"b"][random.below(4)];
    let ports = [random.below(7) as u8, random.below(7) as u8];
    let (protocol, transport): (u8, Vec<u8>) = match random.below(6) {
        0 | 1 => {
            let flags = [0x02, 0x12, 0x10, 0x11][random.below(4)];
            let mut tcp = vec![0, ports[0], 0, ports[1], 0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags];
            tcp.extend([0; 6]);
            (6, tcp)
        }
        2 | 3 => (17, vec![0, ports[0], 0, ports[1], 0, 8 + payload.len() as u8, 0, 0]),
        4 => (1, vec![8, 0, 0, 0, 0, 1, 0, 1]),
        _ => (58, vec![128, 0, 0, 0, 0, 1, 0, 1]),
    };
    let body = [&transport[..], payload].concat();
    let (kind, packet): ([u8; 2], Vec<u8>) = match random.below(8) {
        0 => ([8, 6], [&[0, 1, 8, 0, 6, 4, 0, 1][..], &[7; 20]].concat()),
        1 | 2 => ([0x86, 0xdd], ipv6(random, protocol, &body)),
        _ => ([8, 0], ipv4(random, protocol, &body)),
    };
    let mut frame = vec![2, 0, 0, 0, 0, 8 + random.below(3) as u8];
    frame.extend([2, 0, 0, 0, 0, 8 + random.below(3) as u8]);
    for _ in 0..[0, 0, 0, 0, 1, 1, 2, 3][random.below(8)] {
        frame.extend([0x81, 0, 0, 4 + random.below(5) as u8]);
    }
    if random.below(8) == 0 {
        frame.extend([0x88, 0x47, 0, 1, 0x20, 64, 0, 1, random.below(3) as u8 * 16 + 1, 64]);
    } else {
        frame.extend(kind);
    }
    frame.extend(packet);
    match random.below(12) {
        0 => frame.truncate((14 + random.below(60)).min(frame.len())),
        1 => frame.extend([0; 13]),
        _ => {}
    }
    frame
}

fn ipv4(random: &mut Random, protocol: u8, body: &[u8]) -> Vec<u8> {
    let options = if random.below(6) == 0 { 4 } else { 0 };
    let total = 20 + options + body.len();
    let part = [[0u8, 0], [0, 0], [0, 0], [0, 0], [0x20, 0], [0, 3]][random.below(6)];
    let mut packet = vec![0x45 + (options / 4) as u8, 0, (total >> 8) as u8, total as u8, 0, 1];
    packet.extend(part);
    packet.extend([64, protocol, 0, 0, 10, 0, 0, random.below(6) as u8]);
    packet.extend([10, 0, 0, random.below(6) as u8]);
    packet.extend(vec![1; options]);
    packet.extend(body);
    packet
}

fn ipv6(random: &mut Random, protocol: u8, body: &[u8]) -> Vec<u8> {
    let extension: &[u8] = match random.below(5) {
        0 => &[0, 0, 1, 4, 0, 0, 0, 0],
        1 => &[0, 0, 0, 1, 0, 0, 0, 9],
        _ => &[],
    };
    let first = match extension {
        [] => protocol,
        [_, _, 1, ..] => 0,
        _ => 44,
    };
    let length = extension.len() + body.len();
    let mut packet = vec![0x60, 0, 0, 0, 0, length as u8, first, 64];
    for last in [random.below(4), random.below(4)] {
        packet.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last as u8]);
    }
    if !extension.is_empty() {
        packet.push(protocol);
        packet.extend(&extension[1..]);
    }
    packet.extend(body);
    packet
}
