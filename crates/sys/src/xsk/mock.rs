//! The kernel's side of a lane, played in this process: what the data path does is tested and
//! measured without privileges, interfaces and programs.
//!
//! The mock takes chunks from the fill ring and puts descriptors into the receive ring by the rules
//! of net/xdp/xsk.c: frames longer than a chunk come in several parts, all or nothing, and it
//! counts what it had no chunk or no room for as XDP_STATISTICS does.

use super::cursor::{ConsumerCursor, ProducerCursor};
use super::layout::RawDescriptor;
use super::ring::RingMemory;
use super::socket::{XskEnds, XskStatistics};
use super::umem::{HEADROOM_BYTES, Umem};
use crate::SysError;
use crate::mmap::Mapping;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Where the words and entries of a mock's ring lie: each word in a cache line of its own.
const PLACES: [usize; 4] = [0, 64, 128, 192];

/// The kernel's side of one lane.
pub struct MockKernel {
    umem: Arc<Umem>,
    rx: RingMemory,
    rx_cursor: ProducerCursor,
    fill: RingMemory,
    fill_cursor: ConsumerCursor,
    statistics: XskStatistics,
    /// Frames wait for the next flush.
    pending: u32,
}

impl MockKernel {
    /// A lane `lane` of `umem` whose receive ring has `rx_entries` entries, and its ends.
    ///
    /// # Errors
    /// There is no memory.
    ///
    /// # Panics
    /// If there is no such lane, it has its ends, or `rx_entries` is no power of two.
    pub fn new(
        umem: &Arc<Umem>,
        lane: usize,
        rx_entries: u32,
    ) -> Result<(MockKernel, XskEnds), SysError> {
        let fill_entries = umem.layout().chunks_per_lane;
        let [rx, rx_kernel] = ring(rx_entries, size_of::<RawDescriptor>())?;
        let [fill, fill_kernel] = ring(fill_entries, size_of::<u64>())?;
        let ends = XskEnds::new(umem, lane, (rx, rx_entries), fill);
        let kernel = MockKernel {
            umem: umem.clone(),
            rx: rx_kernel,
            rx_cursor: ProducerCursor::new(rx_entries),
            fill: fill_kernel,
            fill_cursor: ConsumerCursor::new(fill_entries),
            statistics: XskStatistics::default(),
            pending: 0,
        };
        Ok((kernel, ends))
    }

    /// Receives a frame with `metadata` before its data. False if it was dropped.
    ///
    /// # Panics
    /// If the metadata is longer than [`HEADROOM_BYTES`].
    pub fn receive(&mut self, metadata: &[u8], frame: &[u8]) -> bool {
        let room = (self.umem.layout().chunk_bytes - HEADROOM_BYTES) as usize;
        let parts = frame.len().div_ceil(room).max(1) as u32;
        if self.fill_cursor.ready(self.fill.words(), parts) < parts {
            self.statistics.dropped += 1;
            self.statistics.fill_empty += 1;
            return false;
        }
        let needed = self.pending + parts;
        if self.rx_cursor.free(self.rx.words(), needed) < needed {
            self.statistics.ring_full += 1;
            return false;
        }
        for part in 0..parts {
            let from = part as usize * room;
            let bytes = &frame[from..frame.len().min(from + room)];
            let metadata = if part == 0 { metadata } else { &[] };
            let continues = part + 1 < parts;
            self.put(metadata, bytes, continues);
        }
        true
    }

    /// Puts one part into the next chunk.
    fn put(&mut self, metadata: &[u8], bytes: &[u8], continues: bool) {
        let chunk: u64 = self.fill.read(self.fill_cursor.slot(0));
        self.fill_cursor.release(self.fill.words(), 1);
        let address = chunk + u64::from(HEADROOM_BYTES);
        let layout = self.umem.layout();
        assert!(metadata.len() <= HEADROOM_BYTES as usize);
        assert!(bytes.len() <= (layout.chunk_bytes - HEADROOM_BYTES) as usize);
        assert!(chunk.is_multiple_of(layout.chunk_bytes.into()));
        assert!(chunk < layout.chunks_bytes() as u64);
        let start = address as usize - metadata.len();
        // SAFETY: the chunk came out of the fill ring, so no other thread has it, and it lies in
        // the memory; metadata and bytes fit into it: the one into the headroom, the other into the
        // room behind it.
        unsafe {
            let base = self.umem.as_ptr();
            metadata.as_ptr().copy_to_nonoverlapping(base.add(start), metadata.len());
            bytes.as_ptr().copy_to_nonoverlapping(base.add(address as usize), bytes.len());
        }
        let options = if continues { libc::XDP_PKT_CONTD } else { 0 };
        self.put_raw(address, bytes.len() as u32, options);
    }

    /// The new lane as if `passed` entries had passed through each of its rings.
    #[cfg(all(test, not(feature = "loom")))]
    pub(super) fn set_passed(&mut self, passed: u32, ends: &mut XskEnds, rx_entries: u32) {
        self.rx_cursor = ProducerCursor::after(passed, rx_entries);
        self.fill_cursor = ConsumerCursor::after(passed, self.umem.layout().chunks_per_lane);
        ends.rx.set_passed(passed);
        ends.fill.set_passed(passed);
    }

    /// The chunks in the fill ring, in order.
    #[cfg(all(test, not(feature = "loom")))]
    pub(super) fn fill_ring(&mut self) -> Vec<u64> {
        let count = self.free_chunks();
        (0..count).map(|ahead| self.fill.read(self.fill_cursor.slot(ahead))).collect()
    }

    /// Puts any descriptor into the receive ring, as a broken kernel might. One that names a chunk
    /// in other hands gives it a second owner, which breaks the rule that makes claims safe: only
    /// for tests whose claims and kernel one thread works on.
    pub fn put_raw(&mut self, address: u64, bytes: u32, options: u32) {
        let slot = self.rx_cursor.slot(self.pending);
        self.rx.write(slot, RawDescriptor { address, bytes, options });
        self.pending += 1;
    }

    /// Shows what was received since the last flush, as the kernel does at the end of a NAPI round.
    pub fn flush(&mut self) {
        self.rx_cursor.publish(self.rx.words(), self.pending);
        self.pending = 0;
    }

    /// What was counted.
    pub fn statistics(&self) -> XskStatistics {
        self.statistics
    }

    /// Chunks that the kernel has and has not used.
    pub fn free_chunks(&mut self) -> u32 {
        self.fill_cursor.ready(self.fill.words(), u32::MAX)
    }
}

/// A ring in memory, mapped for both sides.
pub(super) fn ring(entries: u32, entry_bytes: usize) -> Result<[RingMemory; 2], SysError> {
    let bytes = PLACES[3] + entries as usize * entry_bytes;
    let memory = memory(bytes)?;
    let side = || {
        let mapping = Mapping::shared(&memory, bytes)?;
        RingMemory::new(mapping, PLACES, entries, entry_bytes)
    };
    Ok([side()?, side()?])
}

fn memory(bytes: usize) -> Result<OwnedFd, SysError> {
    let context = |e| SysError::io("memory for a ring of the mock", e);
    let memory = memfd_create("ringside-mock-ring", MemfdFlags::CLOEXEC).map_err(context)?;
    ftruncate(&memory, bytes as u64).map_err(context)?;
    Ok(memory)
}
