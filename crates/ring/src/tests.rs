//! The ring over real memory: exact counts, order, and what happens at its edges.

mod blocks;
mod boards;
mod hostile;
mod sharing;
mod start;

use super::*;

const BLOCK: usize = 512 << 10;
/// Bytes of a test frame; does not divide the block, so that closing needs a remainder.
const FRAME: usize = 40_000;
const PER_BLOCK: u64 = (BLOCK / FRAME) as u64;

fn layout(blocks_per_lane: usize, lossless_readers: usize) -> RingLayout {
    RingLayout { lanes: 2, blocks_per_lane, block_bytes: BLOCK, lossless_readers }
}

/// Writes block number `block` full of frames that carry their own number.
fn write_block(writer: &mut LaneWriter, block: u64) -> Result<(), RingFull> {
    writer.open(block * PER_BLOCK)?;
    for index in 0..PER_BLOCK {
        let number = block * PER_BLOCK + index;
        writer.tail()[..FRAME].fill(number as u8);
        writer.fill(FRAME, 1);
        writer.publish();
    }
    let rest = writer.tail().len();
    writer.tail().fill(0xee);
    writer.fill(rest, 0);
    writer.close();
    Ok(())
}

fn frames_in(bytes: &[u8]) -> Vec<u8> {
    bytes.chunks(FRAME).filter(|frame| frame.len() == FRAME).map(|frame| frame[0]).collect()
}

#[test]
fn a_lossless_reader_gets_every_frame_in_order_and_a_full_ring_is_reported() {
    let ring = CaptureRing::create(layout(3, 1), HugePages::No).unwrap();
    let mut writer = ring.writer(0).unwrap();
    let mut reader = ring.lossless_reader(0, 0).unwrap();
    for block in 0..3 {
        write_block(&mut writer, block).unwrap();
    }
    assert_eq!(writer.open(3 * PER_BLOCK), Err(RingFull));
    assert_eq!((ring.blocks_held(0), ring.blocks_held(1)), (3, 0));
    let chunk = reader.peek().unwrap();
    assert_eq!((chunk.offset, chunk.closed, u64::from(chunk.frames)), (0, true, PER_BLOCK));
    assert_eq!(frames_in(chunk.bytes), (0..PER_BLOCK as u8).collect::<Vec<_>>());
    assert_eq!(writer.open(3 * PER_BLOCK), Err(RingFull), "peeked is not consumed");
    reader.consume();
    write_block(&mut writer, 3).unwrap();
    writer.finish();
    let mut rest = 0;
    while !reader.is_finished() {
        rest += u64::from(reader.peek().unwrap().frames);
        reader.consume();
    }
    assert_eq!(ring.blocks_held(0), 0);
    assert_eq!(rest, 3 * PER_BLOCK);
}

#[test]
fn a_half_full_block_is_seen_and_continued() {
    let ring = CaptureRing::create(layout(2, 1), HugePages::No).unwrap();
    let mut writer = ring.writer(1).unwrap();
    let mut reader = ring.lossless_reader(1, 0).unwrap();
    assert!(reader.peek().is_none());
    writer.open(0).unwrap();
    writer.tail()[..8].fill(7);
    writer.fill(8, 1);
    assert!(reader.peek().is_none(), "filled is not published");
    writer.publish();
    let chunk = reader.peek().unwrap();
    assert_eq!((chunk.bytes, chunk.closed), (&[7u8; 8][..], false));
    reader.consume();
    assert!(reader.peek().is_none());
    writer.tail()[..4].fill(9);
    writer.fill(4, 1);
    writer.finish();
    let chunk = reader.peek().unwrap();
    assert_eq!((chunk.bytes, chunk.offset), (&[9u8; 4][..], 8));
    reader.consume();
    assert!(reader.is_finished());
}

#[test]
fn an_overtaken_reader_knows_exactly_what_it_missed() {
    let ring = CaptureRing::create(layout(4, 0), HugePages::No).unwrap();
    let mut writer = ring.writer(0).unwrap();
    let mut reader = ring.view().unwrap().copy_reader(0, RingStart::Oldest);
    let mut buffer = Vec::new();
    write_block(&mut writer, 0).unwrap();
    assert_eq!(reader.read(&mut buffer), ReadOutcome::Frames(PER_BLOCK as u32));
    for block in 1..10 {
        write_block(&mut writer, block).unwrap();
    }
    buffer.clear();
    assert_eq!(reader.read(&mut buffer), ReadOutcome::Frames(PER_BLOCK as u32));
    // Blocks 6 to 9 are left; 6 is not tried, since the writer may be about to reuse it.
    assert_eq!(frames_in(&buffer)[0], (7 * PER_BLOCK) as u8);
    assert_eq!(reader.missed(), 6 * PER_BLOCK);
    writer.finish();
    while reader.read(&mut buffer) != ReadOutcome::Finished {}
    assert_eq!(reader.delivered() + reader.missed(), 10 * PER_BLOCK);
}

#[test]
fn a_copying_reader_next_to_a_running_writer_accounts_for_every_frame() {
    let ring = CaptureRing::create(layout(3, 0), HugePages::Try).unwrap();
    let blocks = 400;
    let mut reader = ring.view().unwrap().copy_reader(0, RingStart::Oldest);
    let mut writer = ring.writer(0).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for block in 0..blocks {
                write_block(&mut writer, block).unwrap();
            }
            writer.finish();
        });
        let mut buffer = Vec::new();
        loop {
            buffer.clear();
            match reader.read(&mut buffer) {
                ReadOutcome::Finished => break,
                ReadOutcome::Nothing => std::thread::yield_now(),
                ReadOutcome::Damaged => panic!("an honest writer"),
                ReadOutcome::Frames(_) => {
                    // The range may begin within a block, at a frame's border.
                    for frame in buffer.chunks_exact(FRAME) {
                        assert!(frame.iter().all(|byte| *byte == frame[0]), "a torn frame");
                    }
                }
            }
        }
        assert_eq!(reader.delivered() + reader.missed(), blocks * PER_BLOCK);
    });
}

#[test]
fn published_bytes_are_copied_while_what_follows_is_filled() {
    let blocks = 3;
    let ring = CaptureRing::create(layout(4, 0), HugePages::No).unwrap();
    // The writer's own mapping, of which only what is published and stays can be copied.
    let mut reader = CopyReader::new(ring.region.clone(), 0, RingStart::Oldest);
    let mut writer = ring.writer(0).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            (0..blocks).for_each(|block| write_block(&mut writer, block).unwrap());
            writer.finish();
        });
        let mut buffer = Vec::new();
        while reader.read(&mut buffer) != ReadOutcome::Finished {
            std::thread::yield_now();
        }
        assert_eq!(buffer.len(), blocks as usize * BLOCK);
        let frames: Vec<u8> = buffer.chunks(BLOCK).flat_map(frames_in).collect();
        assert_eq!(frames, (0..(blocks * PER_BLOCK) as u8).collect::<Vec<_>>());
    });
}

#[test]
fn a_reader_that_left_holds_nobody_back() {
    let ring = CaptureRing::create(layout(2, 1), HugePages::No).unwrap();
    let mut writer = ring.writer(0).unwrap();
    drop(ring.lossless_reader(0, 0).unwrap());
    for block in 0..5 {
        write_block(&mut writer, block).unwrap();
    }
}

#[test]
fn layouts_beyond_their_limits_are_refused_with_the_limit() {
    let refused = |layout| CaptureRing::create(layout, HugePages::No).err().unwrap().to_string();
    let text = refused(RingLayout { blocks_per_lane: 1, ..layout(2, 0) });
    assert!(text.contains("blocks per lane is 1, must be 2"), "{text}");
    assert!(refused(RingLayout { block_bytes: 600_000, ..layout(2, 0) }).contains("power of two"));
    assert!(refused(RingLayout { lanes: 0, ..layout(2, 0) }).contains("lanes is 0"));
    assert!(refused(RingLayout { lossless_readers: 5, ..layout(2, 0) }).contains("lossless"));
}

#[test]
fn each_place_is_handed_out_once() {
    let ring = CaptureRing::create(layout(2, 1), HugePages::No).unwrap();
    assert!(ring.writer(0).is_some() && ring.writer(0).is_none() && ring.writer(2).is_none());
    assert!(ring.lossless_reader(0, 0).is_some() && ring.lossless_reader(0, 0).is_none());
    assert!(ring.lossless_reader(0, 1).is_none());
}
