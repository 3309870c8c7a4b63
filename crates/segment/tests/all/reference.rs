//! What is cut here is, byte for byte, what a plain reference makes from scratch: for random header
//! stacks, payloads, sizes, pieces, and ways to make the checksum.

use proptest::prelude::*;
use ringside_segment::{
    Checksum, Cut, Ids, LinearChecksum, Pieces, Position, SegPlan, Segmenter, Settings, Template,
};
use ringside_testkit::Random;
use ringside_testkit::stacks::{self, Header, Stack, Wanted};
use ringside_wire::checksum::Sum;

const _: () = assert!(stacks::LAYERS_MAX == ringside_wire::LAYERS_MAX);

/// The payload in up to nine pieces, some of them empty.
fn cut_at_random<'p>(random: &mut Random, payload: &'p [u8]) -> Vec<&'p [u8]> {
    let mut cuts: Vec<usize> =
        (0..random.below(9)).map(|_| random.below(payload.len() + 1)).collect();
    cuts.extend([0, payload.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| &payload[pair[0]..pair[1]]).collect()
}

/// The template that a stack is: the headers of a packet of any length, its checksums right.
fn template(random: &mut Random, stack: &Stack) -> Template {
    let payload = random.bytes(random.clone().below(100));
    Template::parse(&stack.uncut(&payload)[..stack.header_bytes()]).unwrap()
}

/// All frames of a plan, made in each way that there is.
fn frames(plan: &SegPlan<'_>, pieces: &Pieces<'_>, payload: &[u8]) -> Vec<Vec<u8>> {
    let summed = plan.with_datagram_sum(Sum::new().bytes(payload));
    let all = plan.segments().zip(summed.segments()).map(|(segment, summed)| {
        let mut slot = vec![0xee; segment.frame_bytes() + 3];
        let written = segment.write_linear(&mut slot, pieces, LinearChecksum::Full).unwrap();
        assert_eq!((written.bytes, written.offload), (segment.frame_bytes(), None));
        assert_eq!(slot.split_off(written.bytes), [0xee; 3], "nothing is written behind");
        let own = &payload[segment.payload()];
        assert!(pieces.slices(segment.payload()).eq(pieces.slices(segment.payload())));
        assert_eq!(pieces.slices(segment.payload()).collect::<Vec<_>>().concat(), own);

        let mut header = vec![0; segment.header_bytes()];
        for checksum in [Checksum::PayloadSum(Sum::new().bytes(own)), Checksum::Payload(pieces)] {
            header.fill(0x5a);
            let written = summed.write_header(&mut header, checksum).unwrap();
            assert_eq!((written.bytes, written.offload), (header.len(), None));
            assert_eq!(header, slot[..header.len()]);
        }
        let mut frame = vec![0; segment.frame_bytes()];
        summed.write_header(&mut frame, Checksum::Offload).unwrap();
        frame[segment.header_bytes()..].copy_from_slice(own);
        let written = summed.write_header(&mut frame, Checksum::Offload).unwrap();
        if let Some(offload) = written.offload {
            finish(&mut frame, usize::from(offload.start), usize::from(offload.offset));
        }
        assert!(frame == slot, "what was left to the interface, finished, is the same");
        slot
    });
    all.collect()
}

/// What an interface does with a checksum that is left to it.
fn finish(frame: &mut [u8], start: usize, offset: usize) {
    let sum = ringside_wire::checksum::checksum(&frame[start..]);
    // As Linux and cards do it. Only UDP could have 0, and must not.
    let sum = if sum == 0 && offset == 6 { 0xffff } else { sum };
    frame[start + offset..start + offset + 2].copy_from_slice(&sum.to_be_bytes());
}

fn compare(ours: &[Vec<u8>], theirs: &[Vec<u8>], stack: &Stack) {
    assert_eq!(ours.len(), theirs.len(), "{stack:?}");
    for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        assert!(ours == theirs, "frame {index} of {stack:?}:\n{ours:02x?}\n{theirs:02x?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn segments_are_those_of_the_reference(
        seed in any::<u64>(), bytes in 0usize..20_000, mss in 1usize..3000,
    ) {
        let random = &mut Random::new(seed);
        let stack = Stack::random(random, Wanted { tunnels_max: 2, ..Wanted::default() });
        let mss = mss.max(bytes / 60);
        let payload = random.bytes(bytes);
        let pieces = cut_at_random(random, &payload);
        let template = template(random, &stack);
        let settings = Settings { mss_bytes: Some(mss), ..Settings::mtu(9000) };
        let segmenter = Segmenter::new(&template, settings).unwrap();
        let plan = segmenter.plan(Position::default(), bytes).unwrap();
        let ours = frames(&plan, &Pieces::new(&pieces), &payload);
        compare(&ours, &stack.segments(&payload, mss), &stack);
        let header = stack.header_bytes();
        prop_assert!(ours.iter().all(|frame| frame.len() <= header + mss));
        prop_assert!(ours.iter().all(|frame| frame.len() <= segmenter.frame_bytes_max()));
        let joined: Vec<u8> = ours.iter().flat_map(|frame| &frame[header..]).copied().collect();
        prop_assert!(joined == payload);

        let uncut = plan.uncut().unwrap();
        let mut slot = vec![0; uncut.frame_bytes()];
        uncut.write_linear(&mut slot, &Pieces::new(&pieces), LinearChecksum::Full).unwrap();
        prop_assert!(slot == stack.uncut(&payload));
        // Taken from a frame, a template is the same, wherever its payload ends.
        slot.extend(random.bytes(bytes % 7));
        let (taken, range) = Template::of_frame(&slot).unwrap();
        prop_assert_eq!(range, header..header + bytes);
        let segmenter = Segmenter::new(&taken, settings).unwrap();
        let plan = segmenter.plan(Position::default(), bytes).unwrap();
        compare(&frames(&plan, &Pieces::new(&pieces), &payload), &ours, &stack);
    }

    #[test]
    fn fragments_are_those_of_the_reference(
        seed in any::<u64>(), bytes in 0usize..20_000, mss in 1usize..300, id in any::<u32>(),
    ) {
        let random = &mut Random::new(seed);
        let wanted = Wanted {
            tunnels_max: 1,
            is_tcp: Some(false),
            is_fragmentable: true,
            ..Wanted::default()
        };
        let stack = Stack::random(random, wanted);
        let mss = (8 * mss).max(bytes / 60).next_multiple_of(8).max(32);
        let payload = random.bytes(bytes);
        let pieces = cut_at_random(random, &payload);
        let template = template(random, &stack);
        let cut = Cut::Fragments { id };
        let settings = Settings { cut, mss_bytes: Some(mss), ..Settings::mtu(9000) };
        let segmenter = Segmenter::new(&template, settings).unwrap();
        let plan = segmenter.plan(Position::default(), bytes).unwrap();
        let ours = frames(&plan, &Pieces::new(&pieces), &payload);
        let theirs = if plan.frame_count() == 1 {
            vec![stack.uncut(&payload)]
        } else {
            stack.fragments(&payload, mss, id)
        };
        compare(&ours, &theirs, &stack);
        prop_assert!(ours.iter().all(|frame| frame.len() <= segmenter.frame_bytes_max()));
    }

    #[test]
    fn a_stream_in_buffers_is_the_stream_in_one(
        seed in any::<u64>(), mss in 1usize..2000, counts in prop::collection::vec(1usize..5, 1..5),
    ) {
        let random = &mut Random::new(seed);
        let wanted = Wanted { tunnels_max: 1, is_tcp: Some(true), ..Wanted::default() };
        let mut stack = Stack::random(random, wanted);
        // Flags that only the ends of a buffer have would tell the two apart.
        let Some(Header::Tcp { flags, .. }) = stack.0.last_mut() else { panic!("TCP") };
        *flags = 0x10;
        let template = template(random, &stack);
        let settings = Settings { mss_bytes: Some(mss), ..Settings::mtu(9000) };
        let segmenter = Segmenter::new(&template, settings).unwrap();
        let payload = random.bytes(counts.iter().sum::<usize>() * mss);
        let all = [&payload[..]];
        let plan = segmenter.plan(Position::default(), payload.len()).unwrap();
        let expected = frames(&plan, &Pieces::new(&all), &payload);
        let (mut position, mut at, mut ours) = (Position::default(), 0, Vec::new());
        for count in counts {
            let buffer = &payload[at..at + count * mss];
            let plan = segmenter.plan(position, buffer.len()).unwrap();
            ours.extend(frames(&plan, &Pieces::new(&[buffer]), buffer));
            (position, at) = (plan.end(), at + buffer.len());
        }
        compare(&ours, &expected, &stack);
    }
}

#[test]
fn numbers_wrap_in_a_buffer_of_many_megabytes() {
    let ethernet_ip = [
        Header::Ethernet,
        Header::Ipv4 {
            id: 0xfff0,
            dont_fragment: true,
            addresses: [10, 0, 0, 1, 10, 0, 0, 2],
            options: vec![],
        },
    ];
    let tcp = Header::Tcp { ports: [1, 2], sequence: 0xffff_f000, flags: 0x19, options: vec![] };
    let stack = Stack([&ethernet_ip[..], &[tcp]].concat());
    let template = Template::parse(&stack.uncut(&[])).unwrap();
    let payload = vec![0x77; 100 << 20];
    let whole = [&payload[..]];
    let pieces = Pieces::new(&whole);
    for ids in [Ids::Counted, Ids::FixedWithDf] {
        let segmenter = Segmenter::new(&template, Settings { ids, ..Settings::mtu(1500) }).unwrap();
        let plan = segmenter.plan(Position::default(), payload.len()).unwrap();
        assert_eq!(plan.frame_count(), (100usize << 20).div_ceil(1460));
        let mut slot = [0; 2000];
        for (index, segment) in plan.segments().enumerate().step_by(997) {
            segment.write_linear(&mut slot, &pieces, LinearChecksum::Full).unwrap();
            let id = u16::from_be_bytes([slot[18], slot[19]]);
            let step = if ids == Ids::Counted { index as u16 } else { 0 };
            assert_eq!(id, 0xfff0u16.wrapping_add(step));
            let sequence = u32::from_be_bytes([slot[38], slot[39], slot[40], slot[41]]);
            assert_eq!(sequence, 0xffff_f000u32.wrapping_add(1460 * index as u32));
        }
    }
}
