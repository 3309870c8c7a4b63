use super::super::blocks::fake::{FakeFrame, MAC_OFFSET, block_with};
use super::*;

const RULES: FrameRules = FrameRules {
    interface: InterfaceId(1),
    queue: QueueId(2),
    snaplen_bytes: 262_144,
    ethernet: true,
    receive_hash: true,
};

/// The body of a block with these frames.
fn body(frames: &[FakeFrame]) -> Vec<u8> {
    block_with(frames, 8192).split_off(BODY)
}

/// Every step of a walk, with the frames' bytes.
fn walk(body: &mut [u8], rules: &FrameRules) -> Vec<(Step, Vec<u8>)> {
    let mut walk = BlockWalk::begin(body);
    let mut steps = Vec::new();
    loop {
        let step = walk.step(body, rules);
        let bytes = match step {
            Step::Frame(frame) => {
                body[frame.offset..frame.offset + frame.captured_bytes as usize].to_vec()
            }
            Step::Damaged(_) => Vec::new(),
            Step::End => return steps,
        };
        steps.push((step, bytes));
    }
}

fn damaged(steps: &[(Step, Vec<u8>)]) -> u32 {
    steps.iter().map(|(step, _)| if let Step::Damaged(count) = step { *count } else { 0 }).sum()
}

fn meta(step: &Step) -> FrameMeta {
    let Step::Frame(frame) = step else { panic!("{step:?} is no frame") };
    frame.meta
}

#[test]
fn metadata_is_what_the_kernel_wrote() {
    let hardware = FakeFrame {
        status: libc::TP_STATUS_TS_RAW_HARDWARE,
        stamp: (7, 8),
        packet_type: libc::PACKET_OUTGOING,
        len: 1500,
        ..FakeFrame::new(&[1; 64])
    };
    let mut body = body(&[hardware, FakeFrame::new(&[2; 14])]);
    let steps = walk(&mut body, &RULES);
    let expected = FrameMeta {
        timestamp: Timestamp(7_000_000_008),
        timestamp_kind: TimestampKind::Hardware,
        wire_bytes: 1500,
        interface: InterfaceId(1),
        queue: QueueId(2),
        vlan: None,
        hash: Some(0x1234_5678),
        direction: Direction::Outbound,
    };
    assert_eq!(meta(&steps[0].0), expected);
    assert_eq!(steps[1].1, [2; 14]);
    assert_eq!(meta(&steps[1].0).direction, Direction::Inbound);
    assert_eq!(meta(&steps[1].0).timestamp_kind, TimestampKind::Kernel);
}

#[test]
fn tags_are_put_back_behind_the_addresses() {
    let plain: Vec<u8> = (0..60).collect();
    let mut tagged = plain.clone();
    tagged.splice(12..12, [0x88, 0xa8, 0xe0, 0x64]);
    let both = libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
    let frame = FakeFrame { status: both, tci: 0xe064, tpid: 0x88a8, ..FakeFrame::new(&plain) };
    let steps = walk(&mut body(std::slice::from_ref(&frame)), &RULES);
    assert_eq!(steps[0].1, tagged);
    assert_eq!(meta(&steps[0].0).wire_bytes, 64);
    assert_eq!(meta(&steps[0].0).vlan, Some(VlanTag { tpid: 0x88a8, tci: 0xe064 }));

    // Without a protocol it is 802.1Q; and a snapshot length counts the tag.
    let frame = FakeFrame { status: libc::TP_STATUS_VLAN_VALID, ..frame };
    let rules = FrameRules { snaplen_bytes: 20, ..RULES };
    let steps = walk(&mut body(std::slice::from_ref(&frame)), &rules);
    tagged[12] = 0x81;
    tagged[13] = 0x00;
    assert_eq!(steps[0].1, tagged[..20]);
    assert_eq!(meta(&steps[0].0).wire_bytes, 64);

    let raw_ip = FrameRules { ethernet: false, ..RULES };
    let steps = walk(&mut body(&[frame]), &raw_ip);
    assert_eq!((&steps[0].1, meta(&steps[0].0).wire_bytes), (&plain, 60));
}

#[test]
fn a_frame_cut_within_the_addresses_keeps_what_is_there() {
    for captured in [0, 11, 12] {
        let frame = FakeFrame {
            status: libc::TP_STATUS_VLAN_VALID,
            tci: 1,
            len: 60,
            ..FakeFrame::new(&vec![5; captured])
        };
        let steps = walk(&mut body(&[frame]), &RULES);
        let expected = if captured < 12 { captured } else { 16 };
        assert_eq!(steps[0].1.len(), expected);
        assert_eq!(steps[0].1[..captured], vec![5; captured]);
        assert_eq!(meta(&steps[0].0).wire_bytes, 64);
    }
}

#[test]
fn one_impossible_frame_is_left_out_and_the_others_stay() {
    let frames = [FakeFrame::new(&[1; 60]), FakeFrame::new(&[2; 60]), FakeFrame::new(&[3; 60])];
    let second = BLOCK_HEADER_BYTES + (MAC_OFFSET + 60).next_multiple_of(8) - BODY;
    for (field, value) in [
        (FRAME_SNAPLEN, 8192u32),
        (FRAME_SNAPLEN, u32::MAX),
        (FRAME_MAC, 0),
        (FRAME_MAC, FRAME_HEADER_BYTES as u32 - 1),
        (FRAME_MAC, 0xffff),
    ] {
        let mut body = body(&frames);
        let width = if field == FRAME_MAC { 2 } else { 4 };
        let at = second + field;
        body[at..at + width].copy_from_slice(&value.to_ne_bytes()[..width]);
        let steps = walk(&mut body, &RULES);
        assert_eq!((steps.len(), damaged(&steps)), (3, 1), "{field} {value:#x}");
        assert_eq!((steps[0].1[0], steps[2].1[0]), (1, 3));
    }
}

#[test]
fn without_room_for_the_tag_the_frame_is_left_out() {
    let frame = FakeFrame { status: libc::TP_STATUS_VLAN_VALID, ..FakeFrame::new(&[1; 60]) };
    let mut body = body(&[frame]);
    let at = BLOCK_HEADER_BYTES - BODY + FRAME_MAC;
    body[at..at + 2].copy_from_slice(&(FRAME_HEADER_BYTES as u16 + 3).to_ne_bytes());
    assert_eq!(damaged(&walk(&mut body, &RULES)), 1);
}

#[test]
fn a_broken_chain_counts_the_rest_as_damaged() {
    let frames = [FakeFrame::new(&[1; 60]), FakeFrame::new(&[2; 60]), FakeFrame::new(&[3; 60])];
    for next in [0u32, 1, FRAME_HEADER_BYTES as u32 - 1, 8192, u32::MAX] {
        let mut body = body(&frames);
        let at = BLOCK_HEADER_BYTES - BODY + FRAME_NEXT;
        body[at..at + 4].copy_from_slice(&next.to_ne_bytes());
        let steps = walk(&mut body, &RULES);
        assert_eq!(damaged(&steps), 2, "next {next}");
        assert_eq!(steps[0].1, [1; 60]);
    }
}

#[test]
fn a_block_header_that_cannot_be_true_is_damage() {
    for (field, value) in [
        (BLOCK_FIRST_FRAME, 0u32),
        (BLOCK_FIRST_FRAME, 47),
        (BLOCK_FIRST_FRAME, 8190),
        (BLOCK_FIRST_FRAME, u32::MAX),
    ] {
        let mut body = body(&[FakeFrame::new(&[1; 60])]);
        body[field - BODY..field - BODY + 4].copy_from_slice(&value.to_ne_bytes());
        assert_eq!(damaged(&walk(&mut body, &RULES)), 1, "{value}");
    }
    let mut body = body(&[FakeFrame::new(&[1; 60])]);
    let at = BLOCK_FRAME_COUNT - BODY;
    body[at..at + 4].copy_from_slice(&u32::MAX.to_ne_bytes());
    let steps = walk(&mut body, &RULES);
    assert!(damaged(&steps) <= 8192 / FRAME_HEADER_BYTES as u32);
}
