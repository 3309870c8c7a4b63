use super::*;
use proptest::prelude::*;
use ringside_core::LinkType;
use ringside_wire::{Level, Verdict, dissect, verify_network, verify_transport};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(1);
/// Frames of one capture that are tried; a few hold tens of thousands that are alike.
const FRAMES_MAX: usize = 3_000;

fn map(rules: &[&str]) -> AddressMap {
    let rules: Vec<AddressRule> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    AddressMap::new(&rules).unwrap()
}

/// Every address changes: the upper halves of both spaces change places with the lower ones.
fn all_addresses() -> AddressMap {
    map(&["0.0.0.0/1=128.0.0.0/1", "::/1=8000::/1"])
}

fn rewritten(rewrite: &mut Rewrite, frame: &[u8]) -> Vec<u8> {
    let mut out = vec![9, 9, 9];
    rewrite.append(frame, &mut out);
    assert_eq!(out[..3], [9, 9, 9]);
    out.split_off(3)
}

/// Ethernet frames of all real captures.
fn corpus(test: &str) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for path in ringside_testkit::capture_files(test) {
        let Ok(mut source) = ringside_store::open(&[path]) else { continue };
        let end = frames.len() + FRAMES_MAX;
        while !source.is_finished() && frames.len() < end {
            let Ok(Some(batch)) = source.next_batch(WAIT) else { break };
            for frame in batch.iter() {
                let interface = &batch.interfaces()[frame.meta.interface.0 as usize];
                if interface.link_type == LinkType::ETHERNET {
                    frames.push(frame.bytes.to_vec());
                }
            }
        }
    }
    frames
}

/// By how much a checksum is wrong; in one's complement, where 0 and 0xffff are the same.
fn wrongness(verdict: Verdict) -> Option<u32> {
    match verdict {
        Verdict::Correct => Some(0),
        Verdict::Wrong { found, expected } => Some((found + 0xffff - expected) % 0xffff),
        Verdict::Absent | Verdict::Unknown => None,
    }
}

/// Checks what is true of every frame; gives how many checksums were right and how many wrong.
fn check_mapped(frame: &[u8], addresses: &AddressMap) -> (u64, u64) {
    let mut rewrite = Rewrite { addresses: addresses.clone(), ..Rewrite::default() };
    let after = rewritten(&mut rewrite, frame);
    assert_eq!(after.len(), frame.len());
    let (before_layers, layers) =
        (dissect(frame, LinkType::ETHERNET), dissect(&after, LinkType::ETHERNET));
    assert_eq!(before_layers.as_slice(), layers.as_slice());
    let (mut right, mut wrong) = (0, 0);
    let mut compare = |before: Verdict, after: Verdict, what: &str| {
        let is_sctp = matches!((before, after), (Verdict::Wrong { found: 0x1_0000.., .. }, _));
        if is_sctp {
            assert_eq!(before, after);
            return;
        }
        assert_eq!(wrongness(before), wrongness(after), "{what} of {layers:?}: {frame:02x?}");
        right += u64::from(before == Verdict::Correct);
        wrong += u64::from(matches!(before, Verdict::Wrong { .. }));
    };
    for level in [Level::Outer, Level::Inner] {
        let of = |bytes: &[u8]| verify_network(bytes, &layers, level);
        compare(of(frame), of(&after), "network");
        let of = |bytes: &[u8]| verify_transport(bytes, &layers, level);
        compare(of(frame), of(&after), "transport");
    }
    // The map leads back; but a checksum of 0xffff and 0 are the same, and one of them is lost.
    let back = rewritten(&mut rewrite, &after);
    let differ: Vec<_> = (0..frame.len()).filter(|&at| back[at] != frame[at]).collect();
    let zeros = differ.iter().all(|&at| matches!((back[at], frame[at]), (0, 0xff) | (0xff, 0)));
    assert!(zeros, "at {differ:?} of {layers:?}: {frame:02x?}");
    (right, wrong)
}

#[test]
fn checksums_of_real_frames_stay_right_and_as_wrong_as_they_were() {
    let test = "checksums_of_real_frames_stay_right_and_as_wrong_as_they_were";
    let (all, some) = (all_addresses(), map(&["10.0.0.0/8=192.0.0.0/8", "2001::/16=fe80::/16"]));
    let (mut right, mut wrong, mut changed) = (0, 0, 0);
    for frame in corpus(test) {
        for addresses in [&all, &some] {
            let (r, w) = check_mapped(&frame, addresses);
            (right, wrong) = (right + r, wrong + w);
        }
        let mut rewrite = Rewrite { addresses: all.clone(), ..Rewrite::default() };
        changed += u64::from(rewrite.append(&frame, &mut Vec::new()).mapped);
    }
    eprintln!("{changed} frames changed, {right} checksums right, {wrong} wrong");
    assert!(ringside_testkit::capture_dir().is_none() || (right > 10_000 && wrong > 100));
}

/// IPv4 in Ethernet: `protocol` over `payload`, from 10.0.0.1 to 10.0.0.2, checksum right.
fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let total = (20 + payload.len()) as u16;
    let mut header = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    header[2..4].copy_from_slice(&total.to_be_bytes());
    let sum = ringside_wire::checksum::checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header.extend_from_slice(payload);
    header
}

fn ethernet(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    frame.extend_from_slice(&ether_type.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A UDP datagram; a checksum of its own only where `checksum` gives one.
fn udp(payload: &[u8], checksum: u16) -> Vec<u8> {
    let mut datagram = vec![0x30, 0x39, 0, 9];
    datagram.extend_from_slice(&((8 + payload.len()) as u16).to_be_bytes());
    datagram.extend_from_slice(&checksum.to_be_bytes());
    datagram.extend_from_slice(payload);
    datagram
}

#[test]
fn a_packet_that_an_error_quotes_is_changed_with_its_error() {
    let quoted = ipv4(17, &udp(&[], 0x1234));
    let mut message = vec![3, 1, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(&quoted);
    let sum = ringside_wire::checksum::checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let frame = ethernet(0x0800, &ipv4(1, &message));
    let addresses = map(&["10.0.0.0/24=10.7.7.0/24"]);
    assert_eq!(check_mapped(&frame, &addresses).0, 4);
    let mut rewrite = Rewrite { addresses, ..Rewrite::default() };
    let after = rewritten(&mut rewrite, &frame);
    let inner = &after[14 + 20 + 8..];
    assert_eq!(inner[12..20], [10, 7, 7, 1, 10, 7, 7, 2]);
    assert_eq!(ringside_wire::checksum::checksum(&inner[..20]), 0);
    assert_ne!(inner[26..28], [0x12, 0x34]);
}

#[test]
fn arp_and_neighbours_are_changed() {
    let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1];
    arp.extend_from_slice(&[0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
    let mut rewrite = Rewrite { addresses: all_addresses(), ..Rewrite::default() };
    let after = rewritten(&mut rewrite, &ethernet(0x0806, &arp));
    assert_eq!((after[14 + 14], after[14 + 24]), (138, 138));

    let mut ipv6 = vec![0x60, 0, 0, 0, 0, 24, 58, 255];
    ipv6.extend_from_slice(&[0xfe; 16]);
    ipv6.extend_from_slice(&[0xff; 16]);
    ipv6.extend_from_slice(&[135, 0, 0, 0, 0, 0, 0, 0]);
    ipv6.extend_from_slice(&[0x20; 16]);
    let frame = ethernet(0x86dd, &ipv6);
    let mut rewrite = Rewrite { addresses: map(&["2020::/16=3030::/16"]), ..Rewrite::default() };
    let after = rewritten(&mut rewrite, &frame);
    assert_eq!(after[14 + 48..][..3], [0x30, 0x30, 0x20]);
    assert_eq!(check_mapped(&frame, &rewrite.addresses), (0, 2));
}

/// The datagram with its checksum, as it travels from 10.0.0.1 to 10.0.0.2.
fn summed(mut datagram: Vec<u8>) -> Vec<u8> {
    use ringside_wire::{IpProtocol, checksum};
    let (source, destination) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let addresses = checksum::Addresses::V4 { source, destination };
    datagram[6..8].fill(0);
    let sum = checksum::pseudo(addresses, IpProtocol::UDP, datagram.len() as u32);
    let sum = sum.bytes(&datagram).checksum();
    datagram[6..8].copy_from_slice(&sum.to_be_bytes());
    datagram
}

#[test]
fn a_tunnel_has_its_own_checksum_and_those_within_changed() {
    let inner = ethernet(0x0800, &ipv4(17, &summed(udp(b"inside", 0))));
    let vxlan = [&[8, 0, 0, 0, 0, 0, 42, 0], &inner[..]].concat();
    let mut outer = udp(&vxlan, 0);
    outer[2..4].copy_from_slice(&4789u16.to_be_bytes());
    let frame = ethernet(0x0800, &ipv4(17, &summed(outer)));
    // Of either prefix one address is outside, so that nothing cancels out.
    for rule in ["10.0.0.1=192.0.2.77", "10.0.0.2=1.2.3.4", "10.0.0.0/8=11.0.0.0/8"] {
        assert_eq!(check_mapped(&frame, &map(&[rule])), (4, 0), "{rule}");
    }
}

#[test]
fn fragments_fit_together_after_they_were_changed() {
    let whole = ipv4(17, &summed(udp(b"sixteen bytes in the first, and more", 0)));
    let (header, datagram) = whole.split_at(20);
    let fragment = |part: &[u8], flags_and_offset: u16| {
        let mut packet = [header, part].concat();
        packet[2..4].copy_from_slice(&((20 + part.len()) as u16).to_be_bytes());
        packet[6..8].copy_from_slice(&flags_and_offset.to_be_bytes());
        packet[10..12].fill(0);
        let sum = ringside_wire::checksum::checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        ethernet(0x0800, &packet)
    };
    let addresses = map(&["10.0.0.1=203.0.113.9"]);
    let mut rewrite = Rewrite { addresses, ..Rewrite::default() };
    let first = rewritten(&mut rewrite, &fragment(&datagram[..24], 0x2000));
    let second = rewritten(&mut rewrite, &fragment(&datagram[24..], 3));
    for packet in [&first[14..], &second[14..]] {
        assert_eq!(ringside_wire::checksum::checksum(&packet[..20]), 0);
        assert_eq!(packet[12..16], [203, 0, 113, 9]);
    }
    assert_eq!(second[34..], datagram[24..]);
    let mut joined = ipv4(17, &[&first[34..], &second[34..]].concat());
    joined[12..16].copy_from_slice(&[203, 0, 113, 9]);
    let frame = ethernet(0x0800, &joined);
    let layers = dissect(&frame, LinkType::ETHERNET);
    assert_eq!(verify_transport(&frame, &layers, Level::Outer), Verdict::Correct);
}

#[test]
fn a_datagram_without_a_checksum_gets_none() {
    let frame = ethernet(0x0800, &ipv4(17, &udp(b"abc", 0)));
    let mut rewrite = Rewrite { addresses: all_addresses(), ..Rewrite::default() };
    let after = rewritten(&mut rewrite, &frame);
    assert_eq!(after[14 + 26..][..2], [0, 0]);
    assert_eq!(after[14 + 12], 138);
}

#[test]
fn tags_and_hardware_addresses() {
    let plain = ethernet(0x0800, &[1, 2, 3]);
    let tag = |id: u8| vec![0x81, 0, 0xa0, id];
    let tagged = [&plain[..12], &tag(7), &plain[12..]].concat();
    let twice = [&plain[..12], &[0x88, 0xa8, 0, 5], &tag(7), &plain[12..]].concat();
    let vlan = |vlan| Rewrite { vlan, ..Rewrite::default() };
    let mut strip = vlan(VlanChange::Strip);
    for frame in [&plain, &tagged, &twice] {
        assert_eq!(rewritten(&mut strip, frame), plain);
        assert_eq!(rewritten(&mut Rewrite::default(), frame), *frame);
    }
    let mut set = vlan(VlanChange::Set(VlanId::new(9).unwrap()));
    assert_eq!(rewritten(&mut set, &plain)[12..16], [0x81, 0, 0, 9]);
    assert_eq!(rewritten(&mut set, &tagged)[12..16], [0x81, 0, 0xa0, 9]);
    assert_eq!(rewritten(&mut set, &twice)[12..20], [0x88, 0xa8, 0, 9, 0x81, 0, 0xa0, 7]);
    assert!(VlanId::new(4096).is_none());

    let mut macs = Rewrite {
        mac_source: Some(MacAddr([1; 6])),
        mac_destination: Some(MacAddr::BROADCAST),
        ..Rewrite::default()
    };
    let after = rewritten(&mut macs, &tagged);
    assert_eq!(
        (&after[..6], &after[6..12], &after[12..]),
        (&[255; 6][..], &[1; 6][..], &tagged[12..])
    );
}

proptest! {
    #[test]
    fn an_update_equals_the_whole_reckoned_anew(
        payload in proptest::collection::vec(any::<u8>(), 0..80),
        protocol in prop::sample::select(vec![1u8, 6, 17]),
        one in any::<u32>(), other in any::<u32>(), length in 1u32..=32, source in any::<u32>(),
    ) {
        let mut segment = vec![0u8; if protocol == 6 { 20 } else { 8 }];
        if protocol == 6 {
            segment[12] = 0x50;
        }
        segment.extend_from_slice(&payload);
        if protocol == 17 {
            let bytes = segment.len() as u16;
            segment[4..6].copy_from_slice(&bytes.to_be_bytes());
        }
        let mut packet = ipv4(protocol, &segment);
        packet[12..16].copy_from_slice(&source.to_be_bytes());
        let frame = ethernet(0x0800, &packet);
        let text = |address: u32| format!("{}/{length}", std::net::Ipv4Addr::from(address));
        let rule: AddressRule = format!("{}={}", text(one), text(other)).parse().unwrap();
        if let Ok(addresses) = AddressMap::new(&[rule]) {
            check_mapped(&frame, &addresses);
        }
    }
}

#[test]
fn mutated_frames_are_changed_without_harm() {
    let seeds: Vec<Vec<u8>> =
        corpus("mutated_frames_are_changed_without_harm").into_iter().step_by(97).collect();
    let addresses = all_addresses();
    ringside_testkit::fuzz("rewrite", 200_000, &seeds, |frame| {
        for vlan in [VlanChange::Keep, VlanChange::Strip, VlanChange::Set(VlanId(1))] {
            let mut rewrite = Rewrite { vlan, addresses: addresses.clone(), ..Rewrite::default() };
            let after = rewritten(&mut rewrite, frame);
            assert!(after.len() <= frame.len() + 4);
        }
    });
}
