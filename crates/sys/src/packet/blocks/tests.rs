use super::fake::{FakeFrame, FakeKernel, block_with};
use super::*;
use ringside_core::{InterfaceId, QueueId};

const BLOCK_BYTES: usize = 1 << 16;

fn rules() -> FrameRules {
    FrameRules {
        interface: InterfaceId(3),
        queue: QueueId(5),
        snaplen_bytes: 262_144,
        ethernet: true,
        receive_hash: false,
    }
}

fn ring(block_count: usize) -> (BlockRing, FakeKernel) {
    let memory = Mapping::anonymous(BLOCK_BYTES * block_count).unwrap();
    let kernel = FakeKernel::new(&memory, BLOCK_BYTES, block_count);
    (BlockRing::new(memory, BLOCK_BYTES, block_count, rules()), kernel)
}

fn numbered(from: u32, count: u32) -> Vec<u8> {
    let frames: Vec<FakeFrame> = (from..from + count)
        .map(|number| FakeFrame {
            stamp: (number, 0),
            ..FakeFrame::new(&number.to_be_bytes().repeat(16))
        })
        .collect();
    block_with(&frames, BLOCK_BYTES)
}

fn number(frame: &Frame<'_>) -> u32 {
    u32::from_be_bytes(frame.bytes[..4].try_into().unwrap())
}

#[test]
fn frames_come_in_order_and_the_block_goes_back_with_its_last_batch() {
    let (mut ring, mut kernel) = ring(1);
    assert_eq!(ring.fill(None), Filled::Empty);
    assert!(ring.lend().is_none());
    assert!(kernel.hand_over(&numbered(0, 300)));
    assert_eq!(ring.fill(None), Filled::Frames);
    let batch = ring.lend().unwrap();
    assert_eq!(batch.frame_count(), BATCH_FRAMES_MAX);
    assert!(batch.iter().map(|frame| number(&frame)).eq(0..256));
    assert_eq!(batch.get(0).unwrap().meta.interface, InterfaceId(3));
    drop(batch);
    assert!(!kernel.hand_over(&numbered(300, 1)), "44 frames are still in the block");
    assert_eq!(ring.fill(None), Filled::Frames);
    let batch = ring.lend().unwrap();
    assert_eq!(batch.frame_count(), 44);
    assert!(!kernel.hand_over(&numbered(300, 1)), "the batch is still out");
    drop(batch);
    assert!(kernel.hand_over(&numbered(300, 1)), "given back by the drop");
    assert_eq!(ring.counts(), BlockCounts { lent: 300, ..BlockCounts::default() });
}

#[test]
fn what_was_filled_and_not_lent_is_not_lost() {
    let (mut ring, mut kernel) = ring(2);
    assert!(kernel.hand_over(&numbered(0, 2)));
    assert_eq!(ring.fill(None), Filled::Frames);
    assert_eq!(ring.fill(None), Filled::Frames);
    assert_eq!(ring.lend().unwrap().frame_count(), 2);
    assert!(ring.lend().is_none());
    assert_eq!(ring.counts().lent, 2);
}

#[test]
fn a_leaked_batch_gives_its_block_back_at_the_next_fill() {
    let (mut ring, mut kernel) = ring(1);
    assert!(kernel.hand_over(&numbered(0, 2)));
    assert_eq!(ring.fill(None), Filled::Frames);
    std::mem::forget(ring.lend());
    assert!(!kernel.hand_over(&numbered(2, 1)));
    assert_eq!(ring.fill(None), Filled::Empty);
    assert!(kernel.hand_over(&numbered(2, 1)));
    assert_eq!(ring.fill(None), Filled::Frames);
}

#[test]
fn rejected_frames_are_counted_and_their_block_goes_back() {
    let (mut ring, mut kernel) = ring(1);
    assert!(kernel.hand_over(&numbered(0, 10)));
    assert_eq!(ring.fill(Some(&mut |_| false)), Filled::Rejected);
    assert!(kernel.hand_over(&numbered(10, 10)));
    assert_eq!(ring.fill(Some(&mut |frame| number(frame) % 2 == 1)), Filled::Frames);
    assert!(ring.lend().unwrap().iter().map(|f| number(&f)).eq([11, 13, 15, 17, 19]));
    assert_eq!((ring.counts().rejected, ring.counts().lent), (15, 5));
    assert_eq!(ring.newest_stamp().seconds(), 19);
}

#[test]
fn an_empty_block_goes_back() {
    let (mut ring, mut kernel) = ring(1);
    assert!(kernel.hand_over(&numbered(0, 0)));
    assert_eq!(ring.fill(None), Filled::Rejected);
    assert!(kernel.hand_over(&numbered(0, 1)));
}

#[test]
fn what_lies_in_the_blocks_is_counted_wherever_the_reader_is() {
    let (mut ring, mut kernel) = ring(3);
    assert_eq!(ring.waiting(), 0);
    assert!(kernel.hand_over(&numbered(0, 300)));
    assert!(kernel.hand_over(&numbered(300, 10)));
    assert_eq!(ring.waiting(), 310);
    kernel.begin(7);
    assert_eq!(ring.waiting(), 317, "with those in the block that is being filled");
    for waiting in [317, 61, 17, 7] {
        assert_eq!(ring.waiting(), waiting);
        if waiting > 7 {
            assert_eq!(ring.fill(None), Filled::Frames);
            assert_eq!(ring.waiting(), waiting, "they are not lent yet");
            drop(ring.lend().unwrap());
        }
    }
    // All blocks went back: the first is not begun again, and its old number is gone.
    assert_eq!(ring.fill(None), Filled::Empty);
    assert!(kernel.hand_over(&numbered(310, 7)));
    assert_eq!(ring.fill(Some(&mut |frame| number(frame) < 312)), Filled::Frames);
    assert_eq!(ring.waiting(), 2, "the rejected are done with");
    drop(ring.lend().unwrap());
    assert_eq!(ring.waiting(), 0);
}

#[test]
fn inversions_are_counted() {
    let (mut ring, mut kernel) = ring(1);
    let stamps = [5, 6, 4, 4, 7];
    let frames = stamps.map(|s| FakeFrame { stamp: (s, 0), ..FakeFrame::new(&[0; 60]) });
    assert!(kernel.hand_over(&block_with(&frames, BLOCK_BYTES)));
    assert_eq!(ring.fill(None), Filled::Frames);
    assert_eq!(ring.counts().inversions, 1);
    assert_eq!(ring.newest_stamp().seconds(), 7);
}

#[test]
fn a_kernel_on_another_thread_loses_no_frame() {
    const FRAMES: u32 = 200_000;
    let (mut ring, mut kernel) = ring(3);
    let writer = std::thread::spawn(move || {
        let mut next = 0;
        while next < FRAMES {
            let count = (next % 97 + 1).min(FRAMES - next);
            let block = numbered(next, count);
            while !kernel.hand_over(&block) {
                std::thread::yield_now();
            }
            next += count;
        }
    });
    let mut expected = 0;
    while expected < FRAMES {
        if ring.fill(None) != Filled::Frames {
            std::thread::yield_now();
            continue;
        }
        for frame in ring.lend().unwrap().iter() {
            assert_eq!(number(&frame), expected);
            assert!(frame.bytes.chunks(4).all(|word| word == &frame.bytes[..4]));
            expected += 1;
        }
    }
    writer.join().unwrap();
    assert_eq!(ring.counts().lent, u64::from(FRAMES));
}

#[test]
fn any_bytes_in_a_block_end_in_counts() {
    let tagged =
        FakeFrame { status: libc::TP_STATUS_VLAN_VALID, tci: 7, ..FakeFrame::new(&[9; 60]) };
    let mut seed = block_with(&[tagged.clone(), FakeFrame::new(&[1; 20]), tagged], 4096);
    seed.truncate(600);
    ringside_testkit::fuzz("tpacket-block", 50_000, &[seed], |input| {
        let memory = Mapping::anonymous(4096).unwrap();
        let mut kernel = FakeKernel::new(&memory, 4096, 1);
        let mut ring = BlockRing::new(memory, 4096, 1, rules());
        let mut block = input.to_vec();
        block.resize(4096, 0);
        assert!(kernel.hand_over(&block));
        let mut rounds = 0;
        while ring.fill(None) != Filled::Empty {
            if let Some(batch) = ring.lend() {
                assert!(batch.iter().all(|f| f.bytes.len() <= f.meta.wire_bytes as usize));
            }
            rounds += 1;
            assert!(rounds < 3, "a block of 4096 bytes holds at most 60 frames");
        }
        assert!(ring.counts().handled() <= 60);
        assert!(kernel.hand_over(&block), "given back");
    });
}
