//! The protocol of a driver ring, apart from where it lies, so that it can be model-checked.
//!
//! Records are written in *laps*, each from some place on, and a position is the number of a lap in
//! its upper half and a place in the lower: later positions are greater, but laps are numbered
//! round and round. The end of a lap is a record that says where the next begins.
//!
//! The program writes a record and then stores `head` behind it with release order
//! (`bpf/xdp_ring.bpf.c`); the reader loads it with acquire order before it reads. It stores `tail`
//! with release order behind what it has read, and the program loads that before it writes there
//! again: its writes depend on what it loaded.

#[cfg(feature = "loom")]
pub(super) use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(feature = "loom"))]
pub(super) use std::sync::atomic::{AtomicU64, Ordering};

/// The two positions of a ring.
#[derive(Clone, Copy)]
pub(super) struct Words<'r> {
    pub(super) head: &'r AtomicU64,
    pub(super) tail: &'r AtomicU64,
}

/// The reader is in one lap while the program begins the next three: one back, one ahead, and one
/// that goes round.
const LAPS_AHEAD_MAX: u32 = 3;

/// Where in the records a position is.
pub(super) fn place(position: u64) -> u64 {
    position & u64::from(u32::MAX)
}

/// Which lap it is in.
fn lap(position: u64) -> u32 {
    (position >> 32) as u32
}

/// How many laps `later` is ahead of `earlier`.
fn laps_ahead(later: u64, earlier: u64) -> u32 {
    lap(later).wrapping_sub(lap(earlier))
}

/// False if both are in one lap and `later` is the earlier place.
fn is_not_before(later: u64, earlier: u64) -> bool {
    laps_ahead(later, earlier) > 0 || place(later) >= place(earlier)
}

/// Where the lap behind that of a position begins.
pub(super) fn next_lap(position: u64, place: u32) -> u64 {
    (u64::from(lap(position).wrapping_add(1)) << 32) | u64::from(place)
}

/// Where the reader is.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// What was taken, in one lap: from here, and to here.
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
        let is_possible = laps_ahead(head, self.end) <= LAPS_AHEAD_MAX
            && is_not_before(head, self.end)
            && place(head) <= ring_bytes
            && head.is_multiple_of(align);
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

    /// Goes on where the next lap begins, when nothing is lent. False if the program has not begun
    /// it: then nothing is done.
    pub(super) fn follow(&mut self, words: Words<'_>, place: u32) -> bool {
        let next = next_lap(self.end, place);
        let has_begun =
            laps_ahead(self.head_seen, self.end) > 0 && is_not_before(self.head_seen, next);
        if has_begun {
            self.end = next;
            self.give_back(words);
        }
        has_begun
    }

    /// True if something was seen and not taken.
    #[inline]
    pub(super) fn has_more(&self) -> bool {
        self.end != self.head_seen
    }

    /// Up to which place this lap's records go, in a ring of `ring_bytes` bytes.
    #[inline]
    pub(super) fn lap_end(&self, ring_bytes: u64) -> u64 {
        match lap(self.head_seen) == lap(self.end) {
            true => place(self.head_seen),
            false => ring_bytes,
        }
    }
}

#[cfg(feature = "loom")]
#[cfg(test)]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::thread;
    use ringside_testkit::by_run;
    use ringside_testkit::driver_ring::{Kind, Program};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64 as Seen, Ordering::Relaxed};

    /// Records of one place, as is the end of a lap.
    const WINDOW: u64 = 3;
    const PLACES: u64 = 6;

    #[derive(Clone, Copy)]
    enum Content {
        Nothing,
        Record(u64),
        LapEnd(u32),
    }

    struct Ring {
        head: AtomicU64,
        tail: AtomicU64,
        places: Vec<UnsafeCell<Content>>,
    }

    impl Ring {
        fn words(&self) -> Words<'_> {
            Words { head: &self.head, tail: &self.tail }
        }

        fn write(&self, position: u64, value: Content) {
            // SAFETY: loom reports a use of the place that this one is not ordered with.
            self.places[place(position) as usize].with_mut(|place| unsafe { *place = value });
        }

        fn read(&self, position: u64) -> Content {
            // SAFETY: as in `write`.
            self.places[place(position) as usize].with(|place| unsafe { *place })
        }

        /// The program, which drops what it has no room for: here it tries again.
        fn put(&self, program: &mut Program, value: u64) -> bool {
            // Acquire stands for the dependency of its writes on this load.
            let tail = || self.tail.load(Ordering::Acquire);
            let found = program.find_room(1, tail, |end| {
                self.write(end.at, Content::LapEnd(end.place));
                self.head.store(end.next, Ordering::Release);
            });
            let Some(position) = found else { return false };
            self.write(position, Content::Record(value));
            program.head = position + 1;
            self.head.store(program.head, Ordering::Release);
            true
        }
    }

    /// Every order of the program's and the reader's steps, from a position on: how many laps
    /// began, by kind.
    fn all_orders(start: u64, records: u64) -> [u64; Kind::ALL] {
        let begun: Arc<[Seen; Kind::ALL]> = Arc::default();
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(by_run(1, 2));
        let sum = begun.clone();
        builder.check(move || {
            let ring = loom::sync::Arc::new(Ring {
                head: AtomicU64::new(start),
                tail: AtomicU64::new(start),
                places: (0..PLACES).map(|_| UnsafeCell::new(Content::Nothing)).collect(),
            });
            let program = {
                let (ring, sum) = (ring.clone(), sum.clone());
                thread::spawn(move || {
                    let mut program = Program::new(WINDOW, PLACES, 1, 0).starting_at(start);
                    let mut next = 0;
                    while next < records {
                        match ring.put(&mut program, next) {
                            true => next += 1,
                            false => thread::yield_now(),
                        }
                    }
                    for (sum, begun) in sum.iter().zip(program.begun) {
                        sum.fetch_add(begun, Relaxed);
                    }
                })
            };
            read_all(&ring, Reader { begin: start, end: start, head_seen: start }, records);
            program.join().unwrap();
        });
        std::array::from_fn(|kind| begun[kind].load(Relaxed))
    }

    /// Each record once, in order.
    fn read_all(ring: &Ring, mut reader: Reader, records: u64) {
        let mut next = 0;
        while next < records {
            reader.give_back(ring.words());
            assert!(reader.look(ring.words(), PLACES, 1));
            if !reader.has_more() {
                thread::yield_now();
            }
            while reader.has_more() {
                match ring.read(reader.end) {
                    Content::Record(value) => {
                        assert_eq!(value, next);
                        reader.end += 1;
                        next += 1;
                    }
                    Content::LapEnd(place) => {
                        reader.give_back(ring.words());
                        assert!(reader.follow(ring.words(), place));
                    }
                    Content::Nothing => panic!("it is read before it is written"),
                }
            }
        }
    }

    #[test]
    fn loom_records_are_read_once_in_order_and_not_written_over() {
        let [back, ahead, _, round] = all_orders(0, 6);
        assert!(back.min(ahead).min(round) > 0, "{back} {ahead} {round}");
    }

    /// What was not written before the writer went back is too little for a record.
    #[test]
    fn loom_a_lap_near_the_end_of_the_ring() {
        let [back, _, ahead_at_start, _] = all_orders(PLACES - 1, 5);
        assert!(back.min(ahead_at_start) > 0, "{back} {ahead_at_start}");
    }
}
