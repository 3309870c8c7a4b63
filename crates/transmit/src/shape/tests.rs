use super::*;
use proptest::prelude::*;
use ringside_core::LinkType;
use ringside_sys::thread::{allowed_cpus, pin_to_cpu};
use ringside_testkit::need_root;
use ringside_wire::verify::{Verdict, verify_network, verify_transport};
use ringside_wire::{Level, dissect};

/// One of each kind of headers, sizes and numbers.
fn shapes() -> Vec<Shape> {
    let range = |field, text| Range::parse(field, text).unwrap();
    let mut shapes = Vec::new();
    for (vlan, ipv6, tcp) in (0..8).map(|n| (n & 1 != 0, n & 2 != 0, n & 4 != 0)) {
        for numbering in [Numbering::None, Numbering::Number, Numbering::Stamp] {
            let template = Template::of(Stack { vlan, ipv6, tcp, checksum: true });
            let mut ranges = vec![
                range(Field::SourceMac, "02:00:00:00:00:fe-02:00:00:00:01:03"),
                range(Field::DestinationPort, "65530-65535"),
            ];
            ranges.push(match ipv6 {
                true => range(Field::DestinationAddress, "2001:db8::ffff-2001:db8::1:3"),
                false => range(Field::DestinationAddress, "10.0.255.254-10.1.0.6"),
            });
            if vlan {
                ranges.push(range(Field::Vlan, "4090-4095"));
            }
            let sizes = Sizes::list(&[102, 103, 1000, 1513, 1514]).unwrap();
            shapes.push(
                Shape::like(template, ranges, numbering, sizes, if ipv6 { 30 } else { 18 })
                    .unwrap(),
            );
        }
    }
    shapes
}

#[test]
fn a_stamp_is_read_back_as_far_as_the_frame_goes() {
    let shape = Shape::new(Sizes::list(&[57, 58, 61, 62, 1514]).unwrap(), 1000).unwrap();
    for sequence in 0..2000 {
        let frame = shape.frame(5, sequence);
        let flow = (frame.len() >= 62).then_some((sequence % 1000) as u32);
        let stamp = Stamp { stream: 5, sequence, flow, tai_low_ns: None };
        assert_eq!(Stamp::read(&frame), (frame.len() >= STAMPED_BYTES_MIN).then_some(stamp));
    }
    assert_eq!(Stamp::read(&[]), None);
    assert_eq!(Stamp::read(&[0; 100]), None);
}

#[test]
fn numbers_and_times_are_read_behind_any_headers() {
    for shape in shapes() {
        let table = shape.to_table();
        let mut buffer = shape.buffer();
        for sequence in 0..100 {
            let bytes = table.write(9, sequence, 0x1234_5678_9abc_def0, &mut buffer);
            let flow = (sequence % u64::from(shape.flow_count)) as u32;
            let stamp = match shape.numbering {
                Numbering::None => None,
                Numbering::Number => {
                    Some(Stamp { stream: 9, sequence, flow: Some(flow), tai_low_ns: None })
                }
                Numbering::Stamp => Some(Stamp {
                    stream: 9,
                    sequence,
                    flow: None,
                    tai_low_ns: Some(0x5678_9abc_def0),
                }),
            };
            assert_eq!(Stamp::read(&buffer[..bytes]), stamp);
        }
    }
}

#[test]
fn lengths_and_checksums_are_right() {
    for shape in shapes() {
        let table = shape.to_table();
        let mut buffer = shape.buffer();
        for sequence in 0..200 {
            let bytes = table.write(3, sequence, 0x0123_4567_89ab_cdef * sequence, &mut buffer);
            let frame = &buffer[..bytes];
            let layers = dissect(frame, LinkType::ETHERNET);
            assert_eq!(layers.payload().end, bytes, "lengths of {shape:?}");
            let checked = verify_transport(frame, &layers, Level::Outer);
            assert_eq!(checked, Verdict::Correct, "frame {sequence} of {shape:?}");
            let network = verify_network(frame, &layers, Level::Outer);
            assert!(!matches!(network, Verdict::Wrong { .. }), "{sequence} of {shape:?}");
        }
    }
}

#[test]
fn the_ipv4_checksum_is_right_in_every_size() {
    let shape = Shape::new(Sizes::uniform(14, 2000).unwrap(), FLOWS_MAX).unwrap();
    for sequence in [0, 1, 65_535, 65_536, 1_048_575] {
        let mut frame = shape.buffer();
        shape.write(0, sequence, &mut frame);
        assert_eq!(ringside_wire::checksum::checksum(&frame[14..34]), 0, "frame {sequence}");
    }
}

#[test]
fn a_captured_frame_comes_again_with_other_addresses() {
    let first = shapes()[1].frame(0, 0);
    let template = Template::captured(first.clone()).unwrap();
    let sizes = Sizes::fixed(first.len() as u16).unwrap();
    let again = Shape::like(template.clone(), Vec::new(), Numbering::None, sizes, 1).unwrap();
    assert_eq!(again.frame(7, 3), first);
    let ranges = vec![Range::parse(Field::SourceAddress, "192.0.2.0/24").unwrap()];
    let other =
        Shape::like(template, ranges, Numbering::None, Sizes::fixed(200).unwrap(), 256).unwrap();
    let frame = other.frame(0, 77);
    assert_eq!((frame.len(), &frame[26..30]), (200, &[192, 0, 2, 77][..]));
    assert_eq!(frame[42..first.len().min(200)], first[42..first.len().min(200)]);
}

#[test]
fn what_cannot_be_made_is_refused_with_the_fix() {
    let range = |field, text| vec![Range::parse(field, text).unwrap()];
    let udp = || Template::of(Stack::default());
    let v6 = || Template::of(Stack { ipv6: true, ..Stack::default() });
    let arp = || {
        let mut frame = vec![0xff; 42];
        frame[12..20].copy_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4]);
        Template::captured(frame).unwrap()
    };
    let (none, number) = (Numbering::None, Numbering::Number);
    for (template, ranges, numbering, size, flows, said) in [
        (udp(), vec![], number, 64, 0, "1 to 1048576"),
        (udp(), vec![], number, 64, FLOWS_MAX + 1, "1 to 1048576"),
        (udp(), range(Field::SourcePort, "1-5"), number, 64, 6, "at most 5"),
        (udp(), range(Field::Vlan, "7"), number, 64, 1, "no VLAN"),
        (udp(), range(Field::SourceAddress, "::1"), number, 64, 1, "no source address of IPv6"),
        (v6(), vec![], number, 81, 1, "81 bytes are less"),
        (v6(), vec![], none, 61, 1, "61 bytes are less"),
        (arp(), vec![], number, 42, 1, "leave the number out"),
        (arp(), vec![], none, 64, 1, "leave its 42 bytes"),
    ] {
        let sizes = Sizes::fixed(size).unwrap();
        let error = Shape::like(template, ranges, numbering, sizes, flows).expect_err(said);
        assert!(error.to_string().contains(said), "{said}: {error}");
    }
    for bytes in [0, 13, 20, 41] {
        let frame = udp().frame()[..bytes].to_vec();
        let error = Template::captured(frame).expect_err("shorter than its headers").to_string();
        assert!(error.contains("header"), "{bytes}: {error}");
    }
}

proptest! {
    #[test]
    fn ranges_make_as_many_flows_as_is_said(a in 1u128..200, b in 1u128..200) {
        let range = |field, count| Range::new(field, 0, count);
        let ranges = [range(Field::SourcePort, a), range(Field::DestinationPort, b)];
        let different = different_flows(&ranges);
        let flows: std::collections::BTreeSet<_> = (0..a * b).map(|n| (n % a, n % b)).collect();
        prop_assert_eq!(different, flows.len() as u128);
    }
}

#[test]
fn hostile_templates_are_refused_or_made() {
    let seeds: Vec<Vec<u8>> = shapes().iter().map(|shape| shape.frame(0, 0)).collect();
    ringside_testkit::fuzz("template", 400_000, &seeds, |bytes| {
        let Ok(template) = Template::captured(bytes.to_vec()) else { return };
        let Ok(sizes) = Sizes::fixed(bytes.len().min(65_535) as u16) else { return };
        for numbering in [Numbering::None, Numbering::Stamp] {
            if let Ok(shape) =
                Shape::like(template.clone(), Vec::new(), numbering, sizes.clone(), 1)
            {
                assert_eq!(shape.frame(0, 1).len(), bytes.len());
            }
        }
    });
}

#[test]
fn the_generator_in_ebpf_makes_the_same_frames() {
    if !need_root("the_generator_in_ebpf_makes_the_same_frames") {
        return;
    }
    let cpu = allowed_cpus().unwrap()[0];
    pin_to_cpu(cpu).unwrap();
    let usual = [("14-3408", 70_000), ("14,41,58", 3), ("imix", FLOWS_MAX)];
    let usual = usual.map(|(sizes, flows)| Shape::new(sizes.parse().unwrap(), flows).unwrap());
    for shape in usual.into_iter().chain(shapes()) {
        let generator = shape.generator(2, &[cpu], None).unwrap();
        let table = shape.to_table();
        for sequence in 0..2000 {
            let run = generator.run_once().unwrap();
            assert_eq!(run.verdict, ringside_ebpf::Verdict::Redirect);
            let mut frame = shape.buffer();
            let time = Stamp::read(&run.frame).and_then(|stamp| stamp.tai_low_ns).unwrap_or(0);
            let bytes = table.write(0, sequence, time, &mut frame);
            assert!(run.frame == frame[..bytes], "frame {sequence} of {shape:?}");
            if shape.numbering != Numbering::Stamp {
                assert_eq!(shape.frame(0, sequence), frame[..bytes]);
            }
        }
    }
}
