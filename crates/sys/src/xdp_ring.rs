//! Rings that a program in the driver copies frames into (`bpf/xdp_ring.bpf.c`), in the values of a
//! BPF array that this process has mapped: one ring for each receive queue.
//!
//! ```text
//! value of a queue: control words (a page) | records, round and round | room for the last record
//! record: stamp u64 | bytes on the wire u32 | bytes kept u32 | the bytes | up to 7 bytes
//! ```
//!
//! Positions count bytes since the start and are never taken back: `head` is the program's, `tail`
//! ours. What lies between them is ours to read; a record that begins before the end of the ring
//! goes on behind it, so that every frame lies in one piece. The layouts are those of `bpf/abi.h`.
//!
//! What was taken goes back when the next is taken: until then a borrow of the ring keeps it.

mod positions;

use crate::SysError;
use crate::mmap::Mapping;
use positions::{AtomicU64, Reader, Words};
use std::os::fd::AsFd;
use std::sync::Arc;

/// Where records begin in a value (RING_RECORDS_AT).
const RECORDS_AT: usize = 4096;
/// Where the positions lie in a value (struct ring_control), each in a cache line of its own.
const HEAD_AT: usize = 0;
const TAIL_AT: usize = 64;
/// In front of a frame (struct ring_record).
const RECORD_BYTES: usize = 16;
/// `struct ring_record`.
#[repr(C)]
struct RawRecord {
    stamp: u64,
    wire_bytes: u32,
    bytes: u32,
}
const _: () = assert!(size_of::<RawRecord>() == RECORD_BYTES);
/// Records begin at multiples of it.
const RECORD_ALIGN: usize = 8;
/// Most bytes that are kept of a frame (RING_FRAME_BYTES_MAX).
pub const FRAME_BYTES_MAX: usize = 0x8000 + 0xffff;
/// Room for the last record behind the end: the longest begins just before.
const BEHIND_BYTES: usize = 25 * 4096;
const _: () = assert!(BEHIND_BYTES >= RECORD_BYTES + FRAME_BYTES_MAX);

/// Smallest ring: some of the longest records.
pub const RING_BYTES_MIN: usize = 256 << 10;

/// Largest ring: what the kernel's verifier can follow within one value (BPF_MAX_VAR_OFF of
/// include/linux/bpf_verifier.h), with the control words before it.
pub const RING_BYTES_MAX: usize = 256 << 20;

/// How the map is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpRingLayout {
    /// Rings, one for each of the first queues.
    pub rings: usize,
    /// Bytes for records in each, a power of two.
    pub ring_bytes: usize,
}

impl XdpRingLayout {
    /// Bytes of one value of the map.
    pub fn value_bytes(&self) -> usize {
        RECORDS_AT + self.ring_bytes + BEHIND_BYTES
    }
}

/// The mapped values of all rings.
struct Values {
    memory: Mapping,
    layout: XdpRingLayout,
}

// SAFETY: shared access is to the control words, which are atomic, and by each `XdpRing` to its own
// value: `XdpRing::map` makes one for each.
unsafe impl Sync for Values {}

impl Values {
    /// The positions of the ring whose value begins at `at`.
    #[inline]
    fn words(&self, at: usize) -> Words<'_> {
        Words { head: self.word(at + HEAD_AT), tail: self.word(at + TAIL_AT) }
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the control words lie within the value, are aligned to 8 bytes, live as long as
        // the mapping, and whoever else uses them does so by whole words. Under loom nothing is
        // mapped: the model uses the positions alone.
        unsafe { &*self.memory.as_ptr().add(at).cast::<AtomicU64>() }
    }
}

/// A frame that was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Nanoseconds since 1970, TAI; 0 if the program does not stamp.
    pub stamp_tai_ns: u64,
    /// Of the frame on the wire.
    pub wire_bytes: u32,
    /// Kept of it.
    pub bytes: u32,
    /// Where it begins in [`XdpRing::taken`].
    pub offset: usize,
}

/// The reading end of one ring.
pub struct XdpRing {
    values: Arc<Values>,
    /// Where its value begins.
    at: usize,
    reader: Reader,
    damaged: u64,
}

impl XdpRing {
    /// The rings of a map whose program has not run yet.
    ///
    /// # Errors
    /// `map` cannot be mapped at the layout's length.
    ///
    /// # Panics
    /// If the ring's size is no power of two within its limits.
    pub fn map(map: impl AsFd, layout: XdpRingLayout) -> Result<Vec<XdpRing>, SysError> {
        let size = layout.ring_bytes;
        assert!(size.is_power_of_two() && (RING_BYTES_MIN..=RING_BYTES_MAX).contains(&size));
        let memory = Mapping::shared(map, layout.rings * layout.value_bytes())?;
        let values = Arc::new(Values { memory, layout });
        let ring = |index: usize| XdpRing {
            values: values.clone(),
            at: index * layout.value_bytes(),
            reader: Reader::default(),
            damaged: 0,
        };
        Ok((0..layout.rings).map(ring).collect())
    }

    /// Gives back what was taken before, and takes the next frames, at most `most`: `each` gets
    /// them. Returns their number.
    #[inline]
    pub fn take(&mut self, most: usize, mut each: impl FnMut(usize, Record)) -> usize {
        self.give_back();
        if self.reader.waiting() == 0 {
            self.look();
        }
        let first = self.place(self.reader.end);
        let mut count = 0;
        while count < most && self.reader.waiting() > 0 {
            let at = self.place(self.reader.end);
            if at < first {
                // It has gone round, and what was taken must lie in one piece.
                break;
            }
            let record = self.read(at);
            let length = (RECORD_BYTES + record.bytes as usize).next_multiple_of(RECORD_ALIGN);
            if record.bytes as usize > FRAME_BYTES_MAX || length as u64 > self.reader.waiting() {
                // What was taken before it stays lent; it is met again.
                if count == 0 {
                    self.skip_all();
                }
                break;
            }
            each(count, Record { offset: at - first + RECORD_BYTES, ..record });
            self.reader.end += length as u64;
            count += 1;
        }
        count
    }

    /// Gives back what was taken, for who takes nothing soon.
    #[inline]
    pub fn give_back(&mut self) {
        self.reader.give_back(self.values.words(self.at));
    }

    /// What was taken, with the records' own words.
    #[inline]
    pub fn taken(&self) -> &[u8] {
        let Reader { begin, end, .. } = self.reader;
        let start = self.at + RECORDS_AT + self.place(begin);
        let bytes = (end - begin) as usize;
        // SAFETY: these bytes lie in the value, because no record begins behind the ring's end or
        // is longer than the room there, and in one piece (`take`); the program writes to them only
        // once the tail has passed them, which takes `&mut self`; no other ring has this value.
        unsafe { std::slice::from_raw_parts(self.values.memory.as_ptr().add(start), bytes) }
    }

    /// True if nothing waits now.
    pub fn is_empty(&mut self) -> bool {
        if self.reader.waiting() == 0 {
            self.look();
        }
        self.reader.waiting() == 0
    }

    /// Bytes that waited at the last look at the program's position, and still do.
    pub fn waiting_bytes(&self) -> u64 {
        self.reader.waiting()
    }

    /// How often the ring held what the program does not write: then all that waited was left out.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    fn look(&mut self) {
        let (ring_bytes, align) = (self.values.layout.ring_bytes as u64, RECORD_ALIGN as u64);
        if !self.reader.look(self.values.words(self.at), ring_bytes, align) {
            self.damaged += 1;
        }
    }

    #[cold]
    fn skip_all(&mut self) {
        self.damaged += 1;
        self.reader.end = self.reader.head_seen;
        self.give_back();
    }

    /// Where in the records a position lies.
    fn place(&self, position: u64) -> usize {
        position as usize & (self.values.layout.ring_bytes - 1)
    }

    /// The record at a place, whatever is there.
    fn read(&self, place: usize) -> Record {
        let start = self.at + RECORDS_AT + place;
        // SAFETY: a place lies before the ring's end, behind which there is room for a record; it
        // is a multiple of 8, as positions are (`look`), in a mapping that begins at a page; the
        // program has written it before it moved the head beyond (`look` acquires).
        let words =
            unsafe { self.values.memory.as_ptr().add(start).cast::<RawRecord>().read_volatile() };
        let RawRecord { stamp, wire_bytes, bytes } = words;
        Record { stamp_tai_ns: stamp, wire_bytes, bytes, offset: 0 }
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests;
