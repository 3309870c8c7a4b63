//! Where a copying reader begins, what it then counts, and how far behind it says it is.

use super::*;
use ringside_core::Timestamp;

/// Block `n` holds the stamps `100 n + 10` to `100 n + 90`.
fn stamped(writer: &mut LaneWriter, blocks: std::ops::Range<u64>) {
    for block in blocks {
        writer.open(block * PER_BLOCK).unwrap();
        writer.set_times(100 * block + 10, 100 * block + 90);
        writer.fill(BLOCK, PER_BLOCK as u32);
        writer.close();
    }
}

/// First frame, delivered, missed, at the end.
fn drain(reader: &mut CopyReader) -> (u64, u64, u64) {
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        match reader.read(&mut buffer) {
            ReadOutcome::Frames(_) => {}
            ReadOutcome::Finished => break,
            other => panic!("{other:?}"),
        }
    }
    (reader.first_frame(), reader.delivered(), reader.missed())
}

#[test]
fn a_reader_begins_where_it_was_told_and_misses_nothing_before() {
    let ring = CaptureRing::create(layout(5, 0), HugePages::No).unwrap();
    let mut writer = ring.writer(0).unwrap();
    stamped(&mut writer, 0..12);
    // Blocks 7 to 11 lie there; 7 is not tried while the writer lives.
    let since = |time| RingStart::Since(Timestamp(time));
    let cases = [
        ("the oldest", RingStart::Oldest, 8),
        ("now", RingStart::Now, 12),
        ("since long ago", since(3), 8),
        ("since the last stamp of a block", since(990), 9),
        ("since between two blocks", since(991), 10),
        ("since the first stamp of a block", since(1010), 10),
        ("since the last stamp of all", since(1190), 11),
        ("since later than all", since(1191), 12),
    ];
    let mut readers =
        cases.map(|(name, start, first)| (name, ring.view().unwrap().copy_reader(0, start), first));
    // Now 9 to 13 lie there.
    stamped(&mut writer, 12..14);
    writer.finish();
    for (name, reader, first) in &mut readers {
        assert_eq!(reader.first_frame(), *first * PER_BLOCK, "{name}");
        let (first_frame, delivered, missed) = drain(reader);
        assert_eq!(first_frame + delivered + missed, 14 * PER_BLOCK, "{name}");
        let overtaken = if *first == 8 { 2 * PER_BLOCK } else { 0 };
        assert_eq!(missed, overtaken, "{name}");
    }
    let oldest_of_finished = drain(&mut ring.view().unwrap().copy_reader(0, RingStart::Oldest));
    assert_eq!(oldest_of_finished, (9 * PER_BLOCK, 5 * PER_BLOCK, 0), "even the very oldest");
}

#[test]
fn now_is_after_the_published_part_of_the_open_block() {
    let ring = CaptureRing::create(layout(3, 0), HugePages::No).unwrap();
    let mut writer = ring.writer(0).unwrap();
    writer.open(0).unwrap();
    writer.set_times(5, 9);
    writer.fill(100, 4);
    writer.publish();
    let late = |start| ring.view().unwrap().copy_reader(0, start);
    let starts = [RingStart::Now, RingStart::Since(Timestamp(10))];
    let mut readers = starts.map(late);
    let mut from_nine = late(RingStart::Since(Timestamp(9)));
    writer.tail()[..60].fill(1);
    writer.fill(60, 3);
    writer.publish();
    for reader in &mut readers {
        let mut buffer = Vec::new();
        assert_eq!(reader.first_frame(), 4);
        assert_eq!(reader.read(&mut buffer), ReadOutcome::Frames(3));
        assert_eq!(buffer, [1; 60]);
        assert_eq!(reader.read(&mut buffer), ReadOutcome::Nothing);
    }
    assert_eq!(from_nine.first_frame(), 0);
    assert_eq!(from_nine.read(&mut Vec::new()), ReadOutcome::Frames(7));
}

#[test]
fn readers_of_an_empty_lane_begin_with_its_first_frame() {
    let ring = CaptureRing::create(layout(3, 0), HugePages::No).unwrap();
    let starts = [RingStart::Oldest, RingStart::Now, RingStart::Since(Timestamp(1))];
    let mut readers = starts.map(|start| ring.view().unwrap().copy_reader(0, start));
    let mut writer = ring.writer(0).unwrap();
    stamped(&mut writer, 0..2);
    writer.finish();
    for reader in &mut readers {
        assert_eq!(drain(reader), (0, 2 * PER_BLOCK, 0));
    }
}

#[test]
fn a_reader_knows_how_far_behind_it_is() {
    let ring = CaptureRing::create(layout(4, 0), HugePages::No).unwrap();
    let mut writer = ring.writer(0).unwrap();
    let mut reader = ring.view().unwrap().copy_reader(0, RingStart::Oldest);
    let behind = |reader: &CopyReader| (reader.behind_blocks(), reader.behind_frames());
    assert_eq!(behind(&reader), (0, 0));
    stamped(&mut writer, 0..3);
    assert_eq!(behind(&reader), (3, 3 * PER_BLOCK));
    reader.read(&mut Vec::new());
    assert_eq!(behind(&reader), (2, 2 * PER_BLOCK));
    stamped(&mut writer, 3..9);
    assert_eq!(behind(&reader), (8, 8 * PER_BLOCK));
    reader.read(&mut Vec::new());
    assert_eq!(behind(&reader), (2, 2 * PER_BLOCK), "the lost ones are missed, not behind");
    assert_eq!(reader.missed(), 5 * PER_BLOCK);
}

/// A failed mapping (there are no huge pages) takes nothing that another thread mapped meanwhile.
#[test]
fn rings_of_several_threads_leave_each_others_memory_alone() {
    let make = || {
        for _ in 0..150 {
            let ring = CaptureRing::create(layout(40, 0), HugePages::Try).expect("memory is there");
            let mut writer = ring.writer(0).unwrap();
            write_block(&mut writer, 0).unwrap();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(make);
        }
    });
}
