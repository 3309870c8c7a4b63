//! The program against the model, frame by frame.

use crate::frames::{any, changed, ethernet, framed, packet, plain, udp};
use crate::model::{Decision, Settings, decide};
use crate::testbed::{IN_MAC, Loaded, ifindexes, testbed};
use ringside_ebpf::Verdict;
use ringside_ebpf::route::{Cause, ReversePath, hop_place};
use ringside_testkit::{Random, fuzz, need_root};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Runs a frame, and checks verdict, frame, report and counters against the model.
fn check(loaded: &Loaded, frame: &[u8], settings: Settings) -> Decision {
    let expected = decide(frame, settings);
    let (run, report) = loaded.program.explain(&loaded.tables, frame).unwrap();
    assert_eq!(report.cause, expected.cause, "{report:?} {frame:02x?}");
    if expected.cause != Cause::Forwarded {
        assert_eq!(run.verdict, Verdict::Pass, "{report:?} {frame:02x?}");
        assert_eq!(run.frame, frame, "a frame that passes is unmodified: {report:?}");
        return expected;
    }
    assert_eq!(run.verdict, Verdict::Redirect, "{frame:02x?}");
    let way = expected.ways.iter().find(|way| way.2 == run.frame);
    let (interface, hop, _) =
        way.unwrap_or_else(|| panic!("{:02x?} is none of {expected:02x?}", run.frame));
    let ifindex = loaded.ifindexes[*interface];
    assert_eq!((report.ifindex, report.next_hop), (Some(ifindex), Some(*hop)), "{report:?}");
    expected
}

#[test]
fn frames_of_each_kind_become_what_the_model_says() {
    if !need_root("frames_of_each_kind_become_what_the_model_says") {
        return;
    }
    let net = testbed();
    let all = ifindexes(&net);
    net.inside("r", || {
        let loaded = Loaded::new(all, ReversePath::Unasked);
        let mut seen: BTreeMap<Cause, u64> = BTreeMap::new();
        for (name, frame, cause) in named() {
            let found = check(&loaded, &frame, Settings::default()).cause;
            assert_eq!(found, cause, "{name}");
            *seen.entry(found).or_default() += 1;
        }
        let without =
            [Cause::Off, Cause::Encapsulated, Cause::ReversePath, Cause::Unknown, Cause::Refresh];
        for cause in Cause::ALL.into_iter().filter(|cause| !without.contains(cause)) {
            assert!(seen.contains_key(&cause), "no frame for {cause}");
        }
        let counts = loaded.tables.counts(0).unwrap();
        assert_eq!(counts.received, named().len() as u64);
        assert_eq!(counts.received_bytes, named().iter().map(|one| one.1.len() as u64).sum());
        for cause in Cause::ALL {
            assert_eq!(counts.of(cause), seen.get(&cause).copied().unwrap_or(0), "{cause}");
        }
        let given = (0..3).map(|slot| loaded.tables.flow(0, slot).unwrap().frames);
        assert_eq!(given.sum::<u64>(), counts.of(Cause::Forwarded));
    });
}

/// Frames with names.
fn named() -> Vec<(&'static str, Vec<u8>, Cause)> {
    let (a4, a6) = ("10.1.0.2", "fd01::2");
    let (to4, to6) = ("198.18.0.1", "2001:db8:1::1");
    let ip4 = || packet(a4, to4, 17, &udp((5, 6), 40));
    let ip6 = || packet(a6, to6, 17, &udp((5, 6), 40));
    let to = |destination| plain(a4, destination);
    let to_6 = |destination| plain(a6, destination);
    vec![
        ("a packet of IPv4", plain(a4, to4), Cause::Forwarded),
        ("a packet of IPv6", plain(a6, to6), Cause::Forwarded),
        ("by a rule", plain("10.1.0.77", to4), Cause::Forwarded),
        ("by a rule of IPv6", plain("fd01::77", to6), Cause::Forwarded),
        ("one of two ways", to("198.19.0.1"), Cause::Forwarded),
        ("one of two ways of IPv6", to_6("2001:db8:2::1"), Cause::Forwarded),
        ("over a next hop of IPv6", to("198.20.0.1"), Cause::Forwarded),
        ("to a neighbour", to("10.2.0.5"), Cause::Forwarded),
        ("to a neighbour of IPv6", to_6("fd02::5"), Cause::Forwarded),
        ("a fragment", changed(ip4(), |ip| ip[6] = 0x20), Cause::Forwarded),
        ("a later fragment", changed(ip4(), |ip| ip[7] = 5), Cause::Forwarded),
        ("padding", [framed(packet(a4, to4, 17, &[])), vec![0; 26]].concat(), Cause::Forwarded),
        ("no payload", framed(packet(a6, to6, 59, &[])), Cause::Forwarded),
        ("an echo", framed(packet(a4, to4, 1, &[8, 0, 0, 0])), Cause::Forwarded),
        ("an echo of IPv6", framed(packet(a6, to6, 58, &[128, 0, 0, 0])), Cause::Forwarded),
        ("a frame to another", ethernet([2, 9, 9, 9, 9, 9], 0x0800, &ip4()), Cause::Foreign),
        ("a broadcast", ethernet([255; 6], 0x0800, &ip4()), Cause::Group),
        ("a multicast", ethernet([1, 0, 94, 0, 0, 1], 0x0800, &ip4()), Cause::Group),
        ("ARP", ethernet(IN_MAC, 0x0806, &[0; 46]), Cause::NotIp),
        ("a tag", ethernet(IN_MAC, 0x8100, &[0; 46]), Cause::Tagged),
        ("a service tag", ethernet(IN_MAC, 0x88a8, &[0; 46]), Cause::Tagged),
        ("version 6 in IPv4", ethernet(IN_MAC, 0x0800, &ip6()), Cause::Malformed),
        ("version 4 in IPv6", ethernet(IN_MAC, 0x86dd, &ip4()), Cause::Malformed),
        ("a wrong checksum", framed([&ip4()[..11], &[9], &ip4()[12..]].concat()), Cause::Malformed),
        ("cut", framed(ip4()[..60].to_vec()), Cause::Malformed),
        ("cut IPv6", framed(ip6()[..80].to_vec()), Cause::Malformed),
        ("within the header", framed(ip4()[..19].to_vec()), Cause::Malformed),
        ("more behind it", [plain(a4, to4), vec![0; 3]].concat(), Cause::Malformed),
        ("a header of 16 bytes", changed(ip4(), |ip| ip[0] = 0x44), Cause::Malformed),
        ("options", changed(ip4(), |ip| ip[0] = 0x46), Cause::Options),
        ("hop by hop", changed(ip6(), |ip| ip[6] = 0), Cause::Extensions),
        ("a fragment of IPv6", changed(ip6(), |ip| ip[6] = 44), Cause::Extensions),
        ("to a group", to("239.1.1.1"), Cause::Addresses),
        ("to all", to("255.255.255.255"), Cause::Addresses),
        ("from loopback", plain("127.0.0.1", to4), Cause::Addresses),
        ("from no address", plain("0.0.0.0", to4), Cause::Addresses),
        ("from a group of IPv6", plain("ff02::1", to6), Cause::Addresses),
        ("local to the link", plain("fe80::1", to6), Cause::Addresses),
        ("from no address of IPv6", plain("::", to6), Cause::Addresses),
        ("mapped", plain("::ffff:10.1.0.2", to6), Cause::Addresses),
        ("TTL 1", changed(ip4(), |ip| ip[8] = 1), Cause::HopLimit),
        ("TTL 0", changed(ip4(), |ip| ip[8] = 0), Cause::HopLimit),
        ("hop limit 1", changed(ip6(), |ip| ip[7] = 1), Cause::HopLimit),
        ("unreachable", framed(packet(a4, to4, 1, &[3, 1, 0, 0])), Cause::IcmpError),
        ("too big", framed(packet(a6, to6, 58, &[2, 0, 0, 0])), Cause::IcmpError),
        ("to the router", to("10.1.0.1"), Cause::Host),
        ("to the router of IPv6", to_6("fd02::1"), Cause::Host),
        ("no route", to("8.8.8.8"), Cause::Host),
        ("no route of IPv6", to_6("2001:db8:99::1"), Cause::Host),
        ("a blackhole", to("198.51.100.1"), Cause::Blackhole),
        ("a blackhole of IPv6", to_6("2001:db8:3::1"), Cause::Blackhole),
        ("unreachable", to("198.51.101.1"), Cause::Unreachable),
        ("unreachable of IPv6", to_6("2001:db8:4::1"), Cause::Unreachable),
        ("prohibited", to("198.51.102.1"), Cause::Prohibited),
        ("prohibited of IPv6", to_6("2001:db8:5::1"), Cause::Prohibited),
        ("no neighbour", to("192.0.2.1"), Cause::NoNeighbour),
        ("no neighbour of IPv6", to_6("2001:db8:7::1"), Cause::NoNeighbour),
        (
            "for a short link",
            framed(packet(a4, "203.0.113.1", 17, &udp((5, 6), 573))),
            Cause::TooLong,
        ),
        (
            "just short enough",
            framed(packet(a4, "203.0.113.1", 17, &udp((5, 6), 572))),
            Cause::Forwarded,
        ),
        (
            "for a short link of IPv6",
            framed(packet(a6, "2001:db8:6::1", 17, &udp((5, 6), 1233))),
            Cause::TooLong,
        ),
        (
            "just short enough of IPv6",
            framed(packet(a6, "2001:db8:6::1", 17, &udp((5, 6), 1232))),
            Cause::Forwarded,
        ),
        ("back", to("10.1.0.5"), Cause::SameInterface),
        ("back of IPv6", to_6("fd01::5"), Cause::SameInterface),
        ("elsewhere", to("100.64.0.1"), Cause::NotMember),
        ("elsewhere of IPv6", to_6("2001:db8:8::1"), Cause::NotMember),
    ]
}

/// Packets within packets, and fragments that overlap, reach beyond the longest packet, or leave
/// nothing of it: seeds for more of their kinds.
fn hostile() -> Vec<Vec<u8>> {
    let (a4, to4, a6, to6) = ("10.1.0.2", "198.18.0.1", "fd01::2", "2001:db8:1::1");
    let inner4 = packet("127.0.0.1", "224.0.0.1", 17, &udp((5, 6), 40));
    let inner6 = packet("::1", "ff02::1", 17, &udp((5, 6), 40));
    let gre = |protocol: [u8; 2], inner: &[u8]| [&[0, 0][..], &protocol, inner].concat();
    let gue = |inner: &[u8]| [&udp((0xc000, 6080), 0)[..], inner].concat();
    let mut frames = vec![
        framed(packet(a4, to4, 4, &inner4)),
        framed(packet(a4, to4, 41, &inner6)),
        framed(packet(a6, to6, 4, &inner4)),
        framed(packet(a6, to6, 41, &inner6)),
        framed(packet(a4, to4, 47, &gre([8, 0], &inner4))),
        framed(packet(a6, to6, 47, &gre([0x86, 0xdd], &inner6))),
        framed(packet(a4, to4, 17, &gue(&inner4))),
        framed(packet(a4, to4, 4, &packet(a4, to4, 4, &packet(a4, to4, 4, &inner4)))),
    ];
    for (high, low) in [(0x20, 0), (0x20, 1), (0x00, 1), (0x3f, 0xff), (0x1f, 0xff), (0xa0, 0)] {
        let bytes = packet(a4, to4, 17, &udp((5, 6), 1400));
        frames.push(changed(bytes, |ip| (ip[6], ip[7]) = (high, low)));
    }
    for (next, rest) in [(44, [17, 0, 0xff, 0xf9]), (44, [44, 0, 0, 1]), (43, [17, 0, 0, 1])] {
        let payload = [&rest[..], &[0; 4], &udp((5, 6), 40)].concat();
        frames.push(framed(packet(a6, to6, next, &payload)));
    }
    frames
}

#[test]
fn settings_of_the_interface_count() {
    if !need_root("settings_of_the_interface_count") {
        return;
    }
    let net = testbed();
    let all = ifindexes(&net);
    let (frame, frame_6) = (plain("10.1.0.2", "198.18.0.1"), plain("fd01::2", "2001:db8:1::1"));
    let strange = [plain("198.18.0.9", "198.19.0.1"), plain("8.8.8.8", "198.18.0.1")];
    net.inside("r", || {
        for (reverse_path, is_strict, is_loose) in
            [(ReversePath::Strict, true, false), (ReversePath::Loose, false, true)]
        {
            let loaded = Loaded::new(all, reverse_path);
            let settings = Settings { is_strict, is_loose };
            assert_eq!(check(&loaded, &frame, settings).cause, Cause::Forwarded);
            assert_eq!(check(&loaded, &frame_6, settings).cause, Cause::Forwarded);
            let found = strange.each_ref().map(|frame| check(&loaded, frame, settings).cause);
            let first = if is_strict { Cause::ReversePath } else { Cause::Forwarded };
            assert_eq!(found, [first, Cause::ReversePath]);
        }
    });
    for version in [4, 6] {
        net.sysctl("r", &format!("net.ipv{version}.conf.in0.forwarding"), "0");
    }
    net.inside("r", || {
        let loaded = Loaded::new(all, ReversePath::Unasked);
        for frame in [&frame, &frame_6] {
            let (run, report) = loaded.program.explain(&loaded.tables, frame).unwrap();
            assert_eq!((run.verdict, report.cause), (Verdict::Pass, Cause::Off));
        }
    });
}

#[test]
fn next_hops_in_use_are_marked() {
    if !need_root("next_hops_in_use_are_marked") {
        return;
    }
    let net = testbed();
    let all = ifindexes(&net);
    net.inside("r", || {
        let loaded = Loaded::new(all, ReversePath::Unasked);
        let used = || {
            let places = loaded.tables.take_used_hops();
            let used = places.iter().enumerate().filter(|(_, is_used)| **is_used);
            used.map(|(place, _)| place).collect::<Vec<_>>()
        };
        let hop = |ifindex, address: &str| vec![hop_place(ifindex, address.parse().unwrap())];
        for (frame, expected) in [
            (plain("10.1.0.2", "198.18.0.1"), hop(all[1], "10.2.0.2")),
            (plain("10.1.0.2", "10.3.0.5"), hop(all[2], "10.3.0.5")),
            (plain("fd01::2", "2001:db8:1::1"), hop(all[1], "fd02::2")),
            (plain("10.1.0.2", "198.20.0.1"), hop(all[1], "fd02::2")),
            (plain("10.1.0.2", "192.0.2.1"), Vec::new()),
        ] {
            check(&loaded, &frame, Settings::default());
            assert_eq!(used(), expected);
        }
    });
}

#[test]
fn without_a_process_the_host_sees_a_packet_a_second_to_each_next_hop() {
    if !need_root("without_a_process_the_host_sees_a_packet_a_second") {
        return;
    }
    let net = testbed();
    let all = ifindexes(&net);
    net.inside("r", || {
        let loaded = Loaded::with(all, ReversePath::Unasked, true);
        let frames = [plain("10.1.0.2", "198.18.0.1"), plain("10.1.0.2", "10.3.0.5")];
        let cause = |frame: &[u8]| loaded.program.explain(&loaded.tables, frame).unwrap().1.cause;
        let start = Instant::now();
        let mut left = 0;
        while start.elapsed() < Duration::from_millis(2500) {
            for frame in &frames {
                left += u64::from(cause(frame) == Cause::Forwarded);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let counts = loaded.tables.counts(0).unwrap();
        assert_eq!(counts.of(Cause::Forwarded), counts.received - counts.of(Cause::Refresh));
        // A machine that stands still in between has fewer.
        assert!((2..=4).contains(&counts.of(Cause::Refresh)), "{counts:?}, {left} reported");
        // A process that looks at them makes that needless.
        loaded.tables.take_used_hops();
        let before = counts.of(Cause::Refresh);
        frames.iter().for_each(|frame| assert_eq!(cause(frame), Cause::Forwarded));
        assert_eq!(loaded.tables.counts(0).unwrap().of(Cause::Refresh), before);
    });
}

#[test]
fn any_frame_becomes_what_the_model_says() {
    if !need_root("any_frame_becomes_what_the_model_says") {
        return;
    }
    let net = testbed();
    let all = ifindexes(&net);
    net.inside("r", || {
        let mut random = Random::new(24);
        let mut seeds: Vec<Vec<u8>> = named().into_iter().map(|one| one.1).collect();
        seeds.extend((0..500).map(|_| any(&mut random)));
        seeds.extend(hostile());
        let strict = Settings { is_strict: true, is_loose: false };
        let all_loaded = [
            (Loaded::new(all, ReversePath::Unasked), Settings::default()),
            (Loaded::new(all, ReversePath::Strict), strict),
        ];
        // In the long run ten million.
        fuzz("route-frames", 250_000, &seeds, |input| {
            // What the kernel does not run: no header of a link layer, or none behind it.
            let mut frame = input.to_vec();
            if frame.len() < 15 {
                return;
            }
            // Most mutations break the checksum, and with it all that is behind.
            if frame.len() >= 34 && frame[12..15] == [8, 0, 0x45] && frame[33] & 7 != 0 {
                crate::frames::fix(&mut frame[14..34]);
            }
            for (loaded, settings) in &all_loaded {
                check(loaded, &frame, *settings);
            }
        });
        for (loaded, _) in &all_loaded {
            let counts = loaded.tables.counts(0).unwrap();
            assert_eq!(counts.received, counts.causes.iter().sum::<u64>());
            assert!(counts.of(Cause::Forwarded) > counts.received / 50, "{counts:?}");
        }
    });
}
