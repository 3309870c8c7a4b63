//! Memory whose owner does not keep to the protocol: refused, or read without harm.

use super::*;
use crate::cursor::{LANE_BYTES, SLOT_BYTES};
use crate::header::{self, HEADER_BYTES, decode};
use ringside_core::Timestamp;
use ringside_testkit::{Random, fuzz};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const SIZES: RingLayout =
    RingLayout { lanes: 2, blocks_per_lane: 4, block_bytes: BLOCK, lossless_readers: 0 };

/// The header of a ring of these sizes.
fn encode(layout: &RingLayout) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    for (place, word) in bytes.chunks_exact_mut(8).zip(header::words(layout)) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// A memfd of this size that begins with these bytes.
fn memory(first: &[u8], bytes: usize) -> OwnedFd {
    let memfd = memfd_create("ringside-test", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&memfd, bytes as u64).unwrap();
    if bytes >= first.len() {
        rustix::io::pwrite(&memfd, first, 0).unwrap();
    }
    memfd
}

fn refusal(first: &[u8], bytes: usize) -> String {
    match RingView::attach(memory(first, bytes)) {
        Ok(view) => panic!("attached to {:?}", view.layout()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_damaged_description_is_refused_word_by_word() {
    let honest = encode(&SIZES);
    let bytes = SIZES.total_bytes();
    assert_eq!(RingView::attach(memory(&honest, bytes)).unwrap().layout(), SIZES);
    let words = [
        "not one",
        "version",
        "lanes",
        "blocks per lane",
        "block bytes",
        "lossless readers",
        "offset of lanes",
        "offset of boards",
        "offset of slots",
        "offset of blocks",
        "total bytes",
        "checksum",
    ];
    assert_eq!(words.len() * 8, HEADER_BYTES);
    for (index, name) in words.iter().enumerate() {
        let at = index * 8..index * 8 + 8;
        let word = u64::from_ne_bytes(honest[at.clone()].try_into().unwrap());
        for damaged in [0, 1, 5, word + 1, word << 32, 1 << 63, u64::MAX - 4095, u64::MAX] {
            if damaged == word {
                continue;
            }
            let mut header = honest;
            header[at.clone()].copy_from_slice(&damaged.to_ne_bytes());
            let text = refusal(&header, bytes);
            // A size that is possible shows in what follows from it.
            let reasons = [name, "offset", "checksum", "power of two"];
            let said = reasons.iter().any(|reason| text.contains(reason));
            assert!(said, "{name} {damaged}: {text}");
        }
    }
}

#[test]
fn too_little_memory_is_refused() {
    let honest = encode(&SIZES);
    let bytes = SIZES.total_bytes();
    assert!(refusal(&honest, bytes - 1).contains("bytes of memory"));
    assert!(refusal(&honest, 4096).contains("bytes of memory"));
    assert!(refusal(&honest, HEADER_BYTES).contains("bytes of memory"));
    for bytes in [0, 1, HEADER_BYTES - 1] {
        assert!(refusal(&honest[..bytes], bytes).contains("not one"), "{bytes}");
    }
    assert!(refusal(&[0x55; 4096], bytes).contains("not one"));
    let mut larger = SIZES;
    larger.blocks_per_lane = 60_000;
    assert!(refusal(&encode(&larger), bytes).contains("bytes of memory"));
}

#[test]
fn any_description_is_refused_or_has_lawful_sizes() {
    let seeds = [encode(&SIZES).to_vec(), vec![0xff; HEADER_BYTES]];
    fuzz("ring-description", 500_000, &seeds, |input| {
        let mut header = [0; HEADER_BYTES];
        for (place, byte) in header.iter_mut().zip(input) {
            *place = *byte;
        }
        if let Ok(layout) = decode(&header, SIZES.total_bytes() as u64) {
            layout.check().unwrap();
            assert!(layout.total_bytes() <= SIZES.total_bytes());
        }
    });
}

/// The words of an owner's memory from the first lane's header to the end of the last slot's.
fn words(ring: &CaptureRing) -> &[AtomicU64] {
    let layout = ring.layout();
    // Headers, boards and slots lie one behind the other, and end at or before the first block.
    let bytes = layout.data_offset() - layout.lanes_offset();
    ring.memory().words(layout.lanes_offset(), bytes / 8)
}

fn attach(ring: &CaptureRing) -> Arc<RingView> {
    RingView::attach(ring.fd().try_clone_to_owned().unwrap()).unwrap()
}

/// Uses everything that a view has. Nothing may panic, hang, or give more than a block.
fn use_view(view: &RingView, sequences: &[u64]) {
    let mut buffer = Vec::new();
    for lane in 0..SIZES.lanes {
        let _ = (view.opened(lane), view.frames(lane), view.low_water_ns(lane));
        let _ = (view.is_finished(lane), view.released(lane, 0), view.released(lane, 9));
        let _ = view.read_board::<BOARD_WORDS>(lane, Board::Worker);
        let _ = view.read_board::<1>(lane, Board::Recorder);
        for sequence in sequences {
            if let Some(state) = view.copy_block(lane, *sequence, &mut buffer) {
                assert!(state.bytes <= BLOCK && state.bytes == buffer.len());
            }
        }
        let times = [0, 1, sequences[0], u64::MAX].map(|time| RingStart::Since(Timestamp(time)));
        for start in [RingStart::Oldest, RingStart::Now].into_iter().chain(times) {
            use_reader(&mut view.copy_reader(lane, start), &mut buffer);
        }
    }
}

fn use_reader(reader: &mut CopyReader, buffer: &mut Vec<u8>) {
    for _ in 0..6 {
        buffer.clear();
        let outcome = reader.read(buffer);
        assert!(buffer.len() <= BLOCK);
        let _ = (reader.first_frame(), reader.delivered(), reader.missed());
        let _ = (reader.behind_blocks(), reader.behind_frames());
        match outcome {
            ReadOutcome::Frames(_) => {}
            ReadOutcome::Nothing | ReadOutcome::Finished => assert!(buffer.is_empty()),
            ReadOutcome::Damaged => {
                assert!(buffer.is_empty());
                assert_eq!(reader.read(buffer), ReadOutcome::Damaged, "for ever");
                return;
            }
        }
    }
}

/// What an honest owner leaves in the words, in several states.
fn honest_words() -> Vec<Vec<u8>> {
    let mut states = Vec::new();
    for blocks in [0, 1, 3, 4, 9] {
        let ring = CaptureRing::create(SIZES, HugePages::No).unwrap();
        for lane in 0..SIZES.lanes {
            let mut writer = ring.writer(lane).unwrap();
            for block in 0..blocks {
                writer.open(block * PER_BLOCK).unwrap();
                writer.set_times(block, block + 9);
                writer.fill(if block % 2 == 0 { BLOCK } else { 64 }, PER_BLOCK as u32);
                if block % 2 == 0 && block + 1 < blocks {
                    writer.close();
                } else {
                    let rest = writer.tail().len();
                    writer.fill(rest, 0);
                    writer.close();
                }
            }
            ring.board_writer(lane, Board::Worker).unwrap().publish(&[blocks; BOARD_WORDS]);
        }
        let loaded = words(&ring).iter().map(|word| word.load(Ordering::Relaxed));
        states.push(loaded.flat_map(u64::to_ne_bytes).collect());
    }
    states
}

#[test]
fn garbage_in_the_headers_is_read_without_harm() {
    let ring = CaptureRing::create(SIZES, HugePages::No).unwrap();
    let view = attach(&ring);
    let mut seeds = honest_words();
    let count = words(&ring).len();
    seeds.extend([0u8, 1, 0x7f, 0xff].map(|byte| vec![byte; count * 8]));
    fuzz("ring-headers", 1_000, &seeds, |input| {
        let mut sequences = vec![0, 1, 3, 4, 8, u64::MAX - 1, u64::MAX];
        for (index, word) in words(&ring).iter().enumerate() {
            let mut bytes = [0; 8];
            for (place, byte) in bytes.iter_mut().zip(input.iter().skip(index * 8)) {
                *place = *byte;
            }
            word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        }
        sequences[0] = ring.region.lane(0).header.opened.load(Ordering::Relaxed).wrapping_sub(1);
        use_view(&view, &sequences);
    });
}

/// A word that leads somewhere in the protocol, or anywhere.
fn hostile_word(random: &mut Random) -> u64 {
    match random.below(6) {
        0 => random.next_u64(),
        1 => u64::MAX - random.below(9) as u64,
        2 => (random.below(BLOCK + 9) as u64) << 32 | random.below(99) as u64,
        3 => (random.below(12) as u64).wrapping_sub(1),
        _ => random.below(12) as u64,
    }
}

#[test]
fn headers_that_change_all_the_time_are_read_without_harm() {
    let ring = CaptureRing::create(SIZES, HugePages::No).unwrap();
    let view = attach(&ring);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random::new(3);
            let words = words(&ring);
            let per_lane = LANE_BYTES / 8;
            let slots = words.len() - SIZES.lanes * SIZES.blocks_per_lane * SLOT_BYTES / 8;
            while !stop.load(Ordering::Relaxed) {
                let place = match random.below(3) {
                    0 => random.below(SIZES.lanes * per_lane),
                    1 => slots + random.below(words.len() - slots),
                    _ => random.below(words.len()),
                };
                words[place].store(hostile_word(&mut random), Ordering::Relaxed);
            }
        });
        let ended = std::panic::catch_unwind(|| {
            for round in 0..2_000 {
                use_view(&view, &[round, round % 12, u64::MAX]);
            }
        });
        stop.store(true, Ordering::Relaxed);
        ended.unwrap();
    });
}

#[test]
fn garbage_in_the_blocks_is_nobodys_business_here() {
    let ring = CaptureRing::create(SIZES, HugePages::No).unwrap();
    let mut writer = ring.writer(0).unwrap();
    let mut reader = attach(&ring).copy_reader(0, RingStart::Oldest);
    // Lengths that are no multiple of anything, from odd addresses.
    let lengths = [1, 7, 8, 9, 64, 4097, 3];
    writer.open(0).unwrap();
    for (round, length) in lengths.into_iter().enumerate() {
        let bytes: Vec<u8> = Random::new(round as u64).bytes(length);
        writer.tail()[..length].copy_from_slice(&bytes);
        writer.fill(length, 1);
        writer.publish();
        let mut buffer = vec![9];
        assert_eq!(reader.read(&mut buffer), ReadOutcome::Frames(1));
        assert_eq!((buffer[0], &buffer[1..]), (9, &bytes[..]));
    }
}
