//! The reading end against a writer that does what the program does, and against broken contents.

use super::positions::next_lap;
use super::*;
use ringside_testkit::driver_ring::{Kind, Program};
use ringside_testkit::{Random, by_run, fuzz};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

const LAYOUT: XdpRingLayout =
    XdpRingLayout { rings: 2, ring_bytes: RING_BYTES_MIN, window_bytes: RING_BYTES_MIN };
/// With a window.
const WINDOWED: XdpRingLayout = XdpRingLayout { ring_bytes: 4 * RING_BYTES_MIN, ..LAYOUT };

/// As in the program.
const STEP_BYTES: u64 = 64 << 10;

/// What stands for the map.
fn memory(layout: XdpRingLayout) -> OwnedFd {
    let memory = memfd_create("ringside-test-rings", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&memory, (layout.rings * layout.value_bytes()) as u64).unwrap();
    memory
}

/// The program's side of one ring.
struct Writer {
    values: Mapping,
    layout: XdpRingLayout,
    at: usize,
    program: Program,
}

impl Writer {
    fn new(memory: &OwnedFd, layout: XdpRingLayout, ring: usize) -> Writer {
        let values = Mapping::shared(memory, layout.rings * layout.value_bytes()).unwrap();
        let (window, all) = (layout.window_bytes as u64, layout.ring_bytes as u64);
        let program = Program::new(window, all, RECORD_BYTES as u64, STEP_BYTES);
        Writer { values, layout, at: ring * layout.value_bytes(), program }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: as in `XdpRing::word`.
        unsafe { AtomicU64::from_ptr(self.values.as_ptr().add(self.at + at).cast()) }
    }

    fn write(&self, place: usize, bytes: &[u8]) {
        assert!(RECORDS_AT + place + bytes.len() <= self.layout.value_bytes());
        // SAFETY: it lies in the value, and no reader reads it before the head has passed it.
        unsafe {
            let to = self.values.as_ptr().add(self.at + RECORDS_AT + place);
            bytes.as_ptr().copy_to_nonoverlapping(to, bytes.len());
        }
    }

    fn write_record(&self, place: usize, stamp: u64, wire_bytes: u32, bytes: u32) {
        self.write(place, &stamp.to_ne_bytes());
        self.write(place + 8, &wire_bytes.to_ne_bytes());
        self.write(place + 12, &bytes.to_ne_bytes());
    }

    /// False if there is no room.
    fn put(&mut self, stamp: u64, wire_bytes: u32, frame: &[u8]) -> bool {
        let needed = (RECORD_BYTES + frame.len()).next_multiple_of(RECORD_ALIGN) as u64;
        let tail = self.word(TAIL_AT).load(Ordering::Acquire);
        let mut lap_end = None;
        let position = self.program.find_room(needed, || tail, |end| lap_end = Some(end));
        if let Some(end) = lap_end {
            self.write_record(place(end.at) as usize, 0, end.place, LAP_END);
            self.word(HEAD_AT).store(end.next, Ordering::Release);
        }
        let Some(position) = position else { return false };
        let place = place(position) as usize;
        self.write_record(place, stamp, wire_bytes, frame.len() as u32);
        self.write(place + RECORD_BYTES, frame);
        self.program.head = position + needed;
        self.word(HEAD_AT).store(self.program.head, Ordering::Release);
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

fn start_at(ring: &mut XdpRing, writer: &mut Writer, position: u64) {
    writer.word(HEAD_AT).store(position, Ordering::Release);
    writer.word(TAIL_AT).store(position, Ordering::Release);
    writer.program = std::mem::take(&mut writer.program).starting_at(position);
    ring.reader = Reader { begin: position, end: position, head_seen: position };
}

/// Puts and takes in a random order: how many frames had no room and came, and how many laps of
/// each kind began.
fn any_order(layout: XdpRingLayout, seed: u64) -> (u64, u64, [u64; Kind::ALL]) {
    let mut random = Random::new(seed);
    let memory = memory(layout);
    let mut rings = XdpRing::map(&memory, layout).unwrap();
    let ring = &mut rings[seed as usize % 2];
    let mut writer = Writer::new(&memory, layout, seed as usize % 2);
    if seed.is_multiple_of(3) {
        // Laps are soon numbered from 0 again, and the first ends near the end of the ring.
        let start = layout.ring_bytes - 8 * random.below(12_000);
        start_at(ring, &mut writer, u64::from(u32::MAX - 5) << 32 | start as u64);
    }
    let mut waiting = VecDeque::new();
    let (mut refused, mut came, mut lent) = (0, 0, Vec::new());
    for stamp in 0..4_000 {
        // The reader keeps up for a while, and lags for a while.
        let pace = if stamp / 250 % 2 == 0 { 2 } else { 12 };
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
        if random.below(pace) == 0 {
            assert!(ring.taken() == lent, "what is lent is not written over");
            let most = [1, 2, 256][random.below(3)];
            for (record, frame) in take(ring, most) {
                let expected = waiting.pop_front().unwrap();
                assert_eq!((record.stamp_tai_ns, &frame), (expected.0, &expected.1));
                assert_eq!(record.wire_bytes, record.bytes + 7);
                came += 1;
            }
            lent = ring.taken().to_vec();
        }
    }
    let mut left = Vec::new();
    while !ring.is_empty() {
        left.extend(take(ring, 256).into_iter().map(|(record, _)| record.stamp_tai_ns));
    }
    assert!(left.iter().eq(waiting.iter().map(|(stamp, _)| stamp)), "seed {seed}");
    assert_eq!(ring.damaged(), 0);
    let [back, ahead, ahead_at_start, round] = writer.program.begun;
    assert_eq!(ring.laps(), Laps { back, ahead, round: ahead_at_start + round }, "seed {seed}");
    (refused, came, writer.program.begun)
}

#[test]
fn any_order_of_puts_and_takes_keeps_every_frame() {
    let mut ahead_at_start = 0;
    for seed in 1..=by_run(3, 40) {
        let (refused, came, laps) = any_order(LAYOUT, seed);
        assert!(refused > 0 && came > 100, "{refused} {came}");
        assert!(matches!(laps, [0, 0, 0, (10..)]), "{laps:?}");
        let (refused, came, laps) = any_order(WINDOWED, seed);
        assert!(refused > 0 && came > 100, "{refused} {came}");
        assert!(laps[0].min(laps[1]).min(laps[3]) > 10, "{laps:?}");
        ahead_at_start += laps[2];
    }
    assert!(ahead_at_start > 0);
}

/// Wherever the writer is when the reader stops, and however far behind the reader is.
#[test]
fn a_burst_finds_nearly_the_whole_ring() {
    let frame = vec![1; 1_000];
    let record = (RECORD_BYTES + frame.len()).next_multiple_of(RECORD_ALIGN);
    for (before, lag) in
        (0..1_300).step_by(7).flat_map(|before| [0, 40, 300].map(|lag| (before, lag)))
    {
        let memory = memory(WINDOWED);
        let mut ring = XdpRing::map(&memory, WINDOWED).unwrap().remove(0);
        let mut writer = Writer::new(&memory, WINDOWED, 0);
        let mut read = 0;
        for stamp in 0..before {
            assert!(writer.put(stamp, 1_000, &frame));
            if stamp >= lag {
                read += take(&mut ring, 1).len() as u64;
            }
        }
        // What was lent is the writer's again.
        ring.give_back();
        let mut put = before;
        while writer.put(put, 1_000, &frame) {
            put += 1;
            assert!(put < 4_000, "it never fills");
        }
        let waits = (put - read) as usize * record;
        let used = WINDOWED.window_bytes / 2 * 3;
        assert!(waits > WINDOWED.ring_bytes - used - 4 * record, "{before} {lag}: {waits}");
        for stamp in read..put {
            assert_eq!(take(&mut ring, 1)[0].0.stamp_tai_ns, stamp);
        }
        assert!(ring.is_empty());
    }
}

#[test]
fn what_was_taken_is_the_writers_again_when_the_next_is_taken() {
    let memory = memory(LAYOUT);
    let mut ring = XdpRing::map(&memory, LAYOUT).unwrap().remove(0);
    let mut writer = Writer::new(&memory, LAYOUT, 0);
    let frame = vec![1; 1000];
    let mut put = 0;
    while writer.put(put, 1000, &frame) {
        put += 1;
    }
    assert_eq!(take(&mut ring, 3).len(), 3);
    assert!(!writer.put(put, 1000, &frame), "the three are lent");
    assert_eq!(take(&mut ring, 1).len(), 1);
    assert!(writer.put(put, 1000, &frame) && writer.put(put + 1, 1000, &frame));
    assert!(!writer.put(put, 1000, &frame), "the fourth is lent, and a lap's end needs room");
}

#[test]
fn a_position_or_a_length_from_nowhere_does_no_harm() {
    let memory = memory(LAYOUT);
    let mut ring = XdpRing::map(&memory, LAYOUT).unwrap().remove(0);
    let mut writer = Writer::new(&memory, LAYOUT, 0);
    for head in [1, 7, LAYOUT.ring_bytes as u64 + 8, 4 << 32, u64::MAX] {
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
    let memory = memory(WINDOWED);
    let state = RefCell::new((XdpRing::map(&memory, WINDOWED).unwrap().remove(1), 0u64));
    let writer = Writer::new(&memory, WINDOWED, 1);
    let starts = [0, WINDOWED.window_bytes as u32];
    // The first byte says where the next lap begins: 2 or 3; else this one goes on.
    let raw = |stamp: u64, wire_bytes: u32, bytes: u32| {
        [&stamp.to_ne_bytes()[..], &wire_bytes.to_ne_bytes(), &bytes.to_ne_bytes()].concat()
    };
    let record = |stamp: u64, bytes: u32| {
        let body = vec![7; (bytes as usize).next_multiple_of(8)];
        [raw(stamp, bytes, bytes), body].concat()
    };
    let seeds = vec![
        record(1, 60),
        [record(1, 14), record(1, 1514), record(1, 9)].concat(),
        record(1, 60_000),
        [record(2, 60), raw(0, starts[0], LAP_END)].concat(),
        [record(3, 1514), raw(0, starts[1], LAP_END)].concat(),
    ];
    fuzz("xdp-ring-records", 50_000, &seeds, |input| {
        let (ring, head) = &mut *state.borrow_mut();
        let input = &input[..input.len().min(60_000) / 8 * 8];
        writer.write(place(*head) as usize, input);
        let end = *head + input.len() as u64;
        let fits = place(end) <= WINDOWED.ring_bytes as u64;
        *head = match input.first() {
            Some(2 | 3) => next_lap(*head, starts[usize::from(input[0] - 2)]),
            _ if fits => end,
            _ => next_lap(*head, 0),
        };
        writer.word(HEAD_AT).store(*head, Ordering::Release);
        while !ring.is_empty() {
            let mut sum = 0u8;
            let taken = take(ring, 256);
            let end = place(ring.reader.begin) as usize + ring.taken().len();
            assert!(end <= WINDOWED.ring_bytes);
            for (_, frame) in taken {
                sum = frame.iter().fold(sum, |sum, byte| sum ^ byte);
            }
            std::hint::black_box(sum);
        }
        assert_eq!(ring.reader.end, *head, "all of it was taken or left out");
    });
}
