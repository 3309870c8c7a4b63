use super::*;
use ringside_core::{Batch, FrameMeta, FrameSlot, LaneCounters};
use ringside_ring::{CaptureRing, HugePages, ReadOutcome, RingLayout, RingStart, RingView};
use ringside_store::block::{block_end, block_header, blocks, packet, whole_bytes};
use ringside_testkit::wait_until;
use std::sync::atomic::{AtomicU64, Ordering};

const BLOCK_BYTES: usize = 512 << 10;
const THREADS: usize = 3;

fn ring(blocks_per_lane: usize, lossless_readers: usize) -> Arc<CaptureRing> {
    let layout =
        RingLayout { lanes: 1, blocks_per_lane, block_bytes: BLOCK_BYTES, lossless_readers };
    CaptureRing::create(layout, HugePages::No).unwrap()
}

fn packer(ring: &CaptureRing) -> SharedPacker {
    let packer = Packer::new(ring.writer(0).unwrap(), InterfaceId(0), 0, BLOCK_BYTES);
    SharedPacker::new(packer, THREADS)
}

/// Slots of frames `numbers`, of `bytes` bytes, each stamped with its number.
fn slots(numbers: Range<u64>, bytes: impl Fn(u64) -> u32) -> Vec<FrameSlot> {
    let slot = |number| {
        let timestamp = Timestamp(number);
        let meta = FrameMeta { timestamp, ..FrameMeta::default() };
        FrameSlot::new(0, bytes(number), meta)
    };
    numbers.map(slot).collect()
}

/// One claim and what becomes of it; adds to `sum`.
fn put(
    packer: &SharedPacker,
    next: impl FnOnce() -> Vec<FrameSlot>,
    memory: &[u8],
    sum: &Mutex<Vec<Done>>,
) -> Result<bool, LaneBroken> {
    let turn = packer.enter()?;
    let slots = next();
    let batch = (!slots.is_empty()).then(|| Batch::new(memory, &slots));
    let frames = ClaimedFrames {
        offered: batch.as_ref().map(Offered::of),
        ..ClaimedFrames::none(Timestamp(7))
    };
    let tell = |done| sum.lock().unwrap().push(done);
    packer.put(turn.claimed(), frames, &mut PackerScratch::default(), tell)?;
    Ok(!slots.is_empty())
}

/// The stamps of all frames that are in the ring, by blocks that say which they are.
fn stamps(ring: &CaptureRing) -> Vec<u64> {
    let view = RingView::attach(ring.fd().try_clone_to_owned().unwrap()).unwrap();
    let (mut bytes, mut stamps) = (Vec::new(), Vec::new());
    for sequence in 0..view.opened(0) {
        let state = view.copy_block(0, sequence, &mut bytes).unwrap();
        let header = block_header(&bytes).expect("a header first");
        assert_eq!((header.number, header.first_frame.0), (sequence, stamps.len() as u64));
        assert_eq!(state.first_frame, stamps.len() as u64);
        assert_eq!(state.closed, sequence + 1 < view.opened(0));
        assert_eq!(block_end(&bytes), state.closed.then(|| BlockEnd::of(&bytes)));
        let in_block =
            blocks(&bytes).filter_map(|(_, block)| Some(packet(block)?.meta.timestamp.0));
        let in_block: Vec<u64> = in_block.collect();
        assert_eq!(in_block.len(), state.frames as usize);
        assert_eq!(Some(&state.first_time_ns), in_block.first());
        assert_eq!(Some(&state.last_time_ns), in_block.iter().max());
        stamps.extend(in_block);
    }
    stamps
}

#[test]
fn a_claim_that_needs_many_blocks_lies_in_them_in_order() {
    let ring = ring(64, 1);
    let packer = packer(&ring);
    let (memory, sum) = (vec![0x5a; 200_000], Mutex::default());
    for claim in 0..3 {
        let numbers = 1 + claim * 100..1 + (claim + 1) * 100;
        put(&packer, || slots(numbers, |_| 90_000), &memory, &sum).unwrap();
    }
    assert_eq!(ring.low_water_ns(0), 7);
    let told: u64 = sum.into_inner().unwrap().iter().map(|done| done.put.taken).sum();
    let packer = packer.into_packer().expect("no thread died");
    packer.finish(&Reading::default());
    assert_eq!((told, stamps(&ring)), (300, (1..301).collect::<Vec<_>>()));
}

#[test]
fn the_ends_of_blocks_tell_stamps_of_any_order_also_of_who_begins_and_ends_the_lane() {
    let ring = ring(64, 1);
    let alone = |packer: &mut Packer, numbers: std::ops::Range<u64>, memory: &[u8]| {
        let slots = slots(numbers, |_| 1_500);
        packer.put(&Batch::new(memory, &slots), slots.len(), &Reading::default());
    };
    let memory = vec![0x5a; 200_000];
    let mut first = Packer::new(ring.writer(0).unwrap(), InterfaceId(0), 0, BLOCK_BYTES);
    alone(&mut first, 8_000..8_050, &memory);
    let (packer, sum) = (SharedPacker::new(first, 1), Mutex::default());
    for claim in (0..20).rev() {
        put(&packer, || slots(claim * 100..claim * 100 + 100, |_| 1_500), &memory, &sum).unwrap();
    }
    let mut last = packer.into_packer().expect("no thread died");
    alone(&mut last, 9_000..9_001, &memory);
    last.close(&Reading::default());
    let view = RingView::attach(ring.fd().try_clone_to_owned().unwrap()).unwrap();
    let (mut bytes, mut frames) = (Vec::new(), 0);
    for sequence in 0..view.opened(0) {
        view.copy_block(0, sequence, &mut bytes).unwrap();
        let end = block_end(&bytes).expect("all are closed");
        assert_eq!(end, BlockEnd::of(&bytes), "block {sequence}");
        frames += end.frames;
    }
    assert_eq!((frames, view.opened(0)), (2_051, 7));
}

#[test]
fn frames_without_room_are_counted_by_cause() {
    let ring = ring(2, 1);
    let _reader = ring.lossless_reader(0, 0).unwrap();
    let packer = packer(&ring);
    let (memory, sum) = (vec![0x5a; BLOCK_BYTES], Mutex::default());
    let sizes = |number: u64| if number % 10 == 9 { BLOCK_BYTES as u32 - 100 } else { 1500 };
    for claim in 0..30 {
        let numbers = claim * 100..(claim + 1) * 100;
        put(&packer, || slots(numbers, sizes), &memory, &sum).unwrap();
    }
    let told = sum.into_inner().unwrap();
    let total = |count: fn(&Put) -> u64| told.iter().map(|done| count(&done.put)).sum::<u64>();
    let (taken, behind) = (total(|put| put.taken), total(|put| put.recorder_behind));
    assert_eq!((total(|put| put.too_large), taken + behind), (300, 2700));
    assert!((600..700).contains(&taken), "two blocks hold {taken} frames");
}

#[test]
fn a_block_is_closed_on_request_with_the_latest_reading() {
    let ring = ring(4, 1);
    let packer = packer(&ring);
    let (memory, sum) = (vec![0x5a; 100], Mutex::default());
    put(&packer, || slots(1..11, |_| 100), &memory, &sum).unwrap();
    let counters = LaneCounters { taken: 10, interface: "eth1".into(), ..LaneCounters::default() };
    packer.set_reading(Reading { counters, when: Timestamp(5) });
    let frames = ClaimedFrames { close_block: true, ..ClaimedFrames::none(Timestamp(0)) };
    let claimed = packer.enter().unwrap().claimed();
    packer.put(claimed, frames, &mut PackerScratch::default(), |_| ()).unwrap();
    let mut reader = ring.block_reader(0, 0).unwrap();
    let closed = reader.claim(1).expect("it is closed");
    assert_eq!((closed.frames(), whole_bytes(closed.bytes())), (10, BLOCK_BYTES));
    let text = String::from_utf8_lossy(closed.bytes());
    assert!(text.contains(r#""interface":"eth1""#) && text.contains(r#""taken":10"#));
    reader.release(closed);
}

/// Threads that put batches of changing sizes, frames 1 to before `frames`.
fn run_threads(packer: &SharedPacker, frames: u64, memory: &[u8], sum: &Mutex<Vec<Done>>) {
    let next = Mutex::new(1u64);
    let claim = || {
        let mut next = next.lock().unwrap();
        let count = 1 + (*next * 7919) % 200;
        let numbers = *next..frames.min(*next + count);
        *next = numbers.end;
        slots(numbers, |number| 60 + (number * 7919 % 1400) as u32)
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| while put(packer, claim, memory, sum).unwrap() {});
        }
    });
}

#[test]
fn a_copying_reader_next_to_several_threads_accounts_for_every_frame() {
    let ring = ring(3, 0);
    let frames = 60_000;
    let packer = packer(&ring);
    let (memory, sum) = (vec![0x5a; 1500], Mutex::default());
    let mut reader = ring.view().unwrap().copy_reader(0, RingStart::Oldest);
    std::thread::scope(|scope| {
        let read = scope.spawn(|| {
            let (mut bytes, mut last) = (Vec::new(), None);
            loop {
                bytes.clear();
                match reader.read(&mut bytes) {
                    ReadOutcome::Finished => return reader.delivered() + reader.missed(),
                    ReadOutcome::Nothing => std::thread::yield_now(),
                    ReadOutcome::Damaged => panic!("an honest writer"),
                    ReadOutcome::Frames(count) => {
                        let stamps = blocks(&bytes).filter_map(|(_, block)| packet(block));
                        let stamps: Vec<_> = stamps.map(|frame| frame.meta.timestamp.0).collect();
                        assert_eq!(
                            (whole_bytes(&bytes), stamps.len()),
                            (bytes.len(), count as usize)
                        );
                        assert!(stamps.iter().all(|stamp| last.replace(*stamp) < Some(*stamp)));
                    }
                }
            }
        });
        run_threads(&packer, frames, &memory, &sum);
        packer.into_packer().expect("no thread died").finish(&Reading::default());
        assert_eq!(read.join().unwrap(), frames - 1);
    });
}

/// What another process would find if this one were killed at any moment.
#[test]
fn what_is_shown_is_whole_at_every_moment() {
    let ring = ring(64, 0);
    let view = RingView::attach(ring.fd().try_clone_to_owned().unwrap()).unwrap();
    let packer = packer(&ring);
    let (memory, sum) = (vec![0x5a; 1500], Mutex::default());
    let looks = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut bytes = Vec::new();
            while !view.is_finished(0) {
                let frames_before = view.frames(0);
                let opened = view.opened(0);
                let mut frames = 0;
                for sequence in opened.saturating_sub(2)..opened {
                    let state = view.copy_block(0, sequence, &mut bytes).unwrap();
                    assert!(state.closed || sequence + 1 == opened, "one open block, the last");
                    assert_eq!(whole_bytes(&bytes), state.bytes);
                    let packets = blocks(&bytes).filter_map(|(_, block)| packet(block));
                    assert_eq!(packets.count() as u32, state.frames);
                    frames = state.first_frame + u64::from(state.frames);
                }
                assert!(frames >= frames_before, "{frames} of {frames_before}");
                looks.fetch_add(u64::from(frames > 0), Ordering::AcqRel);
            }
        });
        run_threads(&packer, 20_000, &memory, &sum);
        // The other thread may have had no turn yet.
        wait_until("a look", || looks.load(Ordering::Acquire) > 0);
        packer.into_packer().expect("no thread died").finish(&Reading::default());
    });
    assert_eq!(stamps(&ring), (1..20_000).collect::<Vec<_>>());
}

#[test]
fn a_thread_that_dies_ends_the_lane_with_what_was_shown() {
    let ring = ring(8, 1);
    let packer = packer(&ring);
    let (memory, sum) = (vec![0x5a; 100], Mutex::default());
    put(&packer, || slots(1..11, |_| 100), &memory, &sum).unwrap();
    drop(packer.enter().unwrap());
    assert_eq!(put(&packer, || slots(11..21, |_| 100), &memory, &sum), Err(LaneBroken));
    assert!(packer.into_packer().is_none());
    let view = RingView::attach(ring.fd().try_clone_to_owned().unwrap()).unwrap();
    assert!(view.is_finished(0));
    assert_eq!((view.frames(0), ring.low_water_ns(0)), (10, u64::MAX));
    assert_eq!(stamps(&ring), (1..11).collect::<Vec<_>>());
}
