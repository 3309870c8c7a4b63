//! The kernel's side of a ring, for tests: it writes blocks into anonymous memory as tpacket_rcv
//! does, in a circle, and stops where a block was not given back.

use crate::mmap::Mapping;
use crate::packet::layout::*;
use std::sync::atomic::{AtomicU32, Ordering};

/// Writes blocks. It must not outlive the ring that owns the memory.
pub(in crate::packet) struct FakeKernel {
    base: *mut u8,
    block_bytes: usize,
    block_count: usize,
    index: usize,
}

/// A frame as the kernel lays it down.
#[derive(Clone, Debug)]
pub(in crate::packet) struct FakeFrame {
    pub bytes: Vec<u8>,
    pub len: u32,
    pub status: u32,
    pub stamp: (u32, u32),
    pub tci: u32,
    pub tpid: u16,
    pub packet_type: u8,
}

impl FakeFrame {
    pub fn new(bytes: &[u8]) -> FakeFrame {
        FakeFrame {
            bytes: bytes.to_vec(),
            len: bytes.len() as u32,
            status: 0,
            stamp: (1, 2),
            tci: 0,
            tpid: 0,
            packet_type: libc::PACKET_HOST,
        }
    }
}

/// Offset of a frame's bytes from its header, as for Ethernet with 4 bytes reserved.
pub(in crate::packet) const MAC_OFFSET: usize = 86;

/// A block's memory with these frames; the status word is left 0.
pub(in crate::packet) fn block_with(frames: &[FakeFrame], block_bytes: usize) -> Vec<u8> {
    let mut block = vec![0; block_bytes];
    let mut at = BLOCK_HEADER_BYTES;
    put(&mut block, BLOCK_FRAME_COUNT, &(frames.len() as u32).to_ne_bytes());
    put(&mut block, BLOCK_FIRST_FRAME, &(at as u32).to_ne_bytes());
    for (index, frame) in frames.iter().enumerate() {
        let total = (MAC_OFFSET + frame.bytes.len()).next_multiple_of(8);
        let next = if index + 1 == frames.len() { 0 } else { total };
        for (field, value) in [
            (FRAME_NEXT, next as u32),
            (FRAME_SECONDS, frame.stamp.0),
            (FRAME_NANOS, frame.stamp.1),
            (FRAME_SNAPLEN, frame.bytes.len() as u32),
            (FRAME_LEN, frame.len),
            (FRAME_STATUS, frame.status),
            (FRAME_HASH, 0x1234_5678),
            (FRAME_VLAN_TCI, frame.tci),
        ] {
            put(&mut block, at + field, &value.to_ne_bytes());
        }
        put(&mut block, at + FRAME_MAC, &(MAC_OFFSET as u16).to_ne_bytes());
        put(&mut block, at + FRAME_VLAN_TPID, &frame.tpid.to_ne_bytes());
        put(&mut block, at + FRAME_PACKET_TYPE, &[frame.packet_type]);
        put(&mut block, at + MAC_OFFSET, &frame.bytes);
        at += total;
    }
    block
}

fn put(block: &mut [u8], at: usize, bytes: &[u8]) {
    block[at..at + bytes.len()].copy_from_slice(bytes);
}

impl FakeKernel {
    pub fn new(memory: &Mapping, block_bytes: usize, block_count: usize) -> FakeKernel {
        FakeKernel { base: memory.as_ptr(), block_bytes, block_count, index: 0 }
    }

    /// Fills the next block and hands it over; false if it was not given back yet.
    pub fn hand_over(&mut self, block: &[u8]) -> bool {
        assert_eq!(block.len(), self.block_bytes);
        // SAFETY: the block lies within the mapping, which outlives this value; the status word
        // is aligned. The rest is written only while the word says that it belongs to the kernel.
        unsafe {
            let target = self.base.add(self.index * self.block_bytes);
            let status = AtomicU32::from_ptr(target.add(BLOCK_STATUS).cast());
            if status.load(Ordering::Acquire) != libc::TP_STATUS_KERNEL {
                return false;
            }
            std::ptr::copy_nonoverlapping(
                block[BODY..].as_ptr(),
                target.add(BODY),
                self.block_bytes - BODY,
            );
            status.store(libc::TP_STATUS_USER, Ordering::Release);
        }
        self.index = (self.index + 1) % self.block_count;
        true
    }

    /// Has `frames` frames in the next block, which it is still filling.
    pub fn begin(&mut self, frames: u32) {
        // SAFETY: as in `hand_over`; both sides touch this word atomically only.
        unsafe {
            let target = self.base.add(self.index * self.block_bytes);
            let status = AtomicU32::from_ptr(target.add(BLOCK_STATUS).cast());
            assert_eq!(status.load(Ordering::Acquire), libc::TP_STATUS_KERNEL);
            let count = AtomicU32::from_ptr(target.add(BLOCK_FRAME_COUNT).cast());
            count.store(frames, Ordering::Relaxed);
        }
    }
}

// SAFETY: it only holds a pointer to memory that both sides share under the protocol.
unsafe impl Send for FakeKernel {}
