//! Other programs find every length and every checksum right: etherparse, and tshark, which looks
//! into tunnels and puts fragments together.

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use pcap_file::pcap::{PcapPacket, PcapWriter};
use ringside_segment::{Cut, LinearChecksum, Pieces, Position, Segmenter, Settings, Template};
use ringside_testkit::stacks::{Header, Stack, Wanted};
use ringside_testkit::{Random, need_tool};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The frames of a random packet.
fn frames(random: &mut Random, wanted: Wanted, cut: Cut) -> (Stack, Vec<Vec<u8>>) {
    let stack = Stack::random(random, wanted);
    let template = Template::parse(&stack.uncut(&[])).unwrap();
    let segmenter = Segmenter::new(&template, Settings { cut, ..Settings::mtu(600) }).unwrap();
    // Text, which no dissector takes for packets.
    let text = b"two frames with the same words, and one more; ";
    let payload: Vec<u8> = text.iter().copied().cycle().take(1 + random.below(3000)).collect();
    let pieces = [&payload[..]];
    let plan = segmenter.plan(Position::default(), payload.len()).unwrap();
    let write = |segment: ringside_segment::Segment<'_>| {
        let mut frame = vec![0; segment.frame_bytes()];
        segment.write_linear(&mut frame, &Pieces::new(&pieces), LinearChecksum::Full).unwrap();
        frame
    };
    (stack, plan.segments().map(write).collect())
}

#[test]
fn etherparse_finds_lengths_and_checksums_right() {
    let (random, mut judged) = (&mut Random::new(11), 0);
    for _ in 0..2000 {
        let (stack, frames) = frames(random, Wanted::default(), Cut::Segments);
        for frame in frames {
            let packet = SlicedPacket::from_ethernet(&frame).unwrap();
            let transport = packet.transport.unwrap();
            let end = match &packet.net {
                Some(NetSlice::Ipv4(ip)) => {
                    let header = ip.header();
                    let expected = header.to_header().calc_header_checksum();
                    assert_eq!(header.header_checksum(), expected, "{stack:?}");
                    let ends = [header.source(), header.destination()];
                    assert_v4(&transport, ends, &stack);
                    ip.payload().payload.as_ptr_range().end
                }
                Some(NetSlice::Ipv6(ip)) => {
                    let header = ip.header();
                    // It does not look for the end of a source route.
                    if !is_routed(&stack) {
                        assert_v6(&transport, [header.source(), header.destination()], &stack);
                    }
                    ip.payload().payload.as_ptr_range().end
                }
                other => panic!("{other:?} of {stack:?}"),
            };
            assert_eq!(end, frame.as_ptr_range().end, "the packet ends with the frame");
            judged += 1;
        }
    }
    assert!(judged > 5000, "{judged}");
}

fn is_routed(stack: &Stack) -> bool {
    stack.0.iter().any(|header| match header {
        Header::Ipv6 { extensions, .. } => extensions.iter().any(|(kind, _)| *kind == 43),
        _ => false,
    })
}

fn assert_v4(transport: &TransportSlice<'_>, [from, to]: [[u8; 4]; 2], stack: &Stack) {
    match transport {
        TransportSlice::Tcp(tcp) => {
            assert_eq!(tcp.checksum(), tcp.calc_checksum_ipv4(from, to).unwrap(), "{stack:?}");
        }
        TransportSlice::Udp(udp) => {
            let header = udp.to_header();
            let expected = header.calc_checksum_ipv4_raw(from, to, udp.payload()).unwrap();
            assert!([0, expected].contains(&header.checksum), "{stack:?}");
            assert_eq!(header.checksum != 0, summed(stack));
        }
        other => panic!("{other:?}"),
    }
}

fn assert_v6(transport: &TransportSlice<'_>, [from, to]: [[u8; 16]; 2], stack: &Stack) {
    match transport {
        TransportSlice::Tcp(tcp) => {
            assert_eq!(tcp.checksum(), tcp.calc_checksum_ipv6(from, to).unwrap(), "{stack:?}");
        }
        TransportSlice::Udp(udp) => {
            let header = udp.to_header();
            let expected = header.calc_checksum_ipv6_raw(from, to, udp.payload()).unwrap();
            assert_eq!(header.checksum, expected, "{stack:?}");
        }
        other => panic!("{other:?}"),
    }
}

fn summed(stack: &Stack) -> bool {
    matches!(stack.0.last(), Some(Header::Udp { has_checksum: true, .. }))
}

/// What tshark says of each frame: the states of all checksums of a kind, joined by commas.
fn statuses(file: &Path) -> Vec<Vec<String>> {
    let output = Command::new("tshark")
        .args(["-n", "-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"])
        .args(["-o", "udp.check_checksum:TRUE", "-o", "udp.try_heuristic_first:FALSE"])
        // Tunnels may go without (RFC 6935).
        .args(["-o", "udp.ignore_ipv6_zero_checksum:TRUE"])
        .args(["-T", "fields", "-E", "separator=;"])
        .args(
            ["ip", "tcp", "udp", "gre"]
                .iter()
                .flat_map(|name| ["-e".into(), format!("{name}.checksum.status")]),
        )
        .args(["-e", "_ws.malformed", "-r"])
        .arg(file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split(';').map(str::to_owned).collect()).collect()
}

#[test]
fn tshark_finds_every_checksum_right() {
    if !need_tool("tshark_finds_every_checksum_right", "tshark") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("segments.pcap");
    let mut writer = PcapWriter::new(std::fs::File::create(&file).unwrap()).unwrap();
    let (random, mut stacks) = (&mut Random::new(12), Vec::new());
    for number in 0..1500 {
        let is_fragmented = number % 3 == 0;
        let wanted = Wanted {
            tunnels_max: 2,
            is_fragmentable: is_fragmented,
            is_tcp: is_fragmented.then_some(false),
            is_summed: number % 2 == 0,
        };
        let cut = if is_fragmented { Cut::Fragments { id: number } } else { Cut::Segments };
        let (stack, frames) = frames(random, wanted, cut);
        for (index, frame) in frames.iter().enumerate() {
            let time = Duration::from_secs(stacks.len() as u64);
            let packet = PcapPacket::new(time, frame.len() as u32, frame).unwrap();
            writer.write_packet(&packet).unwrap();
            // Fragments are put together at the last one, and judged there.
            let whole = cut == Cut::Segments || index + 1 == frames.len();
            stacks.push((stack.clone(), whole));
        }
    }
    drop(writer);
    let (said, mut good) = (statuses(&file), [0; 4]);
    assert_eq!(said.len(), stacks.len());
    for (number, (said, (stack, whole))) in said.iter().zip(&stacks).enumerate() {
        let context = format!("frame {}: {said:?} {whole} {stack:?}", number + 1);
        for (kind, count) in good.iter_mut().enumerate() {
            let states: Vec<&str> = said[kind].split(',').filter(|s| !s.is_empty()).collect();
            // 1 is good; 3 is a checksum that is not there, which only UDP may lack.
            let is_fine = |state: &&str| *state == "1" || (*state == "3" && kind == 2);
            assert!(states.iter().all(is_fine), "{context}");
            *count += states.iter().filter(|state| **state == "1").count();
        }
        let ipv4 = stack.0.iter().filter(|header| matches!(header, Header::Ipv4 { .. })).count();
        let judged = said[0].split(',').filter(|state| *state == "1").count();
        assert_eq!(judged, ipv4, "every IPv4 header was seen: {context}");
        if *whole && (summed(stack) || matches!(stack.0.last(), Some(Header::Tcp { .. }))) {
            assert!(said[1].contains('1') || said[2].contains('1'), "{context}");
        }
    }
    eprintln!("{} frames; right checksums of IPv4, TCP, UDP, GRE: {good:?}", said.len());
    assert!(good[..3].iter().all(|&count| count > 1000) && good[3] > 50, "{good:?}");
}
