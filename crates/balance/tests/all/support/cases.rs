//! Each behaviour of the balancer as a case, for anything that decides about frames.

use super::frames::*;
use super::{HOP, OURS, OUT, OUT_MAC, Plane, ROUTER, config, real_of};
use ringside_balance::balancer::{Count, Verdict};
use ringside_core::LinkType;
use ringside_wire::{IpProtocol, Level, dissect, verify_network, verify_transport};
use std::collections::BTreeSet;

const TOP: &str = "source_v4 = \"10.9.0.0/16\"\nsource_v6 = \"2001:db8:9::/64\"\nmtu = 1500\n";

/// A configuration of one VIP and its reals.
pub fn one_vip(rest: &str, reals: &[(&str, &str)]) -> String {
    let mut text = format!("{TOP}[[vip]]\nname = \"v\"\nslots = 1021\n{rest}\n");
    for (address, rest) in reals {
        text += &format!("[[vip.real]]\naddress = \"{address}\"\n{rest}\n");
    }
    text
}

const TCP4: &str = "address = \"192.0.2.1\"\nport = 80\nprotocol = \"tcp\"";
const TCP6: &str = "address = \"2001:db8::1\"\nport = 80\nprotocol = \"tcp\"";
const QUIC4: &str = "address = \"192.0.2.1\"\nport = 443\nprotocol = \"quic\"\n\
                     quic_lb = [{ rotation = 1, server_id_bytes = 2 }]";
const CLIENT4: &str = "198.51.100.7 40000";
const CLIENT6: &str = "2001:db8:c::7 40000";
const VIP4: &str = "192.0.2.1 80";
const VIP6: &str = "2001:db8::1 80";

fn started<P: Plane>(rest: &str, reals: &[(&str, &str)]) -> P {
    P::start(&config(&one_vip(rest, reals)))
}

fn sent(verdict: &Verdict) -> &[u8] {
    match verdict {
        Verdict::Send { frame, .. } => frame,
        other => panic!("{other:?}"),
    }
}

/// The headers of a frame in words, and that its checksums are right where they can be checked.
pub fn headers(frame: &[u8]) -> String {
    let layers = dissect(frame, LinkType::ETHERNET);
    for level in [Level::Outer, Level::Inner] {
        use ringside_wire::Verdict::Wrong;
        assert!(!matches!(verify_network(frame, &layers, level), Wrong { .. }), "{frame:02x?}");
        assert!(!matches!(verify_transport(frame, &layers, level), Wrong { .. }), "{frame:02x?}");
    }
    let names: Vec<String> = layers.iter().map(|layer| layer.kind.to_string()).collect();
    names.join(" ")
}

pub fn tcp_over_ipv4_goes_within_ipv4<P: Plane>() {
    let mut plane: P = started(TCP4, &[("10.0.0.50", "")]);
    let frame = with_tos(&tcp(end(CLIENT4), end(VIP4), SYN, 10), 0xb9);
    let verdict = plane.decide(&frame);
    assert_eq!(real_of(&plane, &verdict).as_deref(), Some("10.0.0.50"));
    let out = sent(&verdict);
    assert!(matches!(verdict, Verdict::Send { interface: OUT, .. }));
    assert_eq!(out[..12], [HOP.0, OUT_MAC.0].concat());
    assert_eq!(out[34..], frame[14..], "the packet is untouched");
    assert_eq!((out[15], out[20], out[22], out[23]), (0xb9, 0x40, 64, 4), "TOS, DF, TTL, protocol");
    assert_eq!(out[26..28], [10, 9], "the source is of the prefix");
    assert_eq!(out[30..34], [10, 0, 0, 50]);
    headers(out);
    assert_eq!(plane.counts(0)[Count::Forwarded as usize], 1);
}

pub fn tcp_over_ipv4_goes_within_ipv6<P: Plane>() {
    let mut plane: P = started(TCP4, &[("2001:db8:a::50", "")]);
    let frame = with_tos(&tcp(end(CLIENT4), end(VIP4), SYN, 10), 0xb9);
    let verdict = plane.decide(&frame);
    let out = sent(&verdict);
    assert_eq!(out[54..], frame[14..]);
    assert_eq!((out[14], out[15] >> 4), (0x6b, 0x9), "the traffic class");
    assert_eq!((out[20], out[21]), (4, 64), "next header, hop limit");
    assert_eq!(out[22..30], [0x20, 1, 0x0d, 0xb8, 0, 9, 0, 0]);
    headers(out);
}

pub fn tcp_over_ipv6_goes_within_ipv6<P: Plane>() {
    let mut plane: P = started(TCP6, &[("2001:db8:a::50", "")]);
    let frame = with_tos(&tcp(end(CLIENT6), end(VIP6), SYN, 10), 0xb9);
    let verdict = plane.decide(&frame);
    let out = sent(&verdict);
    assert_eq!(out[54..], frame[14..]);
    assert_eq!((out[14], out[15] >> 4, out[20]), (0x6b, 0x9, 41));
    headers(out);
}

pub fn gue_goes_within_udp_whose_source_port_follows_the_flow<P: Plane>() {
    for (vip, client, to, real, at) in [
        (TCP4, CLIENT4, VIP4, "10.0.0.50", 34),
        (TCP4, CLIENT4, VIP4, "2001:db8:a::50", 54),
        (TCP6, CLIENT6, VIP6, "2001:db8:a::50", 54),
    ] {
        let mut plane: P = started(&format!("{vip}\nvia = \"gue\""), &[(real, "")]);
        let mut ports = BTreeSet::new();
        for port in 0..20 {
            let frame = tcp(End(end(client).0, 1000 + port), end(to), SYN, 10);
            let verdict = plane.decide(&frame);
            let out = sent(&verdict);
            assert_eq!(out[at + 8..], frame[14..]);
            assert_eq!(out[at + 2..at + 4], 6080u16.to_be_bytes());
            let bytes = (frame.len() - 14 + 8) as u16;
            assert_eq!(out[at + 4..at + 8], [bytes.to_be_bytes(), [0, 0]].concat());
            ports.insert([out[at], out[at + 1]]);
        }
        assert!(ports.len() > 15 && ports.iter().all(|port| port[0] >= 0xc0), "{ports:?}");
    }
}

pub fn direct_return_changes_hardware_addresses_alone<P: Plane>() {
    let hop = "next_hop = \"02:00:00:00:00:33\"";
    let mut plane: P = started(&format!("{TCP6}\nvia = \"direct\""), &[("10.0.0.220", hop)]);
    let frame = tcp(end(CLIENT6), end(VIP6), SYN, 10);
    let verdict = plane.decide(&frame);
    assert!(matches!(verdict, Verdict::Send { interface: 1, .. }), "back by the same interface");
    assert_eq!(sent(&verdict)[..6], [2, 0, 0, 0, 0, 0x33]);
    assert_eq!(sent(&verdict)[6..12], OURS.0);
    assert_eq!(sent(&verdict)[12..], frame[12..]);
}

pub fn the_padding_of_a_short_frame_stays_outside<P: Plane>() {
    let mut plane: P = started(TCP4, &[("10.0.0.50", "")]);
    let mut frame = tcp(end(CLIENT4), end(VIP4), SYN, 0);
    frame.resize(60, 0);
    let verdict = plane.decide(&frame);
    assert_eq!(sent(&verdict)[16..18], 60u16.to_be_bytes(), "20 and the packet's 40");
}

pub fn a_vip_without_a_port_has_all_ports_and_a_prefix_all_addresses<P: Plane>() {
    let vip = "address = \"192.0.2.0/24\"\nprotocol = \"udp\"";
    let mut plane: P = started(vip, &[("10.0.0.50", "")]);
    for to in ["192.0.2.0 1", "192.0.2.255 65535"] {
        assert!(plane.real(&udp(end(CLIENT4), end(to), &[1; 9])).is_some());
    }
    for to in ["192.0.3.0 1", "192.0.1.255 9"] {
        assert_eq!(plane.decide(&udp(end(CLIENT4), end(to), &[1; 9])), Verdict::Pass);
    }
    assert_eq!(plane.decide(&tcp(end(CLIENT4), end("192.0.2.1 1"), SYN, 0)), Verdict::Pass);
}

const FOUR: [(&str, &str); 4] =
    [("10.0.0.51", ""), ("10.0.0.52", ""), ("10.0.0.53", ""), ("10.0.0.54", "")];

pub fn flows_are_spread_and_each_stays_where_it_is<P: Plane>() {
    let mut plane: P = started(TCP4, &FOUR);
    let mut reals = BTreeSet::new();
    for port in 1000..1100 {
        let client = End(end(CLIENT4).0, port);
        let first = plane.decide(&tcp(client, end(VIP4), SYN, 0));
        let first = real_of(&plane, &first);
        for flags in [ACK, ACK | 8, ACK | 1] {
            let next = plane.decide(&tcp(client, end(VIP4), flags, 100));
            assert_eq!(real_of(&plane, &next), first);
        }
        reals.insert(first);
    }
    assert_eq!(reals.len(), 4);
    let counts = plane.counts(0);
    assert_eq!(counts[Count::Chosen as usize], 100);
    assert_eq!(counts[Count::Remembered as usize], 300);
}

pub fn with_affinity_to_the_source_a_client_has_one_real<P: Plane>() {
    let vip = "address = \"192.0.2.1\"\nprotocol = \"tcp\"\naffinity = \"source\"";
    let mut plane: P = started(vip, &FOUR);
    let mut all = BTreeSet::new();
    for client in 1..40u8 {
        let reals: BTreeSet<_> = (1000..1010)
            .map(|port| {
                let client = End([198, 51, 100, client].into(), port);
                let verdict = plane.decide(&tcp(client, End(end(VIP4).0, port), SYN, 0));
                real_of(&plane, &verdict)
            })
            .collect();
        assert_eq!(reals.len(), 1);
        all.extend(reals);
    }
    assert_eq!(all.len(), 4);
}

pub fn echo_requests_to_vips_are_answered_and_no_others<P: Plane>() {
    for (vip, client, to, other) in [
        (TCP4, "198.51.100.7", "192.0.2.1", "192.0.2.2"),
        (TCP6, "2001:db8:c::7", "2001:db8::1", "2001:db8::2"),
    ] {
        let mut plane: P = started(vip, &[]);
        let request = echo(client, to, 56);
        let Verdict::Answer(reply) = plane.decide(&request) else { panic!("{to}") };
        assert_eq!(reply[..12], [ROUTER.0, OURS.0].concat());
        headers(&reply);
        let mut expected = echo(to, client, 56);
        expected[..12].copy_from_slice(&reply[..12]);
        let (kind_at, ttl_at) = if reply[12] == 8 { (34, 22) } else { (54, 21) };
        assert_eq!((reply[kind_at], reply[ttl_at]), (if reply[12] == 8 { 0 } else { 129 }, 64));
        assert_eq!(reply[kind_at + 4..], expected[kind_at + 4..]);
        assert_eq!(plane.decide(&echo(client, other, 56)), Verdict::Pass);
        assert_eq!(plane.counts(0)[Count::Echo as usize], 1);
        let mut silent: P = started(&format!("{vip}\necho = false"), &[]);
        assert_eq!(silent.decide(&request), Verdict::Pass);
    }
}

pub fn errors_of_icmp_follow_the_flow_that_they_are_about<P: Plane>() {
    let four_v6 = [("2001:db8:a::51", ""), ("2001:db8:a::52", ""), ("2001:db8:a::53", "")];
    for (vip, client, to, router, kinds, reals) in [
        (TCP4, CLIENT4, VIP4, "203.0.113.1", [3, 11, 12], &FOUR[..]),
        (TCP6, CLIENT6, VIP6, "2001:db8:f::1", [1, 2, 3], &four_v6[..]),
    ] {
        let mut plane: P = started(vip, reals);
        let mut seen = BTreeSet::new();
        for port in 1000..1030 {
            let client = End(end(client).0, port);
            // Also of flows that are not remembered.
            let first = (port % 2 == 0).then(|| {
                let verdict = plane.decide(&tcp(client, end(to), SYN, 0));
                real_of(&plane, &verdict)
            });
            for kind in kinds {
                let about = error(router, end(to), client, kind, IpProtocol::TCP, 60);
                let verdict = plane.decide(&about);
                let real = real_of(&plane, &verdict);
                assert!(real.is_some() && first.iter().all(|first| *first == real));
                seen.insert(real);
            }
            let later = plane.decide(&tcp(client, end(to), SYN, 0));
            assert!(seen.contains(&real_of(&plane, &later)));
        }
        assert_eq!(seen.len(), reals.len());
        assert_eq!(plane.counts(0)[Count::Error as usize], 90);
        // About another protocol or port, from another address, cut, or no error: the host's.
        let client = end(client);
        let of =
            |vip: End, kind, protocol, quoted| error(router, vip, client, kind, protocol, quoted);
        let mut foreign = of(end(to), kinds[0], IpProtocol::TCP, 60);
        let inner_source = if router.contains(':') { 54 + 8 + 23 } else { 34 + 8 + 15 };
        foreign[inner_source] ^= 1;
        let to = end(to);
        for frame in [
            of(to, kinds[0], IpProtocol::UDP, 60),
            of(End(to.0, 81), kinds[0], IpProtocol::TCP, 60),
            of(to, kinds[0], IpProtocol::TCP, 20),
            of(to, 5, IpProtocol::TCP, 60),
            foreign,
        ] {
            assert_eq!(plane.decide(&frame), Verdict::Pass, "{frame:02x?}");
        }
    }
}

pub fn options_of_ipv4_go_along<P: Plane>() {
    let mut plane: P = started(TCP4, &[("10.0.0.50", "")]);
    for bytes in [4, 40] {
        let frame = with_options(&tcp(end(CLIENT4), end(VIP4), SYN, 10), bytes);
        let verdict = plane.decide(&frame);
        assert_eq!(sent(&verdict)[34..], frame[14..]);
    }
}

pub fn fragments_follow_the_first_one<P: Plane>() {
    for (vip, client, to) in [(TCP4, CLIENT4, VIP4), (TCP6, CLIENT6, VIP6)] {
        let vip = vip.replace("tcp", "udp");
        let reals = [("2001:db8:a::51", ""), ("2001:db8:a::52", ""), ("2001:db8:a::53", "")];
        let mut plane: P = started(&vip, &reals);
        let mut reals = BTreeSet::new();
        for id in 1..30u16 {
            let client = End(end(client).0, 1000 + id);
            let [first, later] = fragments(&udp(client, end(to), &[7; 300]), id.into(), 96);
            assert_eq!(plane.decide(&later), Verdict::Drop(Count::Fragment), "it came first");
            let one = plane.decide(&first);
            let two = plane.decide(&later);
            assert!(real_of(&plane, &one).is_some());
            assert_eq!(real_of(&plane, &one), real_of(&plane, &two));
            reals.insert(real_of(&plane, &one));
        }
        assert_eq!(reals.len(), 3);
        let [_, later] = fragments(&udp(end(client), end(to), &[7; 300]), 999, 96);
        assert_eq!(plane.decide(&later), Verdict::Drop(Count::Fragment));
        // Fragments that the rest never follows are forgotten.
        plane.age(31);
        let client = End(end(client).0, 1001);
        let [_, later] = fragments(&udp(client, end(to), &[7; 300]), 1, 96);
        assert_eq!(plane.decide(&later), Verdict::Drop(Count::Fragment));
        assert_eq!(plane.counts(0)[Count::Fragment as usize], 31);
        // Of no VIP, and of a protocol without a VIP.
        let elsewhere = if vip.contains(':') { end("2001:db8::9 80") } else { end("192.0.2.9 80") };
        let [_, later] = fragments(&udp(client, elsewhere, &[7; 300]), 1, 96);
        assert_eq!(plane.decide(&later), Verdict::Pass);
    }
}

pub fn remembered_flows_stay_when_a_real_comes<P: Plane>() {
    let mut plane: P = started(TCP4, &FOUR[..1]);
    let client = |port| End(end(CLIENT4).0, port);
    for port in 1000..1200 {
        plane.decide(&tcp(client(port), end(VIP4), SYN, 0));
    }
    plane.change(&config(&one_vip(TCP4, &FOUR)));
    for port in 1000..1200 {
        let verdict = plane.decide(&tcp(client(port), end(VIP4), ACK, 0));
        assert_eq!(real_of(&plane, &verdict).as_deref(), Some(FOUR[0].0));
    }
    let mut reals = BTreeSet::new();
    for port in 2000..2100 {
        let verdict = plane.decide(&tcp(client(port), end(VIP4), SYN, 0));
        reals.insert(real_of(&plane, &verdict));
    }
    assert_eq!(reals.len(), 4);
}

/// A VIP whose reals changed, so that tables do not say where flows of the ports from 1000 on are.
fn changed<P: Plane>(top: &str, ports: u16) -> (P, Vec<Option<String>>) {
    let text = |reals| config(&format!("change_window_s = 0\n{top}{}", one_vip(TCP4, reals)));
    let mut plane = P::start(&text(&FOUR[..2]));
    let mut before = Vec::new();
    for port in 1000..1000 + ports {
        // In a second of its own, so that each is remembered whatever the limit is.
        plane.age(2);
        before.push(plane.real(&tcp(End(end(CLIENT4).0, port), end(VIP4), SYN, 0)));
    }
    plane.change(&text(&FOUR));
    (plane, before)
}

pub fn flows_that_come_to_another_cpu_stay_where_they_are<P: Plane>() {
    let (mut plane, before) = changed::<P>("", 200);
    if !plane.go_to_cpu(1) {
        return;
    }
    let client = |port| End(end(CLIENT4).0, port);
    let count = |plane: &P, what| plane.counts(0)[what as usize];
    for (port, before) in (1000..).zip(&before) {
        let about = error("203.0.113.1", end(VIP4), client(port), 3, IpProtocol::TCP, 60);
        assert_eq!(plane.real(&about), *before);
        assert_eq!(plane.real(&tcp(client(port), end(VIP4), ACK, 0)), *before);
    }
    assert_eq!((count(&plane, Count::Moved), count(&plane, Count::Remembered)), (400, 0));
    for (port, before) in (1000..).zip(&before) {
        assert_eq!(plane.real(&tcp(client(port), end(VIP4), ACK, 0)), *before, "it is known now");
    }
    assert_eq!((count(&plane, Count::Moved), count(&plane, Count::Remembered)), (400, 200));
    // What begins asks no other CPU, and what is forgotten everywhere is not found.
    let elsewhere = |plane: &mut P, flags| {
        plane.age(3_700);
        let others = (1000..).zip(&before);
        others
            .filter(|(port, before)| {
                plane.real(&tcp(client(*port), end(VIP4), flags, 0)) != **before
            })
            .count()
    };
    for flags in [ACK, SYN] {
        let moved = elsewhere(&mut plane, flags);
        assert!((60..140).contains(&moved), "half: {moved}");
    }
    assert_eq!(count(&plane, Count::Moved), 400);
    plane.go_to_cpu(0);
}

pub fn fragments_may_come_to_another_cpu_than_the_first_one<P: Plane>() {
    let mut plane: P = started(&TCP4.replace("tcp", "udp"), &FOUR);
    for id in 1..30u16 {
        plane.go_to_cpu(0);
        let [first, later] =
            fragments(&udp(End(end(CLIENT4).0, 1000 + id), end(VIP4), &[7; 300]), id.into(), 96);
        let real = plane.real(&first);
        if !plane.go_to_cpu(1) {
            return;
        }
        assert!(real.is_some() && plane.real(&later) == real);
    }
    plane.age(31);
    let [_, later] = fragments(&udp(End(end(CLIENT4).0, 1001), end(VIP4), &[7; 300]), 1, 96);
    assert_eq!(plane.decide(&later), Verdict::Drop(Count::Fragment));
    assert_eq!(plane.counts(0)[Count::Moved as usize], 29);
    plane.go_to_cpu(0);
}

pub fn other_cpus_are_asked_only_so_often_in_a_second<P: Plane>() {
    let (mut plane, before) = changed::<P>("new_flows_per_second_max = 1\n", 30);
    if !plane.go_to_cpu(1) {
        return;
    }
    for port in (1000..).take(before.len()) {
        plane.decide(&tcp(End(end(CLIENT4).0, port), end(VIP4), ACK, 0));
    }
    // Eight; as often again if this takes over a second.
    let moved = plane.counts(0)[Count::Moved as usize];
    assert!([8, 16, 24].contains(&moved), "{moved}");
    plane.age(2);
    let again = plane.real(&tcp(End(end(CLIENT4).0, 1029), end(VIP4), ACK, 0));
    assert_eq!(again, before[29], "in the next second");
    plane.go_to_cpu(0);
}

/// With nothing remembered, as after a flood.
pub fn flows_that_are_not_remembered_go_where_they_went_before_a_change<P: Plane>() {
    let text = |reals: &[(&str, &str)], window| {
        let top = format!("new_flows_per_second_max = 0\nchange_window_s = {window}\n");
        config(&(top + &one_vip(TCP4, reals)))
    };
    let client = |port| End(end(CLIENT4).0, port);
    for window in [300, 0] {
        let mut plane = P::start(&text(&FOUR[..3], window));
        let before: Vec<_> =
            (1000..1200).map(|port| plane.real(&tcp(client(port), end(VIP4), SYN, 0))).collect();
        plane.change(&text(&FOUR, window));
        let mut moved = 0;
        for (port, before) in (1000..).zip(&before) {
            let after = plane.decide(&tcp(client(port), end(VIP4), ACK, 0));
            moved += u32::from(real_of(&plane, &after) != *before);
        }
        if window > 0 {
            assert_eq!(moved, 0);
        } else {
            assert!((20..100).contains(&moved), "a quarter moves: {moved}");
        }
        let mut new = BTreeSet::new();
        for port in 1000..1200 {
            let verdict = plane.decide(&tcp(client(port), end(VIP4), SYN, 0));
            new.insert(real_of(&plane, &verdict));
        }
        assert_eq!(new.len(), 4, "connections that begin go by the new tables");
        let counts = plane.counts(0);
        assert_eq!(counts[Count::Before as usize], if window > 0 { 200 } else { 0 });
        assert_eq!(counts[Count::Remembered as usize], 0);
        assert_eq!(counts[Count::Guarded as usize], 600);
    }
}

pub fn tables_that_say_the_same_do_not_end_the_window_of_a_change<P: Plane>() {
    let text = |reals: &[(&str, &str)], window| {
        let top = format!("new_flows_per_second_max = 0\nchange_window_s = {window}\n");
        config(&(top + &one_vip(TCP4, reals)))
    };
    let client = |port| End(end(CLIENT4).0, port);
    let mut plane = P::start(&text(&FOUR[..3], 300));
    let before: Vec<_> =
        (1000..1200).map(|port| plane.real(&tcp(client(port), end(VIP4), SYN, 0))).collect();
    plane.change(&text(&FOUR, 300));
    for window in [300, 299, 0] {
        plane.change(&text(&FOUR, window));
        for (port, before) in (1000..).zip(&before) {
            let after = plane.decide(&tcp(client(port), end(VIP4), ACK, 0));
            assert_eq!(real_of(&plane, &after), *before);
        }
    }
    assert_eq!(plane.counts(0)[Count::Before as usize], 600);
}

pub fn a_real_that_drains_keeps_its_flows_until_the_deadline<P: Plane>() {
    let with = |drain_s: u32| {
        let state = format!("state = \"draining\"\ndrain_s = {drain_s}");
        config(&one_vip(TCP4, &[("10.0.0.51", &state), ("10.0.0.52", "")]))
    };
    let client = |port| End(end(CLIENT4).0, port);
    let drained = Some("10.0.0.51".to_owned());
    for drain_s in [300, 0] {
        let mut plane: P = started(TCP4, &FOUR[..2]);
        let before: Vec<_> =
            (1000..1100).map(|port| plane.real(&tcp(client(port), end(VIP4), SYN, 0))).collect();
        assert!(before.contains(&drained));
        plane.change(&with(drain_s));
        for (port, before) in (1000..).zip(&before) {
            let after = plane.decide(&tcp(client(port), end(VIP4), ACK, 0));
            let is_kept = real_of(&plane, &after) == *before;
            assert_eq!(is_kept, *before != drained || drain_s > 0, "{port}");
        }
        // The same ports begin anew: elsewhere.
        for port in 1000..1100 {
            let again = plane.decide(&tcp(client(port), end(VIP4), SYN, 0));
            assert_eq!(real_of(&plane, &again).as_deref(), Some("10.0.0.52"));
        }
    }
}

pub fn a_real_that_is_down_or_gone_loses_its_flows_at_once<P: Plane>() {
    let down = config(&one_vip(TCP4, &[("10.0.0.51", "state = \"down\""), ("10.0.0.52", "")]));
    let gone = config(&one_vip(TCP4, &FOUR[1..2]));
    let client = |port| End(end(CLIENT4).0, port);
    for next in [down, gone] {
        let mut plane: P = started(TCP4, &FOUR[..2]);
        for port in 1000..1100 {
            plane.decide(&tcp(client(port), end(VIP4), SYN, 0));
        }
        plane.change(&next);
        for port in 1000..1100 {
            let after = plane.decide(&tcp(client(port), end(VIP4), ACK, 0));
            assert_eq!(real_of(&plane, &after).as_deref(), Some("10.0.0.52"));
        }
    }
}

pub fn without_a_real_packets_of_a_vip_are_dropped_and_counted<P: Plane>() {
    for reals in [&[][..], &[("10.0.0.51", "weight = 0")], &[("10.0.0.51", "state = \"down\"")]] {
        let mut plane: P = started(TCP4, reals);
        let verdict = plane.decide(&tcp(end(CLIENT4), end(VIP4), SYN, 0));
        assert_eq!(verdict, Verdict::Drop(Count::NoReal));
        assert_eq!(plane.counts(0)[Count::NoReal as usize], 1);
    }
}

pub fn flows_are_forgotten_after_the_time_of_their_vip<P: Plane>() {
    let vip = format!("{}\ntimeout_s = 40", TCP4.replace("tcp", "udp"));
    let mut plane: P = started(&vip, &FOUR);
    let frame = udp(end(CLIENT4), end(VIP4), &[1; 9]);
    let mut remembered = |seconds| {
        plane.age(seconds);
        plane.decide(&frame);
        plane.counts(0)[Count::Remembered as usize]
    };
    assert_eq!([0, 0, 38, 38, 42, 1].map(&mut remembered), [0, 1, 2, 3, 3, 4]);
}

pub fn no_more_new_flows_are_remembered_than_a_second_allows<P: Plane>() {
    let text = format!("new_flows_per_second_max = 5\n{}", one_vip(TCP4, &FOUR));
    let mut plane = P::start(&config(&text));
    for port in 1000..1020 {
        let client = End(end(CLIENT4).0, port);
        plane.decide(&tcp(client, end(VIP4), SYN, 0));
    }
    let counts = plane.counts(0);
    // Five for each second in which this runs.
    let guarded = counts[Count::Guarded as usize];
    assert!([5, 10, 15].contains(&guarded), "{guarded}");
    assert_eq!(counts[Count::Forwarded as usize], 20, "they are sent all the same");
}

pub fn the_flow_that_was_idle_longest_goes_for_a_new_one<P: Plane>() {
    let text = format!("flows_per_cpu = 8\n{}", one_vip(TCP4, &FOUR));
    let mut plane = P::start(&config(&text));
    let mut remembered = |port| {
        let before = plane.counts(0)[Count::Remembered as usize];
        plane.age(1);
        plane.decide(&tcp(End(end(CLIENT4).0, port), end(VIP4), ACK, 0));
        plane.counts(0)[Count::Remembered as usize] > before
    };
    assert!(!(1..=8).any(&mut remembered));
    assert!([1, 3, 4].into_iter().all(&mut remembered));
    assert!(!remembered(9), "in place of 2");
    assert!(remembered(1) && remembered(5) && !remembered(2), "in place of 6");
    assert!(remembered(7) && !remembered(6), "in place of 8");
    assert!([9, 1, 5, 7, 3, 4].into_iter().all(&mut remembered));
}

pub fn quic_ids_lead_to_their_server_and_openings_do_not<P: Plane>() {
    let reals = [
        ("10.0.0.51", "server_ids = [\"0001\"]"),
        ("10.0.0.52", "server_ids = [\"0002\", \"beef\"]"),
        ("10.0.0.53", "server_ids = [\"0003\"]\nstate = \"down\""),
    ];
    let mut plane: P = started(QUIC4, &reals);
    let vip = end("192.0.2.1 443");
    let mut real = |port: u16, payload: &[u8]| {
        let verdict = plane.decide(&udp(End(end(CLIENT4).0, port), vip, payload));
        real_of(&plane, &verdict).unwrap_or_else(|| format!("{verdict:?}"))
    };
    let id = |rotation: u8, server: u16| {
        [&[rotation << 5 | 9][..], &server.to_be_bytes(), &[1, 2, 3, 4]].concat()
    };
    for port in 1000..1020 {
        assert_eq!(real(port, &quic_short(&id(1, 1))), "10.0.0.51");
        assert_eq!(real(port, &quic_short(&id(1, 0xbeef))), "10.0.0.52");
        assert_eq!(real(port, &quic_long(2, 1, &id(1, 2))), "10.0.0.52", "Handshake");
        // Version 2 numbers its types otherwise.
        assert_eq!(real(port, &quic_long(3, 0x6b33_43cf, &id(1, 2))), "10.0.0.52");
    }
    // Openings, unknown ids and rotations, and servers that are down: as any flow.
    let mut openings = BTreeSet::new();
    for port in 2000..2030 {
        let first = real(port, &quic_long(0, 1, &id(1, 1)));
        for payload in [
            quic_long(1, 1, &id(1, 2)),
            quic_long(0, 0xbaba_baba, &id(1, 2)),
            quic_short(&id(1, 77)),
            quic_short(&id(2, 1)),
            quic_short(&id(7, 1)),
            quic_short(&id(1, 3)),
            vec![],
            vec![0x40],
            quic_long(3, 1, &id(1, 2)),
            quic_long(2, 1, &[0x21; 21]),
        ] {
            assert_eq!(real(port, &payload), first);
        }
        openings.insert(first);
    }
    assert_eq!(openings.len(), 2);
    assert_eq!(plane.counts(0)[Count::ById as usize], 80);
}

pub fn packets_too_big_for_the_tunnel_are_answered<P: Plane>() {
    for (vip, client, to, real, at, fits) in [
        (TCP4, CLIENT4, VIP4, "10.0.0.50", 34, 1480usize),
        (TCP4, CLIENT4, VIP4, "2001:db8:a::50", 34, 1460),
        (TCP6, CLIENT6, VIP6, "2001:db8:a::50", 54, 1460),
        // By the route, which takes 1,400 bytes.
        (TCP4, CLIENT4, VIP4, "10.0.0.120", 34, 1380),
        (TCP6, CLIENT6, VIP6, "2001:db8:a::78", 54, 1360),
    ] {
        let mut plane: P = started(vip, &[(real, "")]);
        let headers_bytes = at - 14 + 20;
        let of = |bytes: usize| tcp(end(client), end(to), ACK, bytes - headers_bytes);
        assert!(plane.real(&of(fits)).is_some(), "{real}");
        let frame = of(fits + 1);
        let Verdict::Answer(answer) = plane.decide(&frame) else { panic!("{real}") };
        headers(&answer);
        assert_eq!(answer[..12], [ROUTER.0, OURS.0].concat());
        let (kind, mtu) = if at == 34 { ([3, 4], 6) } else { ([2, 0], 6) };
        assert_eq!(answer[at..at + 2], kind);
        assert_eq!(answer[at + mtu..at + mtu + 2], (fits as u16).to_be_bytes());
        assert_eq!(answer[at + 8..], frame[14..14 + 512]);
        assert_eq!(plane.counts(0)[Count::Answered as usize], 1);
    }
}

pub fn what_may_not_be_answered_is_dropped_as_too_big<P: Plane>() {
    let mut plane: P = started(TCP4, &[("10.0.0.50", "")]);
    let large = tcp(end(CLIENT4), end(VIP4), ACK, 1450);
    let of_group = tcp(end("224.0.0.9 1"), end(VIP4), ACK, 1450);
    let loopback = tcp(end("127.0.0.1 1"), end(VIP4), ACK, 1450);
    let about = tcp(end(VIP4), end(CLIENT4), ACK, 1430);
    let error = icmp([203, 0, 113, 1].into(), end(VIP4).0, 3, 4, &[&[0; 4], &about[14..]].concat());
    for frame in [may_be_cut(&large), of_group, loopback, error] {
        assert_eq!(plane.decide(&frame), Verdict::Drop(Count::TooBig), "{:02x?}", &frame[..40]);
    }
    assert_eq!(plane.counts(0)[Count::TooBig as usize], 4);
}

pub fn a_hop_that_is_not_known_is_counted_by_its_cause<P: Plane>() {
    for (real, cause) in [("10.0.0.160", Count::NoNeighbour), ("10.0.0.220", Count::NoRoute)] {
        let mut plane: P = started(TCP4, &[(real, "")]);
        let verdict = plane.decide(&tcp(end(CLIENT4), end(VIP4), SYN, 0));
        assert_eq!(verdict, Verdict::Drop(cause));
    }
}

pub fn what_is_not_for_a_vip_passes_unchanged<P: Plane>() {
    let mut plane: P = started(TCP4, &[("10.0.0.50", "")]);
    let good = tcp(end(CLIENT4), end(VIP4), SYN, 10);
    let changed = |at: usize, byte: u8| {
        let mut frame = good.clone();
        frame[at] = byte;
        frame
    };
    let mut arp = changed(13, 0x06);
    arp[..6].fill(0xff);
    let frames = [
        ("another hardware address", changed(5, 9)),
        ("broadcast", [&[0xff; 6], &good[6..]].concat()),
        ("ARP", arp),
        ("a tag", tagged(&good)),
        ("another protocol", changed(23, 132)),
        ("another port", tcp(end(CLIENT4), end("192.0.2.1 81"), SYN, 10)),
        ("another address", tcp(end(CLIENT4), end("192.0.2.2 80"), SYN, 10)),
        ("another version", changed(14, 0x55)),
        ("a header too short", changed(14, 0x44)),
        ("longer than the frame", changed(16, 0x10)),
        ("shorter than its header", changed(17, 19)),
        ("a cut transport header", good[..14 + 20 + 19].to_vec()),
        ("nothing", good[..15].to_vec()),
        ("redirect of ICMP", icmp(end(CLIENT4).0, end(VIP4).0, 5, 0, &[0; 40])),
        ("timestamp of ICMP", icmp(end(CLIENT4).0, end(VIP4).0, 13, 0, &[0; 40])),
    ];
    for (name, frame) in frames {
        assert_eq!(plane.decide(&frame), Verdict::Pass, "{name}");
    }
    assert!(matches!(plane.decide(&good), Verdict::Send { .. }));
}
