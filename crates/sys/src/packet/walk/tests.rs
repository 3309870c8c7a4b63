use super::super::blocks::fake::{FakeFrame, MAC_OFFSET, block_with};
use super::reference::ReferenceWalk;
use super::*;
use ringside_core::OwnedFrame;
use std::collections::VecDeque;

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

/// What a walk found: a frame, or a number of damaged ones.
type Found = Result<OwnedFrame, u32>;

/// Everything that a walk finds.
fn walk(body: &mut [u8], rules: &FrameRules) -> Vec<Found> {
    let mut walk = BlockWalk::begin(body);
    let mut ready = VecDeque::new();
    let mut slots = [FrameSlot::new(usize::MAX, 0, FrameMeta::default()); 3];
    steps(body, |body, slot| {
        if ready.is_empty() {
            let count = walk.run(body, rules, &mut slots, Timestamp(0));
            ready.extend(&slots[..count]);
        }
        match ready.pop_front() {
            Some(next) => *slot = next,
            None => return walk.step(body, rules, slot),
        }
        Step::Frame
    })
}

fn steps(body: &mut [u8], mut step: impl FnMut(&mut [u8], &mut FrameSlot) -> Step) -> Vec<Found> {
    let mut found = Vec::new();
    let mut slot = FrameSlot::new(usize::MAX, 0, FrameMeta::default());
    loop {
        match step(body, &mut slot) {
            Step::Frame => found.push(Ok(slot.frame(body).unwrap().to_owned_frame())),
            Step::Damaged(count) => found.push(Err(count)),
            Step::End => return found,
        }
    }
}

fn damaged(found: &[Found]) -> u32 {
    found.iter().map(|found| found.as_ref().err().copied().unwrap_or(0)).sum()
}

fn meta(found: &Found) -> FrameMeta {
    found.as_ref().unwrap().meta
}

fn bytes(found: &Found) -> &[u8] {
    &found.as_ref().unwrap().bytes
}

#[test]
fn the_fast_walk_finds_what_the_reference_finds() {
    let tag = libc::TP_STATUS_VLAN_VALID;
    let tagged = FakeFrame { status: tag, tci: 7, tpid: 0x88a8, ..FakeFrame::new(&[9; 60]) };
    let known = FakeFrame { status: tag | libc::TP_STATUS_VLAN_TPID_VALID, ..tagged.clone() };
    let sent = FakeFrame { packet_type: libc::PACKET_OUTGOING, ..FakeFrame::new(&[3; 100]) };
    let short = FakeFrame { len: 1500, ..FakeFrame::new(&[2; 14]) };
    let mut seed = body(&[FakeFrame::new(&[1; 64]), tagged, sent, known, short]);
    seed.truncate(900);
    ringside_testkit::fuzz("tpacket-walk", 500_000, &[seed], |input| {
        for receive_hash in [false, true] {
            for snaplen_bytes in [40, 262_144] {
                let rules = FrameRules { receive_hash, snaplen_bytes, ..RULES };
                let (mut fast, mut slow) = (input.to_vec(), input.to_vec());
                let mut reference = ReferenceWalk::begin(input);
                let expected = steps(&mut slow, |body, slot| reference.step(body, &rules, slot));
                assert!(walk(&mut fast, &rules) == expected, "other frames or other damage");
                assert!(fast == slow, "other bytes in the block");
            }
        }
    });
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
    assert_eq!(meta(&steps[0]), expected);
    assert_eq!(bytes(&steps[1]), [2; 14]);
    assert_eq!(meta(&steps[1]).direction, Direction::Inbound);
    assert_eq!(meta(&steps[1]).timestamp_kind, TimestampKind::Kernel);
}

#[test]
fn tags_are_put_back_behind_the_addresses() {
    let plain: Vec<u8> = (0..60).collect();
    let mut tagged = plain.clone();
    tagged.splice(12..12, [0x88, 0xa8, 0xe0, 0x64]);
    let both = libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
    let frame = FakeFrame { status: both, tci: 0xe064, tpid: 0x88a8, ..FakeFrame::new(&plain) };
    let steps = walk(&mut body(std::slice::from_ref(&frame)), &RULES);
    assert_eq!(bytes(&steps[0]), tagged);
    assert_eq!(meta(&steps[0]).wire_bytes, 64);
    assert_eq!(meta(&steps[0]).vlan, Some(VlanTag { tpid: 0x88a8, tci: 0xe064 }));

    // Without a protocol it is 802.1Q; and a snapshot length counts the tag.
    let frame = FakeFrame { status: libc::TP_STATUS_VLAN_VALID, ..frame };
    let rules = FrameRules { snaplen_bytes: 20, ..RULES };
    let steps = walk(&mut body(std::slice::from_ref(&frame)), &rules);
    tagged[12] = 0x81;
    tagged[13] = 0x00;
    assert_eq!(bytes(&steps[0]), &tagged[..20]);
    assert_eq!(meta(&steps[0]).wire_bytes, 64);

    let raw_ip = FrameRules { ethernet: false, ..RULES };
    let steps = walk(&mut body(&[frame]), &raw_ip);
    assert_eq!((bytes(&steps[0]), meta(&steps[0]).wire_bytes), (&plain[..], 60));
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
        assert_eq!(bytes(&steps[0]).len(), expected);
        assert_eq!(bytes(&steps[0])[..captured], vec![5; captured]);
        assert_eq!(meta(&steps[0]).wire_bytes, 64);
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
        assert_eq!((bytes(&steps[0])[0], bytes(&steps[2])[0]), (1, 3));
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
        assert_eq!(bytes(&steps[0]), [1; 60]);
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
