//! The memory that frames are sent from, cut into chunks: *slots*, into which frames and headers
//! are written, and behind them *payload*, which chains of several frames may name.
//!
//! A slot is free, being written, or in flight; it moves between these as a [`TxSlot`], which is
//! neither `Copy` nor `Clone`. A chunk of payload counts the descriptors that name it, and is
//! written only while there is none.
//!
//! Before the data of every chunk stay [`METADATA_BYTES`] bytes: where the memory was registered
//! with metadata, the kernel takes no descriptor that begins earlier in its chunk
//! (xp_aligned_validate_desc of net/xdp/xsk_queue.h), whether it has metadata or not.

use super::umem::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN};
use crate::SysError;
use crate::mmap::Mapping;
use ringside_core::ChecksumRequest;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// `struct xsk_tx_metadata` of Linux 6.15: flags; checksum or stamp; launch time. libc's is that of
/// 6.8, and shorter.
pub(super) const METADATA_BYTES: u32 = 24;
const _: () = assert!(METADATA_BYTES as usize >= size_of::<libc::xsk_tx_metadata>());

/// Entries of the rings, and slots. More than a card's ring holds (8,192) only make frames wait.
pub const TX_ENTRIES_MAX: u32 = 1 << 14;

/// Bytes of payload chunks: some seconds of stream at 1 Gb/s; sums cannot overflow.
const PAYLOAD_BYTES_MAX: usize = 1 << 30;

/// How the memory is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxLayout {
    /// Slots, and entries of the rings: a power of two from 64 to [`TX_ENTRIES_MAX`].
    pub entries: u32,
    /// Bytes of a chunk, [`CHUNK_BYTES_MIN`] or [`CHUNK_BYTES_MAX`].
    pub chunk_bytes: u32,
    /// Chunks of payload behind the slots, a gibibyte at most.
    pub payload_chunks: u32,
}

impl TxLayout {
    fn check(&self) -> Result<(), SysError> {
        let limit = |what, value: u32, limit: String| {
            Err(SysError::Limit { what, value: value.into(), limit })
        };
        if !matches!(self.chunk_bytes, CHUNK_BYTES_MIN | CHUNK_BYTES_MAX) {
            return limit("the chunk size", self.chunk_bytes, "2048 or 4096".into());
        }
        if !self.entries.is_power_of_two() || !(64..=TX_ENTRIES_MAX).contains(&self.entries) {
            let allowed = format!("a power of two from 64 to {TX_ENTRIES_MAX}");
            return limit("the number of entries of a transmit ring", self.entries, allowed);
        }
        let chunks_max = PAYLOAD_BYTES_MAX / self.chunk_bytes as usize;
        if self.payload_chunks as usize > chunks_max {
            let allowed = format!("at most {chunks_max}");
            return limit("the number of payload chunks", self.payload_chunks, allowed);
        }
        Ok(())
    }

    /// Bytes of data in a chunk.
    #[inline]
    pub fn room_bytes(&self) -> usize {
        (self.chunk_bytes - METADATA_BYTES) as usize
    }

    /// Bytes of the payload memory, as if its chunks followed each other without gaps.
    pub fn payload_bytes(&self) -> usize {
        self.payload_chunks as usize * self.room_bytes()
    }

    pub(super) fn total_bytes(&self) -> usize {
        (self.entries as usize + self.payload_chunks as usize) * self.chunk_bytes as usize
    }

    /// Address of the first byte of data of chunk `chunk`, counted from the first slot.
    #[inline]
    fn data_at(&self, chunk: u32) -> u64 {
        u64::from(chunk) * u64::from(self.chunk_bytes) + u64::from(METADATA_BYTES)
    }
}

/// A slot, owned.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TxSlot(u32);

impl TxSlot {
    #[inline]
    pub(super) fn index(&self) -> usize {
        self.0 as usize
    }
}

/// A chunk of payload, owned.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PayloadChunk {
    index: u32,
    /// Descriptors in flight that name it.
    pub(super) named: u32,
}

/// A part of the payload in one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PayloadPart {
    /// Counted from the first chunk of payload.
    pub(super) chunk: usize,
    /// From the first byte of data of the chunk.
    pub(super) offset: usize,
    pub(super) bytes: usize,
}

/// What is asked for one frame besides sending it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxRequest {
    /// Fill this checksum in.
    pub checksum: Option<ChecksumRequest>,
    /// Note when it was sent.
    pub stamp: bool,
}

impl TxRequest {
    /// Nothing is asked for, and no metadata needed.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.checksum.is_none() && !self.stamp
    }
}

/// The memory, mapped.
pub struct TxMemory {
    memory: Mapping,
    layout: TxLayout,
    /// Its chunks have their owner.
    taken: AtomicBool,
}

// SAFETY: shared access is to bytes of chunks alone, by those who own them: each chunk is given out
// once (`take`), and then passed on by value. The kernel only reads, but for stamps, which it
// writes to metadata of slots in flight, and which are read after the slot came back.
unsafe impl Sync for TxMemory {}

impl TxMemory {
    /// New memory, touched.
    ///
    /// # Errors
    /// A size beyond its limit, or there is not enough memory.
    pub fn new(layout: TxLayout) -> Result<TxMemory, SysError> {
        layout.check()?;
        let memory = Mapping::huge(layout.total_bytes())?;
        Ok(TxMemory { memory, layout, taken: AtomicBool::new(false) })
    }

    /// How it is cut.
    pub fn layout(&self) -> TxLayout {
        self.layout
    }

    pub(super) fn as_ptr(&self) -> *mut u8 {
        self.memory.as_ptr()
    }

    /// All slots and chunks of payload, once.
    ///
    /// # Panics
    /// If they were taken before.
    pub(super) fn take(&self) -> (Vec<TxSlot>, Vec<PayloadChunk>) {
        assert!(!self.taken.swap(true, Ordering::Relaxed), "the memory has its rings");
        let TxLayout { entries, payload_chunks, .. } = self.layout;
        let slots = (0..entries).rev().map(TxSlot).collect();
        let chunk = |number| PayloadChunk { index: entries + number, named: 0 };
        (slots, (0..payload_chunks).map(chunk).collect())
    }

    /// Where the data of a slot begin.
    #[inline]
    pub(super) fn address(&self, slot: &TxSlot) -> u64 {
        self.layout.data_at(slot.0)
    }

    /// Where part of a payload chunk begins.
    #[inline]
    pub(super) fn payload_address(&self, chunk: &PayloadChunk, offset: usize) -> u64 {
        self.layout.data_at(chunk.index) + offset as u64
    }

    /// Has `write` write the first `bytes` bytes of a slot's data.
    ///
    /// # Panics
    /// If it has no room for the bytes.
    #[inline]
    pub(super) fn write_slot(
        &self,
        slot: &mut TxSlot,
        bytes: usize,
        write: impl FnOnce(&mut [u8]),
    ) {
        assert!(bytes <= self.layout.room_bytes(), "{bytes} bytes in a slot");
        let at = self.layout.data_at(slot.0) as usize;
        // SAFETY: the slot lies in the memory (`take`), holds these bytes (asserted), and is the
        // caller's alone: it is not in flight, or there would be no handle to borrow.
        write(unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr().add(at), bytes) });
    }

    /// Has `write` write to a part of a chunk of payload.
    ///
    /// # Panics
    /// If a descriptor in flight names the chunk, or the part reaches beyond it.
    pub(super) fn write_payload(
        &self,
        chunk: &mut PayloadChunk,
        range: Range<usize>,
        write: impl FnOnce(&mut [u8]),
    ) {
        let room = self.layout.room_bytes();
        assert!(range.start <= range.end && range.end <= room, "{range:?} of {room} bytes");
        assert!(chunk.named == 0, "what is in flight stays as it is");
        let at = self.layout.data_at(chunk.index) as usize + range.start;
        let bytes = range.len();
        // SAFETY: as in `write_slot`; that nothing in flight names it is asserted.
        write(unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr().add(at), bytes) });
    }

    /// Writes what is asked for before the data of a slot.
    #[inline]
    pub(super) fn write_metadata(&self, slot: &mut TxSlot, request: TxRequest) {
        let stamp = if request.stamp { libc::XDP_TXMD_FLAGS_TIMESTAMP } else { 0 };
        let checksum = if request.checksum.is_some() { libc::XDP_TXMD_FLAGS_CHECKSUM } else { 0 };
        let mut bytes = [0; METADATA_BYTES as usize];
        bytes[..8].copy_from_slice(&u64::from(stamp | checksum).to_ne_bytes());
        if let Some(ChecksumRequest { start, offset }) = request.checksum {
            bytes[8..10].copy_from_slice(&start.to_ne_bytes());
            bytes[10..12].copy_from_slice(&offset.to_ne_bytes());
        }
        let at = (self.layout.data_at(slot.0) - u64::from(METADATA_BYTES)) as usize;
        // SAFETY: the bytes before a slot's data are the slot's, which is the caller's alone.
        unsafe {
            bytes.as_ptr().copy_to_nonoverlapping(self.memory.as_ptr().add(at), bytes.len());
        }
    }

    /// When the frame in the slot was sent, by TAI (`completion.tx_timestamp`, over the request).
    pub(super) fn read_stamp(&self, slot: &TxSlot) -> u64 {
        let at = self.layout.data_at(slot.0) as usize - METADATA_BYTES as usize + 8;
        // SAFETY: the word lies before the slot's data, aligned to 8 bytes; the kernel wrote it
        // before it gave the slot back. Any bytes are an integer.
        unsafe { self.memory.as_ptr().add(at).cast::<u64>().read_volatile() }
    }

    /// The parts of `range` of the payload memory, in order.
    #[inline]
    pub(super) fn parts(&self, range: Range<usize>) -> impl Iterator<Item = PayloadPart> + use<> {
        let room = self.layout.room_bytes();
        let Range { mut start, end } = range;
        std::iter::from_fn(move || {
            let (chunk, offset) = (start / room, start % room);
            let bytes = end.saturating_sub(start).min(room - offset);
            start += bytes;
            (bytes > 0).then_some(PayloadPart { chunk, offset, bytes })
        })
    }
}
