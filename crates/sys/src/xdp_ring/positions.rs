//! The protocol of a driver ring, apart from where it lies, so that it can be model-checked.
//!
//! Positions count bytes since the start. The program writes a record and then stores `head` behind
//! it with release order (`bpf/xdp_ring.bpf.c`); the reader loads it with acquire order before it
//! reads. It stores `tail` with release order behind what it has read, and the program loads that
//! before it writes there again: its writes depend on what it loaded.

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicU64, Ordering};

/// The two positions of a ring.
#[derive(Clone, Copy)]
pub(super) struct Words<'r> {
    pub(super) head: &'r AtomicU64,
    pub(super) tail: &'r AtomicU64,
}

/// Where the reader is.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// What was taken: from here, and to here.
    pub(super) begin: u64,
    pub(super) end: u64,
    /// The program's position as last seen.
    pub(super) head_seen: u64,
}

impl Reader {
    /// Looks at the program's position. False if it is none that the program stores in a ring of
    /// `ring_bytes` bytes: then it is left as it was.
    #[inline]
    pub(super) fn look(&mut self, words: Words<'_>, ring_bytes: u64, align: u64) -> bool {
        let head = words.head.load(Ordering::Acquire);
        let is_possible = head.wrapping_sub(self.end) <= ring_bytes && head.is_multiple_of(align);
        if is_possible {
            self.head_seen = head;
        }
        is_possible
    }

    /// Gives back what was taken.
    #[inline]
    pub(super) fn give_back(&mut self, words: Words<'_>) {
        if self.begin != self.end {
            self.begin = self.end;
            // Our reads of those bytes come before the program's next writes.
            words.tail.store(self.end, Ordering::Release);
        }
    }

    /// Bytes that were seen and not taken.
    #[inline]
    pub(super) fn waiting(&self) -> u64 {
        self.head_seen - self.end
    }
}

#[cfg(loom)]
#[cfg(test)]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// Records of one byte, as many as there are places, and some more.
    const PLACES: u64 = 2;
    const RECORDS: u64 = 4;

    struct Ring {
        head: AtomicU64,
        tail: AtomicU64,
        places: Vec<UnsafeCell<u64>>,
    }

    impl Ring {
        fn words(&self) -> Words<'_> {
            Words { head: &self.head, tail: &self.tail }
        }

        /// The program, which drops what it has no room for: here it tries again.
        fn put(&self, value: u64, tail_seen: &mut u64) -> bool {
            let head = self.head.load(Ordering::Relaxed);
            if head + 1 - *tail_seen > PLACES {
                // Acquire stands for the dependency of its writes on this load.
                *tail_seen = self.tail.load(Ordering::Acquire);
                if head + 1 - *tail_seen > PLACES {
                    return false;
                }
            }
            // SAFETY: loom reports a use of the place that this one is not ordered with.
            self.places[(head % PLACES) as usize].with_mut(|place| unsafe { *place = value });
            self.head.store(head + 1, Ordering::Release);
            true
        }
    }

    #[test]
    fn loom_records_are_read_once_in_order_and_not_written_over() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let ring = Arc::new(Ring {
                head: AtomicU64::new(0),
                tail: AtomicU64::new(0),
                places: (0..PLACES).map(|_| UnsafeCell::new(u64::MAX)).collect(),
            });
            let program = {
                let ring = ring.clone();
                thread::spawn(move || {
                    let (mut next, mut tail_seen) = (0, 0);
                    while next < RECORDS {
                        match ring.put(next, &mut tail_seen) {
                            true => next += 1,
                            false => thread::yield_now(),
                        }
                    }
                })
            };
            let (mut reader, mut next) = (Reader::default(), 0);
            while next < RECORDS {
                reader.give_back(ring.words());
                assert!(reader.look(ring.words(), PLACES, 1));
                if reader.waiting() == 0 {
                    thread::yield_now();
                }
                while reader.waiting() > 0 {
                    let place = &ring.places[(reader.end % PLACES) as usize];
                    // SAFETY: as in `put`.
                    assert_eq!(place.with(|place| unsafe { *place }), next);
                    reader.end += 1;
                    next += 1;
                }
            }
            program.join().unwrap();
        });
    }
}
