//! The memory of one ring.

use super::cursor::{AtomicU32, Words};
use crate::SysError;
use crate::mmap::Mapping;
use std::io;

/// A mapped ring: index words, a flag word and entries. Which entries may be read or written is
/// kept in the cursor of its owner.
pub(super) struct RingMemory {
    mapping: Mapping,
    producer: usize,
    consumer: usize,
    flags: usize,
    entries: usize,
    entry_count: usize,
    entry_bytes: usize,
}

impl RingMemory {
    /// The ring whose words and entries lie at `[producer, consumer, flags, entries]`.
    ///
    /// # Errors
    /// The kernel names places outside the mapping, or odd ones.
    pub(super) fn new(
        mapping: Mapping,
        [producer, consumer, flags, entries]: [usize; 4],
        entry_count: u32,
        entry_bytes: usize,
    ) -> Result<RingMemory, SysError> {
        let entry_count = entry_count as usize;
        let fits = |at: usize, align: usize, bytes: usize| {
            at.is_multiple_of(align)
                && at.checked_add(bytes).is_some_and(|end| end <= mapping.len())
        };
        let words = [producer, consumer, flags].iter().all(|&word| fits(word, 4, 4));
        if !words || !fits(entries, 8, entry_count * entry_bytes) {
            let source = io::Error::from(io::ErrorKind::InvalidData);
            return Err(SysError::io("the kernel's offsets of a ring lie outside of it", source));
        }
        Ok(RingMemory { mapping, producer, consumer, flags, entries, entry_count, entry_bytes })
    }

    #[inline]
    pub(super) fn words(&self) -> Words<'_> {
        Words { producer: self.word(self.producer), consumer: self.word(self.consumer) }
    }

    /// Has both index words say that `passed` entries have passed through.
    #[cfg(all(test, not(feature = "loom")))]
    pub(super) fn set_passed(&mut self, passed: u32) {
        self.words().producer.store(passed, super::cursor::Ordering::Relaxed);
        self.words().consumer.store(passed, super::cursor::Ordering::Relaxed);
    }

    /// The flag word, XDP_RING_NEED_WAKEUP.
    #[inline]
    pub(super) fn flags(&self) -> &AtomicU32 {
        self.word(self.flags)
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: the word lies in the mapping, aligned (checked in `new`), lives as long as
        // `self`, and both sides touch it atomically only. Under loom nothing is mapped: models
        // use the cursors alone.
        unsafe { &*self.mapping.as_ptr().add(at).cast::<AtomicU32>() }
    }

    /// Reads the entry at `slot`, which the producer has published.
    #[inline]
    pub(super) fn read<T: Entry>(&self, slot: usize) -> T {
        assert!(size_of::<T>() == self.entry_bytes && slot < self.entry_count);
        // SAFETY: the entry lies in the mapping by the assertion and the check in `new`, aligned to
        // 8 bytes; any bytes are a valid entry. The other side does not write it before the
        // consumer's index has passed it; were it to, the value would be checked like any other.
        unsafe { self.mapping.as_ptr().add(self.entries).cast::<T>().add(slot).read_volatile() }
    }

    /// Writes the entry at `slot`, which the consumer has consumed.
    #[inline]
    pub(super) fn write<T: Entry>(&mut self, slot: usize, entry: T) {
        assert!(size_of::<T>() == self.entry_bytes && slot < self.entry_count);
        // SAFETY: as in `read`; `&mut self` makes this the only writer of this process.
        unsafe {
            self.mapping.as_ptr().add(self.entries).cast::<T>().add(slot).write_volatile(entry)
        }
    }
}

/// What a ring holds: plain data of 8-byte alignment at most.
///
/// # Safety
/// Every bit pattern is a valid value.
pub(super) unsafe trait Entry: Copy {}

// SAFETY: an integer.
unsafe impl Entry for u64 {}
// SAFETY: integers.
unsafe impl Entry for super::layout::RawDescriptor {}
