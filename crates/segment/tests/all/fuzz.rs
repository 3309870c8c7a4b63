//! Templates, payloads and sizes that anybody may have made: no panic, no frame beyond its bounds,
//! and what is accepted is cut without loss.

use ringside_segment::{
    Checksum, Cut, Cwr, Ids, LinearChecksum, Pieces, Position, Segmenter, Settings, Template,
};
use ringside_testkit::stacks::{Stack, Wanted};
use ringside_testkit::{Random, fuzz};

/// Frames of one input that are written.
const FRAMES_MAX: usize = 50;

/// 16 bytes that say how to cut, then a frame or a header stack.
fn seeds() -> Vec<Vec<u8>> {
    let mut random = Random::new(3);
    let make = |number: usize| {
        let wanted = Wanted { tunnels_max: number % 3, ..Wanted::default() };
        let stack = Stack::random(&mut random, wanted);
        let mut input = random.bytes(16);
        let payload = random.bytes(number);
        let keep = if number.is_multiple_of(2) { number } else { 0 };
        let frame = stack.uncut(&payload);
        input.extend(&frame[..stack.header_bytes() + keep]);
        input
    };
    (0..300).map(make).collect()
}

fn settings(control: &[u8; 16]) -> (Settings, usize, Position) {
    let number = |at: usize| usize::from(u16::from_be_bytes([control[at], control[at + 1]]));
    let pick = |bit: u8| control[0] & bit != 0;
    let settings = Settings {
        cut: if pick(1) { Cut::Fragments { id: number(2) as u32 } } else { Cut::Segments },
        mtu_bytes: number(4) + usize::from(pick(2)),
        mss_bytes: pick(4).then_some(number(6) >> (control[1] & 15)),
        ids: if pick(8) { Ids::FixedWithDf } else { Ids::Counted },
        cwr: if pick(16) { Cwr::All } else { Cwr::First },
    };
    (settings, number(8) >> (control[10] & 7) << (control[11] & 3), Position::default())
}

fn cut(template: &Template, settings: Settings, bytes: usize, position: Position) {
    let Ok(segmenter) = Segmenter::new(template, settings) else { return };
    let Ok(plan) = segmenter.plan(position, bytes) else { return };
    let payload = vec![0xa5; bytes];
    let pieces = [&payload[..bytes / 3], &payload[bytes / 3..]];
    let (pieces, mut slot) = (Pieces::new(&pieces), vec![0; segmenter.frame_bytes_max()]);
    let (header_max, mut carried) = (segmenter.header_bytes_max(), 0);
    for (index, segment) in plan.segments().enumerate() {
        assert_eq!(segment.payload().start, carried, "frame {index}");
        carried = segment.payload().end;
        let frame_bytes = segment.frame_bytes();
        assert!(frame_bytes <= segmenter.frame_bytes_max());
        // Ethernet and tags do not count against the MTU.
        let ip_at = template
            .layers()
            .iter()
            .find(|layer| !matches!(layer.kind.name(), "ethernet" | "vlan" | "qinq"));
        assert!(frame_bytes - ip_at.unwrap().start() <= settings.mtu_bytes);
        assert!(segment.header_bytes() <= header_max);
        if index < FRAMES_MAX || index + 1 == plan.frame_count() {
            segment.write_linear(&mut slot, &pieces, LinearChecksum::Full).unwrap();
            let whole = segment.write_header(&mut slot, Checksum::Payload(&pieces)).unwrap();
            assert!(whole.offload.is_none());
            let _ = segment.write_header(&mut slot, Checksum::Offload);
            // What was written reads as what it was made from.
            segment.write_linear(&mut slot, &pieces, LinearChecksum::Full).unwrap();
            if plan.frame_count() == 1 || settings.cut == Cut::Segments {
                let (_, range) = Template::of_frame(&slot[..frame_bytes]).unwrap();
                assert_eq!(range, segment.header_bytes()..frame_bytes);
            }
        }
    }
    assert_eq!(carried, bytes);
    if let Ok(uncut) = plan.uncut() {
        uncut.write_header(&mut vec![0; header_max], Checksum::Payload(&pieces)).unwrap();
    }
}

#[test]
fn hostile_templates_and_sizes_are_cut_or_refused() {
    let taken = std::cell::Cell::new([0u64; 2]);
    fuzz("segment", 100_000, &seeds(), |input| {
        let Some((control, bytes)) = input.split_first_chunk::<16>() else { return };
        let (settings, payload_bytes, position) = settings(control);
        let mut count = taken.get();
        if let Ok(template) = Template::parse(bytes) {
            cut(&template, settings, payload_bytes, position);
            count[0] += 1;
        }
        if let Ok((template, payload)) = Template::of_frame(bytes) {
            assert!(bytes.get(payload.clone()).is_some());
            cut(&template, settings, payload.len(), position);
            count[1] += 1;
        }
        taken.set(count);
    });
    let count = taken.get();
    assert!(count.iter().all(|&count| count > 100), "{count:?} were accepted");
}
