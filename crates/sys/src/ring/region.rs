//! The memory of the ring: a memfd, mapped shared, headers first, then the lanes' blocks.

use super::cursor::{LOSSLESS_READERS_MAX, Lane, LaneHeader, Range, SlotHeader};
use ringside_core::limits::{LANES_MAX, RING_BLOCK_BYTES_MAX, RING_BLOCK_BYTES_MIN};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use thiserror::Error;

/// Blocks of one lane. 65,536 blocks of 1 MiB are 64 GiB, more than a machine of today gives to
/// one queue.
const BLOCKS_PER_LANE_MAX: usize = 65_536;

/// Huge pages on x86-64 and most others; the mapping is rounded up to them.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Sizes of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLayout {
    /// Lanes, 1 to `LANES_MAX`.
    pub lanes: usize,
    /// Blocks of each lane, at least 2: a copying reader needs one that the writer is not in.
    pub blocks_per_lane: usize,
    /// Bytes of a block, a power of two from 512 KiB to 8 MiB.
    pub block_bytes: usize,
    /// Lossless readers of each lane, 0 to `LOSSLESS_READERS_MAX`.
    pub lossless_readers: usize,
}

impl RingLayout {
    fn check(&self) -> Result<(), RingError> {
        let range = |name, value, min, max| {
            let inside = (min..=max).contains(&value);
            if inside { Ok(()) } else { Err(RingError::Layout { name, value, min, max }) }
        };
        range("lanes", self.lanes, 1, LANES_MAX)?;
        range("blocks per lane", self.blocks_per_lane, 2, BLOCKS_PER_LANE_MAX)?;
        range("block bytes", self.block_bytes, RING_BLOCK_BYTES_MIN, RING_BLOCK_BYTES_MAX)?;
        range("lossless readers", self.lossless_readers, 0, LOSSLESS_READERS_MAX)?;
        if self.block_bytes.is_power_of_two() {
            Ok(())
        } else {
            Err(RingError::NotPowerOfTwo(self.block_bytes))
        }
    }

    fn slots_offset(&self) -> usize {
        self.lanes * size_of::<LaneHeader>()
    }

    fn data_offset(&self) -> usize {
        let slots = self.lanes * self.blocks_per_lane * size_of::<SlotHeader>();
        (self.slots_offset() + slots).next_multiple_of(4096)
    }

    fn total_bytes(&self) -> usize {
        let data = self.lanes * self.blocks_per_lane * self.block_bytes;
        (self.data_offset() + data).next_multiple_of(HUGE_PAGE_BYTES)
    }
}

/// Whether to ask for huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePages {
    /// Take them if there are enough, else ordinary pages.
    Try,
    /// Ordinary pages.
    No,
}

/// Why a ring could not be made.
#[derive(Debug, Error)]
pub enum RingError {
    /// A size outside its limits.
    #[error("capture ring: {name} is {value}, must be {min} to {max}")]
    Layout {
        /// Which size.
        name: &'static str,
        /// What was asked.
        value: usize,
        /// Least.
        min: usize,
        /// Most.
        max: usize,
    },
    /// A block size that is no power of two.
    #[error("capture ring: block of {0} bytes is not a power of two")]
    NotPowerOfTwo(usize),
    /// The system refused the memory.
    #[error(
        "capture ring: cannot get {bytes} bytes of shared memory ({source}); ask for less with \
         --ring-size"
    )]
    Memory {
        /// How much.
        bytes: usize,
        /// Why.
        source: std::io::Error,
    },
}

/// A mapped ring.
pub(super) struct Region {
    layout: RingLayout,
    base: NonNull<u8>,
    huge: bool,
    // Held so that other processes can be handed the memory.
    _memfd: OwnedFd,
}

// SAFETY: the region owns its mapping; what is shared in it is reached through atomics (headers)
// or through the ring's protocol (blocks), whose callers say why at each use.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    pub(super) fn create(layout: RingLayout, huge_pages: HugePages) -> Result<Region, RingError> {
        layout.check()?;
        let bytes = layout.total_bytes();
        if huge_pages == HugePages::Try {
            // memfd_create succeeds without free huge pages; mmap or the first touch then fails.
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
            if let Ok((base, memfd)) = map(bytes, flags) {
                return Ok(Region { layout, base, huge: true, _memfd: memfd });
            }
        }
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let (base, memfd) =
            map(bytes, flags).map_err(|errno| RingError::Memory { bytes, source: errno.into() })?;
        Ok(Region { layout, base, huge: false, _memfd: memfd })
    }

    pub(super) fn layout(&self) -> RingLayout {
        self.layout
    }

    pub(super) fn has_huge_pages(&self) -> bool {
        self.huge
    }

    pub(super) fn lane(&self, lane: usize) -> Lane<'_> {
        assert!(lane < self.layout.lanes);
        let slots_before = lane * self.layout.blocks_per_lane;
        // SAFETY: the offsets lie within the mapping by `RingLayout`; headers are 64-byte aligned
        // (page-aligned base, sizes that are multiples of 64), made of atomics only, for which any
        // bytes, also the memfd's zeros, are valid; they live as long as `self`.
        unsafe {
            let header = self.base.add(lane * size_of::<LaneHeader>()).cast::<LaneHeader>();
            let slots = self.base.add(self.layout.slots_offset()).cast::<SlotHeader>();
            let slots = slots.add(slots_before).as_ptr();
            Lane {
                header: header.as_ref(),
                slots: std::slice::from_raw_parts(slots, self.layout.blocks_per_lane),
            }
        }
    }

    fn block(&self, lane: usize, slot: usize) -> NonNull<u8> {
        assert!(lane < self.layout.lanes && slot < self.layout.blocks_per_lane);
        let block = lane * self.layout.blocks_per_lane + slot;
        // SAFETY: the block lies within the mapping, by the assertion and `total_bytes`.
        unsafe { self.base.add(self.layout.data_offset() + block * self.layout.block_bytes) }
    }

    /// Bytes `from..to` of a block.
    ///
    /// # Safety
    /// Nothing writes them while the slice lives.
    pub(super) unsafe fn bytes(&self, lane: usize, slot: usize, from: usize, to: usize) -> &[u8] {
        assert!(from <= to && to <= self.layout.block_bytes);
        // SAFETY: in bounds by the assertion; no writer by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.block(lane, slot).add(from).as_ptr(), to - from) }
    }

    /// Bytes `from..to` of a block, to write.
    ///
    /// # Safety
    /// No other slice to any of them lives, and nobody else writes them.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn bytes_mut(
        &self,
        lane: usize,
        slot: usize,
        from: usize,
        to: usize,
    ) -> &mut [u8] {
        assert!(from <= to && to <= self.layout.block_bytes);
        // SAFETY: in bounds by the assertion; exclusive by the caller's promise.
        unsafe {
            std::slice::from_raw_parts_mut(self.block(lane, slot).add(from).as_ptr(), to - from)
        }
    }

    /// Appends the range to `buffer`, tolerating a writer in it: the caller confirms afterwards.
    pub(super) fn copy_out(&self, lane: usize, range: &Range, buffer: &mut Vec<u8>) {
        let (from, to) = (range.from as usize, range.to as usize);
        // Blocks are filled in steps of 4 bytes (pcapng), so words of 4 bytes are aligned.
        assert!(from <= to && to <= self.layout.block_bytes);
        assert!(from.is_multiple_of(4) && to.is_multiple_of(4), "pcapng blocks are multiples of 4");
        let block = self.block(lane, range.slot).cast::<u32>();
        let start = buffer.len();
        buffer.resize(start + to - from, 0);
        for (word, out) in (from / 4..to / 4).zip(buffer[start..].chunks_exact_mut(4)) {
            // SAFETY: in bounds by the assertion and aligned; the read is volatile because a writer
            // may be changing the word. Any value is a valid u32.
            let value = unsafe { block.add(word).as_ptr().read_volatile() };
            out.copy_from_slice(&value.to_ne_bytes());
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of this length, and no borrow outlives `self`.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.layout.total_bytes()) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping");
    }
}

fn map(bytes: usize, flags: MemfdFlags) -> rustix::io::Result<(NonNull<u8>, OwnedFd)> {
    let memfd = memfd_create("ringside-capture-ring", flags)?;
    ftruncate(&memfd, bytes as u64)?;
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing of ours.
    let base = unsafe { mmap(std::ptr::null_mut(), bytes, prot, MapFlags::SHARED, &memfd, 0)? };
    // SAFETY: populating our own new mapping changes no byte of it. Touching the memory now, in
    // one call, is what keeps first-touch faults out of the capture.
    if let Err(errno) = unsafe { madvise(base, bytes, Advice::LinuxPopulateWrite) } {
        // SAFETY: the mapping is ours and nothing refers to it.
        unsafe { munmap(base, bytes)? };
        return Err(errno);
    }
    let base = NonNull::new(base.cast()).expect("mmap without MAP_FIXED does not return null");
    Ok((base, memfd))
}
