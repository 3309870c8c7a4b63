//! The reading end against a writer that does what the program does, and against broken contents.

use super::*;
use ringside_testkit::{Random, fuzz};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

const LAYOUT: XdpRingLayout = XdpRingLayout { rings: 2, ring_bytes: RING_BYTES_MIN };

/// What stands for the map.
fn memory() -> OwnedFd {
    let memory = memfd_create("ringside-test-rings", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&memory, (LAYOUT.rings * LAYOUT.value_bytes()) as u64).unwrap();
    memory
}

/// The program's side of one ring.
struct Writer {
    values: Mapping,
    at: usize,
}

impl Writer {
    fn new(memory: &OwnedFd, ring: usize) -> Writer {
        let values = Mapping::shared(memory, LAYOUT.rings * LAYOUT.value_bytes()).unwrap();
        Writer { values, at: ring * LAYOUT.value_bytes() }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: as in `XdpRing::word`.
        unsafe { AtomicU64::from_ptr(self.values.as_ptr().add(self.at + at).cast()) }
    }

    fn write(&self, place: usize, bytes: &[u8]) {
        assert!(RECORDS_AT + place + bytes.len() <= LAYOUT.value_bytes());
        // SAFETY: it lies in the value, and nobody reads it before the head has passed it.
        unsafe {
            let to = self.values.as_ptr().add(self.at + RECORDS_AT + place);
            bytes.as_ptr().copy_to_nonoverlapping(to, bytes.len());
        }
    }

    /// False if there is no room.
    fn put(&self, stamp: u64, wire_bytes: u32, frame: &[u8]) -> bool {
        let head = self.word(HEAD_AT).load(Ordering::Relaxed);
        let needed = (RECORD_BYTES + frame.len()).next_multiple_of(RECORD_ALIGN) as u64;
        let tail = self.word(TAIL_AT).load(Ordering::Acquire);
        if head + needed - tail > LAYOUT.ring_bytes as u64 {
            return false;
        }
        let place = head as usize & (LAYOUT.ring_bytes - 1);
        self.write(place, &stamp.to_ne_bytes());
        self.write(place + 8, &wire_bytes.to_ne_bytes());
        self.write(place + 12, &(frame.len() as u32).to_ne_bytes());
        self.write(place + RECORD_BYTES, frame);
        self.word(HEAD_AT).store(head + needed, Ordering::Release);
        true
    }
}

fn take(ring: &mut XdpRing, most: usize) -> Vec<(Record, Vec<u8>)> {
    let mut records = Vec::new();
    let count = ring.take(most, |index, record| {
        assert_eq!(index, records.len());
        records.push(record);
    });
    assert_eq!(count, records.len());
    let taken = ring.taken();
    let frame = |record: &Record| taken[record.offset..][..record.bytes as usize].to_vec();
    records.iter().map(|record| (*record, frame(record))).collect()
}

#[test]
fn any_order_of_puts_and_takes_keeps_every_frame() {
    for seed in 1..=20 {
        let mut random = Random::new(seed);
        let memory = memory();
        let mut rings = XdpRing::map(&memory, LAYOUT).unwrap();
        let ring = &mut rings[seed as usize % 2];
        let writer = Writer::new(&memory, seed as usize % 2);
        let mut waiting = VecDeque::new();
        let (mut refused, mut rounds) = (0, 0);
        for stamp in 0..4_000 {
            let length = match random.below(4) {
                0 => 14 + random.below(50),
                1 => 1514,
                2 => FRAME_BYTES_MAX - random.below(8),
                _ => 1 + random.below(9_000),
            };
            let frame = random.bytes(length);
            if writer.put(stamp, length as u32 + 7, &frame) {
                waiting.push_back((stamp, frame));
            } else {
                refused += 1;
            }
            if random.below(6) == 0 {
                let most = [1, 2, 256][random.below(3)];
                for (record, frame) in take(ring, most) {
                    let expected = waiting.pop_front().unwrap();
                    assert_eq!((record.stamp_tai_ns, &frame), (expected.0, &expected.1));
                    assert_eq!(record.wire_bytes, record.bytes + 7);
                    rounds += 1;
                }
            }
        }
        assert!(refused > 0 && rounds > 100, "{refused} {rounds}");
        let mut left = Vec::new();
        while !ring.is_empty() {
            left.extend(take(ring, 256).into_iter().map(|(record, _)| record.stamp_tai_ns));
        }
        assert!(left.iter().eq(waiting.iter().map(|(stamp, _)| stamp)), "seed {seed}");
        assert_eq!((ring.damaged(), ring.waiting_bytes()), (0, 0));
    }
}

#[test]
fn what_was_taken_is_the_writers_again_when_the_next_is_taken() {
    let memory = memory();
    let mut ring = XdpRing::map(&memory, LAYOUT).unwrap().remove(0);
    let writer = Writer::new(&memory, 0);
    let frame = vec![1; 1000];
    let mut put = 0;
    while writer.put(put, 1000, &frame) {
        put += 1;
    }
    assert_eq!(take(&mut ring, 2).len(), 2);
    assert!(!writer.put(put, 1000, &frame), "the two are lent");
    assert_eq!(take(&mut ring, 1).len(), 1);
    assert!(writer.put(put, 1000, &frame) && writer.put(put + 1, 1000, &frame));
    assert!(!writer.put(put, 1000, &frame), "the third is lent");
}

#[test]
fn a_position_or_a_length_from_nowhere_does_no_harm() {
    let memory = memory();
    let mut ring = XdpRing::map(&memory, LAYOUT).unwrap().remove(0);
    let writer = Writer::new(&memory, 0);
    for head in [1, 7, LAYOUT.ring_bytes as u64 + 8, u64::MAX, 1 << 63] {
        writer.word(HEAD_AT).store(head, Ordering::Release);
        assert_eq!((take(&mut ring, 256).len(), ring.taken().len()), (0, 0), "{head}");
    }
    assert_eq!(ring.damaged(), 5);
    writer.word(HEAD_AT).store(0, Ordering::Release);
    assert!(writer.put(1, 60, &[1; 60]) && writer.put(2, 60, &[2; 60]));
    let second = (RECORD_BYTES + 60).next_multiple_of(RECORD_ALIGN);
    for length in [81u32, 0xffff, 0x1_8000, u32::MAX] {
        writer.write(second + 12, &length.to_ne_bytes());
        // The first is taken as long as it was not.
        assert!(take(&mut ring, 256).len() <= 1);
    }
    assert_eq!(ring.damaged(), 6);
    assert!(writer.put(3, 60, &[3; 60]));
    assert_eq!(take(&mut ring, 256).len(), 1, "the writer goes on");
}

#[test]
fn whatever_is_in_the_ring_stays_in_the_ring() {
    let memory = memory();
    let state = RefCell::new((XdpRing::map(&memory, LAYOUT).unwrap().remove(1), 0u64));
    let writer = Writer::new(&memory, 1);
    let record = |bytes: u32| {
        let record = [&1u64.to_ne_bytes()[..], &bytes.to_ne_bytes(), &bytes.to_ne_bytes()];
        let body = vec![7; (bytes as usize).next_multiple_of(8)];
        record.concat().into_iter().chain(body).collect::<Vec<u8>>()
    };
    let seeds = vec![record(60), [record(14), record(1514), record(9)].concat(), record(60_000)];
    fuzz("xdp-ring-records", &seeds, |input| {
        let (ring, head) = &mut *state.borrow_mut();
        let input = &input[..input.len().min(60_000) / 8 * 8];
        let place = *head as usize & (LAYOUT.ring_bytes - 1);
        writer.write(place, input);
        *head += input.len() as u64;
        writer.word(HEAD_AT).store(*head, Ordering::Release);
        while !ring.is_empty() {
            let mut sum = 0u8;
            for (_, frame) in take(ring, 256) {
                sum = frame.iter().fold(sum, |sum, byte| sum ^ byte);
            }
            std::hint::black_box(sum);
        }
        assert_eq!(ring.waiting_bytes(), 0);
    });
}
