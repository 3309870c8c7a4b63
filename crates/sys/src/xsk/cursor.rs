//! The protocol of a ring that this process and the kernel share (net/xdp/xsk_queue.h), apart from
//! where the ring lies, so that it can be model-checked.
//!
//! One side produces entries, the other consumes them. Each owns one index word, which counts
//! entries since the ring was made and wraps at 2^32; the other side only reads it. The producer
//! writes its entries before it stores its index with release order; the consumer loads that index
//! with acquire order before it reads them, and stores its own with release order when it has. A
//! side keeps what it last saw of the other's index, so that the shared word is loaded only when
//! that does not suffice: once for many entries.

#[cfg(feature = "loom")]
pub(super) use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(feature = "loom"))]
pub(super) use std::sync::atomic::{AtomicU32, Ordering};

/// The two index words of a ring.
#[derive(Clone, Copy)]
pub(super) struct Words<'r> {
    pub(super) producer: &'r AtomicU32,
    pub(super) consumer: &'r AtomicU32,
}

/// Where the consumer of a ring is.
#[derive(Debug)]
pub(super) struct ConsumerCursor {
    /// The next entry to consume.
    next: u32,
    /// The producer's index as last seen.
    produced: u32,
    size: u32,
}

impl ConsumerCursor {
    /// At the start of a new ring of `size` entries, a power of two.
    pub(super) fn new(size: u32) -> ConsumerCursor {
        assert!(size.is_power_of_two(), "the kernel makes no other ring");
        ConsumerCursor { next: 0, produced: 0, size }
    }

    /// In an empty ring that `passed` entries have passed through.
    #[cfg(test)]
    pub(super) fn after(passed: u32, size: u32) -> ConsumerCursor {
        ConsumerCursor { next: passed, produced: passed, ..ConsumerCursor::new(size) }
    }

    /// How many entries can be read from [`slot`](Self::slot)`(0)` on, at most `wanted`.
    #[inline]
    pub(super) fn ready(&mut self, words: Words<'_>, wanted: u32) -> u32 {
        let mut ready = self.produced.wrapping_sub(self.next);
        if ready < wanted {
            // Acquire: the entries are read after the index that covers them.
            self.produced = words.producer.load(Ordering::Acquire);
            ready = self.produced.wrapping_sub(self.next);
        }
        // More than the ring holds is an index that no producer stores: what is there then is
        // checked entry by entry like any other.
        ready.min(wanted).min(self.size)
    }

    /// Entries that wait, by the producer's index as last seen.
    pub(super) fn waiting(&self) -> u32 {
        self.produced.wrapping_sub(self.next).min(self.size)
    }

    /// Entries of the ring.
    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// Place in the ring of the entry `ahead` of the next one.
    #[inline]
    pub(super) fn slot(&self, ahead: u32) -> usize {
        (self.next.wrapping_add(ahead) & (self.size - 1)) as usize
    }

    /// Gives the next `count` entries back to the producer; they have been read.
    #[inline]
    pub(super) fn release(&mut self, words: Words<'_>, count: u32) {
        self.next = self.next.wrapping_add(count);
        // Release: the entries were read before the producer may write them again.
        words.consumer.store(self.next, Ordering::Release);
    }
}

/// Where the producer of a ring is.
#[derive(Debug)]
pub(super) struct ProducerCursor {
    /// The next entry to write.
    next: u32,
    /// The consumer's index as last seen.
    consumed: u32,
    size: u32,
}

impl ProducerCursor {
    /// At the start of a new ring of `size` entries, a power of two.
    pub(super) fn new(size: u32) -> ProducerCursor {
        assert!(size.is_power_of_two(), "the kernel makes no other ring");
        ProducerCursor { next: 0, consumed: 0, size }
    }

    /// In an empty ring that `passed` entries have passed through.
    #[cfg(test)]
    pub(super) fn after(passed: u32, size: u32) -> ProducerCursor {
        ProducerCursor { next: passed, consumed: passed, ..ProducerCursor::new(size) }
    }

    /// How many entries can be written from [`slot`](Self::slot)`(0)` on, at most `wanted`.
    #[inline]
    pub(super) fn free(&mut self, words: Words<'_>, wanted: u32) -> u32 {
        let mut free = self.size - self.filled();
        if free < wanted {
            self.look(words);
            free = self.size - self.filled();
        }
        free.min(wanted)
    }

    /// Entries that the consumer has not consumed yet, by its index as last seen.
    #[inline]
    pub(super) fn filled(&self) -> u32 {
        self.next.wrapping_sub(self.consumed).min(self.size)
    }

    /// Looks how far the consumer has come.
    #[inline]
    pub(super) fn look(&mut self, words: Words<'_>) {
        // Acquire: the consumer read the entries before they are written again.
        self.consumed = words.consumer.load(Ordering::Acquire);
    }

    /// Place in the ring of the entry `ahead` of the next one.
    #[inline]
    pub(super) fn slot(&self, ahead: u32) -> usize {
        (self.next.wrapping_add(ahead) & (self.size - 1)) as usize
    }

    /// Shows the next `count` entries to the consumer; they have been written.
    #[inline]
    pub(super) fn publish(&mut self, words: Words<'_>, count: u32) {
        self.next = self.next.wrapping_add(count);
        // Release: the entries were written before the index that covers them.
        words.producer.store(self.next, Ordering::Release);
    }
}
