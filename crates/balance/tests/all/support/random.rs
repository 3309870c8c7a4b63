//! Random frames to VIPs, around them and past them, and configurations that follow each other.

use super::frames::*;
use ringside_testkit::Random;
use ringside_wire::IpProtocol;
use std::net::IpAddr;

const TOP: &str = "source_v4 = \"10.9.0.0/16\"\nsource_v6 = \"2001:db8:9::/64\"\nmtu = 1500\n";

/// Real addresses for which the routes of tests have every answer.
const REALS_V4: [&str; 5] = ["10.0.0.50", "10.0.0.51", "10.0.0.120", "10.0.0.160", "10.0.0.220"];
const REALS_V6: [&str; 5] =
    ["2001:db8:a::50", "2001:db8:a::51", "2001:db8:a::78", "2001:db8:a::a0", "2001:db8:a::dc"];

/// VIPs of every kind, with reals of every state; a part of them may be missing.
pub fn random_config(random: &mut Random) -> String {
    let mut text = TOP.to_owned();
    if random.below(4) == 0 {
        text = format!("new_flows_per_second_max = 0\n{text}");
    }
    let quic = "quic_lb = [{ rotation = 0, server_id_bytes = 1 }, \
                { rotation = 3, server_id_bytes = 8 }]";
    let vips = [
        ("a", "192.0.2.1", "port = 80\nprotocol = \"tcp\"", 3),
        ("b", "192.0.2.1", "port = 80\nprotocol = \"udp\"", 3),
        ("c", "192.0.2.1", "protocol = \"tcp\"\naffinity = \"source\"\necho = false", 3),
        ("d", "192.0.2.0/24", "port = 443\nprotocol = \"quic\"", 3),
        ("e", "192.0.0.0/16", "protocol = \"udp\"", 3),
        ("f", "2001:db8::1", "port = 80\nprotocol = \"tcp\"", 2),
        ("g", "2001:db8::/64", "protocol = \"quic\"", 2),
        ("h", "2001:db8::/32", "protocol = \"tcp\"\necho = false", 2),
    ];
    for (name, address, rest, kinds) in vips {
        if random.below(8) == 0 {
            continue;
        }
        let via = ["ipip", "gue", "direct"][random.below(3)];
        text += &format!("[[vip]]\nname = \"{name}\"\naddress = \"{address}\"\n{rest}\n");
        text += &format!("via = \"{via}\"\nslots = 251\n");
        let is_quic = rest.contains("quic");
        if is_quic {
            text += quic;
            text += "\n";
        }
        let reals = if kinds == 3 && random.below(2) == 0 { REALS_V4 } else { REALS_V6 };
        for (number, real) in reals.iter().enumerate() {
            if random.below(3) == 0 {
                continue;
            }
            text += &format!("[[vip.real]]\naddress = \"{real}\"\n");
            text += ["", "", "state = \"down\"\n", "state = \"draining\"\n", "weight = 5\n"]
                [random.below(5)];
            if random.below(2) == 0 {
                text += &format!("next_hop = \"02:00:00:00:01:{number:02x}\"\n");
            }
            if is_quic {
                text +=
                    &format!("server_ids = [\"{number:02x}\", \"00000000000000{number:02x}\"]\n");
            }
        }
    }
    text
}

fn random_end(random: &mut Random, is_v4: bool, is_vip: bool) -> End {
    let small = random.below(3) as u8;
    let address: IpAddr = match (is_v4, is_vip) {
        (true, true) => [192, 0, 2 + (random.below(8) / 7) as u8, small].into(),
        (true, false) => [198, 51, 100, small].into(),
        (false, true) => {
            [0x2001, 0xdb8, 0, (random.below(4) / 3) as u16, 0, 0, 0, small.into()].into()
        }
        (false, false) => [0x2001, 0xdb8, 0xc, 0, 0, 0, 0, small.into()].into(),
    };
    let port = if is_vip { [80, 443, 9][random.below(3)] } else { 1000 + random.below(6) as u16 };
    End(address, port)
}

fn random_quic(random: &mut Random) -> Vec<u8> {
    let mut id = vec![[0u8, 0x60, 0x20, 0xe0][random.below(4)]];
    if random.below(2) == 0 {
        id.extend([0; 7]);
    }
    id.push(random.below(6) as u8);
    id.extend(random.bytes(6));
    let version = [1, 0x6b33_43cf, 0, 0xdead_beef][random.below(4)];
    match random.below(2) {
        0 => quic_short(&id),
        _ => quic_long(random.below(4) as u8, version, &id),
    }
}

/// A frame of a client or a router, whole or with some bytes changed.
pub fn random_frame(random: &mut Random) -> Vec<u8> {
    let is_v4 = random.below(2) == 0;
    let (client, vip) = (random_end(random, is_v4, false), random_end(random, is_v4, true));
    let bytes = [0, 1, 10, 100, 700, 1_330, 1_400, 1_440, 1_470][random.below(9)];
    let flags = [SYN, ACK, SYN | ACK, ACK | 1, 0][random.below(5)];
    let router = if is_v4 { "203.0.113.1" } else { "2001:db8:f::1" };
    let protocol = [IpProtocol::TCP, IpProtocol::UDP][random.below(2)];
    let kind = [3, 11, 12, 1, 2, 4, 5, 0][random.below(8)];
    let mut frame = match random.below(10) {
        0..=2 => tcp(client, vip, flags, bytes),
        3 => udp(client, vip, &random.bytes(bytes)),
        4..=5 => udp(client, vip, &random_quic(random)),
        6..=7 => {
            let whole = match random.below(2) {
                0 => tcp(client, vip, flags, bytes + 100),
                _ => udp(client, vip, &random.bytes(bytes + 100)),
            };
            let cut = [8, 16, 24, 64][random.below(4)];
            let [first, later] = fragments(&whole, random.below(4) as u32, cut);
            if random.below(2) == 0 { first } else { later }
        }
        8 => error(router, vip, client, kind, protocol, [20, 40, 44, 60, 200][random.below(5)]),
        _ => echo(&client.0.to_string(), &vip.0.to_string(), bytes),
    };
    if is_v4 && random.below(8) == 0 {
        frame = with_options(&frame, [4, 20, 40][random.below(3)]);
    }
    if random.below(6) == 0 {
        frame = with_tos(&frame, random.next_u64() as u8);
    }
    if is_v4 && random.below(8) == 0 {
        frame[20] ^= 0x40;
    }
    change(&mut frame, random);
    frame
}

/// Of three frames one is changed: bytes of its headers, its length, its address.
fn change(frame: &mut Vec<u8>, random: &mut Random) {
    match random.below(30) {
        0..=5 => {
            let at = 12 + random.below((frame.len() - 12).min(100));
            frame[at] = random.next_u64() as u8;
        }
        6 => {
            let at = random.below(frame.len());
            frame[at] ^= 1 << random.below(8);
        }
        7 => frame.truncate(15 + random.below(frame.len() - 14)),
        8 => frame.extend(random.bytes(20)),
        9 => {
            let length = 15 + random.below(200);
            let bytes = random.bytes(length);
            let kept = 6 * random.below(4);
            frame.truncate(kept.min(length));
            frame.extend(&bytes[frame.len()..]);
        }
        _ => {}
    }
}
