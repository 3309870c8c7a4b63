//! Frames of real captures: in one frame each is what it was, and cut for a smaller MTU its pieces
//! are right and carry the same.

use ringside_core::LinkType;
use ringside_segment::{Cut, LinearChecksum, Pieces, Position, Segmenter, Settings, Template};
use ringside_wire::{Level, Verdict, dissect, verify_network, verify_transport};
use std::ops::Range;

fn cut(
    frame: &[u8],
    template: &Template,
    payload: Range<usize>,
    settings: Settings,
) -> Option<Vec<Vec<u8>>> {
    let segmenter = Segmenter::new(template, settings).ok()?;
    let pieces = [&frame[payload]];
    let pieces = Pieces::new(&pieces);
    let plan = segmenter.plan(Position::default(), pieces.bytes()).ok()?;
    let write = |segment: ringside_segment::Segment<'_>| {
        let mut slot = vec![0; segment.frame_bytes()];
        segment.write_linear(&mut slot, &pieces, LinearChecksum::Full).unwrap();
        slot
    };
    Some(plan.segments().map(write).collect())
}

/// True if no checksum of the frame is wrong, as its sender's may be where it was captured.
fn is_right(frame: &[u8]) -> bool {
    let layers = dissect(frame, LinkType::ETHERNET);
    [Level::Outer, Level::Inner].into_iter().all(|level| {
        let verdicts =
            [verify_network(frame, &layers, level), verify_transport(frame, &layers, level)];
        verdicts.iter().all(|verdict| !matches!(verdict, Verdict::Wrong { .. }))
    })
}

#[test]
fn captured_frames_are_cut_right() {
    let frames = crate::support::corpus("captured_frames_are_cut_right");
    let (mut alike, mut cut_frames, mut fragments) = (0, 0, 0);
    for (_, frame) in frames.iter().filter(|(link, _)| *link == LinkType::ETHERNET) {
        let Ok((template, payload)) = Template::of_frame(frame) else { continue };
        let packet = &frame[..payload.end];
        if is_right(packet)
            && let Some(one) = cut(frame, &template, payload.clone(), Settings::mtu(65_535))
            // What offloading joined may be longer than any packet.
            && one.len() == 1
        {
            assert!(one[0] == packet, "{:?}\n{:02x?}\n{packet:02x?}", template.layers(), one[0]);
            alike += 1;
        }
        let small = Settings::mtu(400);
        if template.is_tcp() {
            let Some(parts) = cut(frame, &template, payload.clone(), small) else { continue };
            let header = template.header().len();
            let joined: Vec<u8> = parts.iter().flat_map(|part| &part[header..]).copied().collect();
            assert!(joined == frame[payload], "{:?}", template.layers());
            assert!(parts.iter().all(|part| is_right(part)), "{:?}", template.layers());
            cut_frames += usize::from(parts.len() > 1);
        } else {
            let small = Settings { cut: Cut::Fragments { id: 1 }, ..small };
            let parts = cut(frame, &template, payload, small);
            fragments += usize::from(parts.is_some_and(|parts| parts.len() > 1));
        }
    }
    eprintln!(
        "{alike} frames as they were; {cut_frames} cut in segments, {fragments} in fragments"
    );
    assert!(frames.is_empty() || (alike > 5000 && cut_frames > 500 && fragments > 100));
}
