use super::super::TransmitRing;
use super::super::layout::{interface, slot};
use super::super::request::{PortInfo, Registered};
use super::*;
use crate::mmap::Mapping;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

/// Of the memory of these tests.
const SLOTS: u32 = 16;
const BUFFER_BYTES: u32 = 128;
const RING: usize = 128;
const BUFFERS: usize = 1024;
const MEMORY_BYTES: usize = BUFFERS + (SLOTS as usize + 2) * BUFFER_BYTES as usize;

/// Memory that stands still: the kernel has done what it does.
struct Played {
    memory: File,
    extra_buffers: u32,
}

impl Control for Played {
    fn info(&mut self, _port: &str) -> io::Result<PortInfo> {
        Ok(PortInfo { rx_rings: 1, host_rx_rings: 0 })
    }

    fn register(&mut self, request: &Register) -> io::Result<Registered> {
        let extra_buffers = request.extra_buffers.min(self.extra_buffers);
        let memory_bytes = self.memory.metadata()?.len();
        Ok(Registered { offset: 0, memory_bytes, extra_buffers })
    }

    fn map(&self, bytes: usize) -> Result<Mapping, SysError> {
        Mapping::shared(&self.memory, bytes)
    }

    fn sync(&mut self, _way: Way) -> io::Result<()> {
        Ok(())
    }

    fn wait(&self, _time: Duration) -> io::Result<()> {
        Ok(())
    }
}

fn take(memory: &[u8]) -> Result<ReceiveRing, SysError> {
    take_with(memory, 0)
}

fn take_with(memory: &[u8], extra_buffers: u32) -> Result<ReceiveRing, SysError> {
    let file = File::from(memfd_create("netmap", MemfdFlags::CLOEXEC).unwrap());
    file.write_all_at(memory, 0).unwrap();
    ReceiveRing::take(Box::new(Played { memory: file, extra_buffers }), "eth1", RingChoice::Card(0))
}

fn put(memory: &mut [u8], at: usize, value: u32) {
    memory[at..at + 4].copy_from_slice(&value.to_ne_bytes());
}

fn slot_at(index: usize) -> usize {
    RING + ring::HEADER_BYTES + index * slot::BYTES
}

/// Nine slots are there, each with 40 bytes more than its number; of them 3, 4 and 5 are one frame.
fn memory() -> Vec<u8> {
    let mut memory = vec![0; MEMORY_BYTES];
    put(&mut memory, interface::RX_RINGS, 1);
    put(&mut memory, interface::TX_RINGS, 1);
    put(&mut memory, interface::RING_OFFSETS + 8, RING as u32);
    put(&mut memory, RING + ring::BUFFERS, (BUFFERS - RING) as u32);
    put(&mut memory, RING + ring::SLOTS, SLOTS);
    put(&mut memory, RING + ring::BUFFER_BYTES, BUFFER_BYTES);
    put(&mut memory, RING + ring::TAIL, 9);
    for index in 0..SLOTS as usize {
        let buffer = 2 + (index * 5) % SLOTS as usize;
        put(&mut memory, slot_at(index) + slot::BUFFER, buffer as u32);
        let flags = if [3, 4].contains(&index) { u32::from(slot::MORE_FRAGMENTS) } else { 0 };
        put(&mut memory, slot_at(index) + slot::LENGTH, (40 + index as u32) | (flags << 16));
        let start = BUFFERS + buffer * BUFFER_BYTES as usize;
        memory[start..start + BUFFER_BYTES as usize].fill(index as u8);
    }
    memory
}

/// The same, and a list of buffers that no slot has.
fn memory_with_extra_buffers() -> Vec<u8> {
    let mut memory = memory();
    let first = 2 + SLOTS as usize;
    memory.resize(BUFFERS + (first + FRAMES_MAX) * BUFFER_BYTES as usize, 0);
    let mut at = interface::EXTRA_BUFFERS;
    for buffer in first..first + FRAMES_MAX {
        put(&mut memory, at, buffer as u32);
        at = BUFFERS + buffer * BUFFER_BYTES as usize;
    }
    memory
}

fn lent(ring: &mut ReceiveRing) -> Vec<Vec<u8>> {
    ring.receive().unwrap();
    let bytes = |frame: Slotted| ring.memory()[frame.offset..][..frame.bytes as usize].to_vec();
    ring.frames().map(bytes).collect()
}

#[test]
fn frames_are_lent_in_order_and_those_of_several_slots_whole() {
    let mut ring = take(&memory()).unwrap();
    let of = |index: u8| vec![index; 40 + usize::from(index)];
    assert_eq!(lent(&mut ring), [of(0), of(1), of(2)]);
    assert_eq!(lent(&mut ring), [[of(3), of(4), of(5)].concat()]);
    assert_eq!(ring.finish().unwrap(), 3);
    assert_eq!(lent(&mut ring), [of(6), of(7), of(8)]);
    assert!(lent(&mut ring).is_empty() && ring.is_empty());
    assert_eq!((ring.head, ring.next), (6, 9), "after the end nothing is given back");
}

/// A frame whose end has not come is not lent, and what it needs is waited for.
#[test]
fn a_frame_without_its_end_waits() {
    let mut memory = memory();
    put(&mut memory, RING + ring::TAIL, 5);
    let mut ring = take(&memory).unwrap();
    assert_eq!(lent(&mut ring).len(), 3);
    assert!(lent(&mut ring).is_empty());
    ring.ring.view().word(RING + ring::TAIL).unwrap().store(9, Ordering::Release);
    assert_eq!(lent(&mut ring)[0].len(), 3 * 40 + 3 + 4 + 5);
    assert_eq!(lent(&mut ring).len(), 3);
}

#[test]
fn what_cannot_be_is_named() {
    for (at, value, said) in [
        (RING + ring::TAIL, SLOTS, "a cursor cannot be 16"),
        (RING + ring::HEAD, SLOTS, "a cursor cannot be 16"),
        (RING + ring::SLOTS, 1 << 20, "the number of slots cannot be 1048576"),
        (RING + ring::BUFFER_BYTES, 0, "the bytes of a buffer cannot be 0"),
        (interface::RX_RINGS, 0, "the number of rings cannot be 0"),
        (interface::RING_OFFSETS + 8, 1 << 20, "an offset cannot be"),
        (slot_at(2) + slot::BUFFER, 1, "ring 0: the buffer of slot 2 cannot be 1"),
        (slot_at(2) + slot::BUFFER, SLOTS + 2, "the buffer of slot 2 cannot be 18"),
        (slot_at(2) + slot::LENGTH, 129, "the length of slot 2 cannot be 129"),
    ] {
        let mut memory = memory();
        put(&mut memory, at, value);
        let error = take(&memory).and_then(|mut ring| ring.receive()).unwrap_err().to_string();
        assert!(error.contains("netmap eth1, ring 0") && error.contains(said), "{said}: {error}");
    }
}

#[test]
fn any_memory_is_refused_or_lends_what_lies_in_it() {
    let seeds = [memory(), memory_with_extra_buffers()];
    ringside_testkit::fuzz("netmap-ring", 20_000, &seeds, |bytes| {
        let extra_buffers = if bytes.len() > MEMORY_BYTES { FRAMES_MAX as u32 } else { 0 };
        let Ok(mut ring) = take_with(bytes, extra_buffers) else { return };
        for turn in 0..6 {
            if turn == 4 && ring.finish().is_err() {
                return;
            }
            let Ok(count) = ring.receive() else { return };
            let memory = ring.memory().len();
            let fits = |frame: Slotted| frame.offset + frame.bytes as usize <= memory;
            assert_eq!(ring.frames().filter(|frame| fits(*frame)).count(), count);
        }
    });
}

#[test]
fn any_memory_is_refused_or_is_sent_from_within() {
    ringside_testkit::fuzz("netmap-transmit-ring", 20_000, &[transmit_memory()], |bytes| {
        let file = File::from(memfd_create("netmap", MemfdFlags::CLOEXEC).unwrap());
        file.write_all_at(bytes, 0).unwrap();
        let control = Box::new(Played { memory: file, extra_buffers: 0 });
        let ring = TransmitRing::take(control, "vale0:1", RingChoice::Card(0), true);
        let Ok(mut ring) = ring else { return };
        let mut put = 0;
        for frame_bytes in [60, 14, 1500, 300, 129] {
            let fits = frame_bytes <= ring.frame_bytes_max() && ring.has_room(frame_bytes);
            let write = |room: &mut [u8]| {
                room.fill(1);
                true
            };
            if fits && ring.put(frame_bytes, write).is_ok() {
                put += 1;
            }
            if ring.flush().is_err() {
                return;
            }
            assert_eq!(ring.accepted() + ring.waiting(), put);
        }
    });
}

/// A ring that sends, of which all slots but one are free.
fn transmit_memory() -> Vec<u8> {
    let mut memory = memory();
    put(&mut memory, interface::RING_OFFSETS, RING as u32);
    put(&mut memory, RING + ring::TAIL, SLOTS - 1);
    memory
}
