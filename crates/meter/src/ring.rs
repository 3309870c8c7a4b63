//! The ring of one CPU: what the program handed up, in order.

use crate::MeterError;
use ringside_ebpf::flows::FlowLayout;
use ringside_ebpf::flows::abi::{
    ENTRY_WORDS, Entry, FRAME_BYTES_MAX, RECORD_ENTRY, RECORD_FRAME, RECORD_WORDS, RING_HEAD,
    RING_RECORDS_AT, RING_TAIL, halves,
};
use ringside_sys::words::Words64;
use std::sync::atomic::Ordering;

/// What was handed up.
pub(crate) enum Record {
    /// The last sums of an entry that went.
    Entry(Entry),
    /// A frame; its bytes are behind it in the buffer that the reader was given.
    Frame(FrameRecord),
}

/// A frame that the program did not read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameRecord {
    /// Nanoseconds since 1970, TAI.
    pub stamp: u64,
    /// Where its bytes begin in the buffer, and how many there are.
    pub bytes: (usize, usize),
    /// Its length on the wire, in bytes.
    pub frame_bytes: u32,
    /// Packets that the host has put together in it: 1 but for segments.
    pub packets: u64,
    /// Octets of these on the wire.
    pub octets: u64,
}

/// Where the ring of a CPU is in the words of all.
pub(crate) struct Ring<'w> {
    words: &'w [std::sync::atomic::AtomicU64],
    mask: u64,
    cpu: usize,
}

impl<'w> Ring<'w> {
    pub fn of(all: &'w Words64, layout: &FlowLayout, cpu: usize) -> Ring<'w> {
        let words = layout.ring_value_bytes() / 8;
        let mask = u64::from(layout.ring_bytes) - 1;
        Ring { words: &all[cpu * words..(cpu + 1) * words], mask, cpu }
    }

    /// Bytes that wait.
    pub fn waiting(&self) -> u64 {
        let head = self.words[RING_HEAD].load(Ordering::Acquire);
        head.wrapping_sub(self.words[RING_TAIL].load(Ordering::Relaxed))
    }

    /// The next record. A frame's bytes go to the end of `frames`. `take` has what was read before
    /// its place is given back: a process that dies after that has taken it.
    pub fn next(
        &self,
        frames: &mut Vec<u8>,
        take: impl FnOnce(&Record),
    ) -> Result<bool, MeterError> {
        let head = self.words[RING_HEAD].load(Ordering::Acquire);
        let tail = self.words[RING_TAIL].load(Ordering::Relaxed);
        if head == tail {
            return Ok(false);
        }
        let damaged = MeterError::Damaged { cpu: self.cpu, position: tail };
        let waits = head.wrapping_sub(tail);
        let at = (RING_RECORDS_AT as u64 + (tail & self.mask)) as usize / 8;
        let word = |more: usize| self.words[at + more].load(Ordering::Relaxed);
        let [kind, bytes] = halves(word(0));
        let bytes = bytes as usize;
        let size = (RECORD_WORDS * 8 + bytes.next_multiple_of(8)) as u64;
        if !tail.is_multiple_of(8) || size > waits || bytes > FRAME_BYTES_MAX {
            return Err(damaged);
        }
        let record = match kind {
            RECORD_ENTRY if bytes == ENTRY_WORDS * 8 => {
                Record::Entry(Entry::of(&std::array::from_fn(|more| word(RECORD_WORDS + more))))
            }
            RECORD_FRAME => {
                let start = frames.len();
                let words = (0..bytes.div_ceil(8)).map(|more| word(RECORD_WORDS + more));
                frames.extend(words.flat_map(u64::to_ne_bytes));
                frames.truncate(start + bytes);
                let [packets, frame_bytes] = halves(word(2));
                let (stamp, octets) = (word(1), word(3));
                let bytes = (start, bytes);
                let packets = packets.into();
                Record::Frame(FrameRecord { stamp, bytes, frame_bytes, packets, octets })
            }
            _ => return Err(damaged),
        };
        take(&record);
        self.words[RING_TAIL].store(tail.wrapping_add(size), Ordering::Release);
        Ok(true)
    }
}
