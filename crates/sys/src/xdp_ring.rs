//! Rings that a program in the driver copies frames into (`bpf/xdp_ring.bpf.c`), in the values of a
//! BPF array that this process has mapped: one ring for each receive queue.
//!
//! ```text
//! value of a queue: control words (a page) | records | as much as the longest
//! record: stamp u64 | bytes on the wire u32 | bytes kept u32 | the bytes | up to 7 bytes
//! ```
//!
//! The program writes one record behind the other, round and round. Where the reader is near it
//! goes back instead, over what has just been read (`find_room`): such a *window* stays in the
//! caches, and in few entries of the TLB, while the whole ring is there for a burst. Where a *lap*
//! ends a record says so, and where the next begins. `head` is the program's position, `tail` ours,
//! and what lies between them is ours to read (`positions.rs`). The layouts are those of
//! `bpf/abi.h`.
//!
//! What was taken goes back when the next is taken: until then a borrow of the ring keeps it.

mod positions;

use crate::SysError;
use crate::mmap::Mapping;
use positions::{AtomicU64, Reader, Words, place};
use std::os::fd::AsFd;
use std::sync::Arc;

/// Where records begin in a value (RING_RECORDS_AT).
const RECORDS_AT: usize = 4096;
/// Where the positions lie in a value (struct ring_control), each in a cache line of its own.
const HEAD_AT: usize = 0;
const TAIL_AT: usize = 64;
/// In place of a number of kept bytes, larger than any: the end of a lap (RING_LAP_END).
const LAP_END: u32 = u32::MAX;
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
/// Behind the records: the verifier knows where one begins, not that it ends in the ring.
const BEHIND_BYTES: usize = 25 * 4096;
const _: () = assert!(BEHIND_BYTES >= RECORD_BYTES + FRAME_BYTES_MAX);

/// Smallest ring, and smallest window: half of it holds the longest record and the end of a lap,
/// which the program relies on where it goes back or round.
pub const RING_BYTES_MIN: usize = 256 << 10;
const _: () = assert!(RING_BYTES_MIN / 2 >= 2 * RECORD_BYTES + FRAME_BYTES_MAX + RECORD_ALIGN);

/// Largest ring: what the kernel's verifier can follow within one value (BPF_MAX_VAR_OFF of
/// include/linux/bpf_verifier.h), with the control words before it.
pub const RING_BYTES_MAX: usize = 256 << 20;

/// Bytes of the window in a ring that is several times larger. It and the memory that frames come
/// from fit the caches and the TLB of a core; half of it is 0.2 ms of 40 Gb/s, in which a reader
/// that keeps up is near again. Smaller ones are no faster, larger ones take more of a burst's
/// room.
const WINDOW_BYTES: usize = 2 << 20;
const WINDOWS_MIN: usize = 4;

/// How the map is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpRingLayout {
    /// Rings, one for each of the first queues.
    pub rings: usize,
    /// Bytes for records in each, a power of two.
    pub ring_bytes: usize,
    /// Bytes of these that are used again and again while the reader keeps up; a power of two.
    pub window_bytes: usize,
}

impl XdpRingLayout {
    /// `rings` rings of `ring_bytes` bytes.
    pub fn new(rings: usize, ring_bytes: usize) -> XdpRingLayout {
        let has_rest = ring_bytes >= WINDOWS_MIN * WINDOW_BYTES;
        let window_bytes = if has_rest { WINDOW_BYTES } else { ring_bytes };
        XdpRingLayout { rings, ring_bytes, window_bytes }
    }

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
        // the mapping, and all others that use them do so by whole words. Under loom nothing is
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

/// How often the reader went on in another lap, by where that began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Laps {
    /// Over what had just been read: the reader is near.
    pub back: u64,
    /// Where the program had been before it went back: the reader was not near any more.
    pub ahead: u64,
    /// At the start of the ring.
    pub round: u64,
}

impl Laps {
    /// A lap ended at `end`, and the next begins at `start`. From back over a window it is less
    /// than half of a ring that has one; from the end of a ring to its start it is more.
    fn note(&mut self, end: usize, start: usize, ring_bytes: usize) {
        let kind = match end.checked_sub(start) {
            None => &mut self.ahead,
            Some(bytes) if bytes <= ring_bytes / 2 => &mut self.back,
            Some(_) => &mut self.round,
        };
        *kind += 1;
    }
}

/// The reading end of one ring.
pub struct XdpRing {
    values: Arc<Values>,
    /// Where its value begins.
    at: usize,
    reader: Reader,
    laps: Laps,
    damaged: u64,
}

impl XdpRing {
    /// The rings of a map whose program has not run yet.
    ///
    /// # Errors
    /// `map` cannot be mapped at the layout's length.
    ///
    /// # Panics
    /// If the ring's or the window's size is no power of two within its limits.
    pub fn map(map: impl AsFd, layout: XdpRingLayout) -> Result<Vec<XdpRing>, SysError> {
        for (size, most) in
            [(layout.ring_bytes, RING_BYTES_MAX), (layout.window_bytes, layout.ring_bytes)]
        {
            assert!(size.is_power_of_two() && (RING_BYTES_MIN..=most).contains(&size));
        }
        let memory = Mapping::shared(map, layout.rings * layout.value_bytes())?;
        let values = Arc::new(Values { memory, layout });
        let ring = |index: usize| XdpRing {
            values: values.clone(),
            at: index * layout.value_bytes(),
            reader: Reader::default(),
            laps: Laps::default(),
            damaged: 0,
        };
        Ok((0..layout.rings).map(ring).collect())
    }

    /// Gives back what was taken before, and takes the next frames, at most `most`: `each` gets
    /// them. Returns their number.
    #[inline]
    pub fn take(&mut self, most: usize, mut each: impl FnMut(usize, Record)) -> usize {
        self.give_back();
        if !self.has_more() {
            self.look();
        }
        let mut first = self.place();
        let mut count = 0;
        while count < most && self.has_more() {
            let at = self.place();
            let record = self.read(at);
            if record.bytes == LAP_END {
                // What was taken lies in one piece. The end is met again.
                if count > 0 || !self.follow(record.wire_bytes) {
                    break;
                }
                first = self.place();
                // Who gets nothing may believe that nothing was there just now.
                if !self.has_more() {
                    self.look();
                }
                continue;
            }
            let length = (RECORD_BYTES + record.bytes as usize).next_multiple_of(RECORD_ALIGN);
            let is_possible = (1..=FRAME_BYTES_MAX).contains(&(record.bytes as usize));
            if !is_possible || at + length > self.lap_end() {
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
        let start = self.at + RECORDS_AT + place(begin) as usize;
        let bytes = (end - begin) as usize;
        // SAFETY: these bytes lie in the value, because no record goes beyond the ring, and in
        // one piece, because all are of one lap (`take`); the program writes to them only
        // once the tail has passed them, which takes `&mut self`; no other ring has this value.
        unsafe { std::slice::from_raw_parts(self.values.memory.as_ptr().add(start), bytes) }
    }

    /// True if nothing waits now.
    pub fn is_empty(&mut self) -> bool {
        if !self.has_more() {
            self.look();
        }
        !self.has_more()
    }

    /// True if not all was taken that was there at the last look at the program's position.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.reader.has_more()
    }

    /// How often the ring held what the program does not write: then all that waited was left out.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// The laps that were gone on in.
    pub fn laps(&self) -> Laps {
        self.laps
    }

    /// Where what was taken begins, as the program sees it: the number of its lap in the upper
    /// half, its place in the lower.
    pub fn position(&self) -> u64 {
        self.reader.begin
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

    /// Goes on in the next lap, at the place that the end of this one says; if that cannot be, what
    /// waits is left out. True if it did.
    #[cold]
    fn follow(&mut self, next: u32) -> bool {
        let next_place = next as usize;
        let is_possible =
            next_place <= self.values.layout.ring_bytes && next_place.is_multiple_of(RECORD_ALIGN);
        let end_place = self.place();
        let has_begun = is_possible && self.reader.follow(self.values.words(self.at), next);
        if has_begun {
            self.laps.note(end_place, next_place, self.values.layout.ring_bytes);
        } else {
            self.skip_all();
        }
        has_begun
    }

    /// Where in the records the next one lies.
    #[inline]
    fn place(&self) -> usize {
        place(self.reader.end) as usize
    }

    /// Up to where the records of this lap go.
    #[inline]
    fn lap_end(&self) -> usize {
        self.reader.lap_end(self.values.layout.ring_bytes as u64) as usize
    }

    /// The record at a place, whatever is there.
    fn read(&self, place: usize) -> Record {
        let start = self.at + RECORDS_AT + place;
        // SAFETY: no place lies behind the ring's end, and there is room for a record there; it is
        // a multiple of 8, as positions are (`look`), in a mapping that begins at a page; the
        // program has written it before it moved the head beyond (`look` acquires).
        let words =
            unsafe { self.values.memory.as_ptr().add(start).cast::<RawRecord>().read_volatile() };
        let RawRecord { stamp, wire_bytes, bytes } = words;
        Record { stamp_tai_ns: stamp, wire_bytes, bytes, offset: 0 }
    }
}

#[cfg(not(feature = "loom"))]
#[cfg(not(feature = "loom"))]
#[cfg(test)]
mod tests;
