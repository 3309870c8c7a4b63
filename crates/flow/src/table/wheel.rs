//! Which entries are to be looked at when: a wheel of lists, whose links lie in the entries.

/// Width of a slot, in nanoseconds: ten times a second is often enough for records of seconds.
const SLOT_NS: u64 = 100_000_000;

/// Slots: 204.8 s. What is due later lies in the last and is then put further on.
const SLOTS: usize = 2_048;

/// No entry, at the end of a list.
const NONE: u32 = u32::MAX;

/// Of a link: the rest is the slot whose list begins here. Entries have lower numbers.
const IS_SLOT: u32 = 1 << 31;

/// The links of one entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    before: u32,
    after: u32,
}

impl Links {
    /// Of an entry that is in no list.
    pub const NONE: Links = Links { before: NONE, after: NONE };
}

/// Nothing is moved while packets come: an entry lies where it was due when it was put there, and
/// the caller that takes it out says when it is due by now. So a packet costs the wheel nothing.
#[derive(Debug)]
pub(super) struct Wheel {
    heads: Box<[u32]>,
    links: Vec<Links>,
    /// The next slot to be looked at, counted from time 0.
    next: u64,
}

impl Wheel {
    /// Bytes of the slots.
    pub const BYTES: usize = SLOTS * size_of::<u32>();

    pub fn new(entries_max: usize) -> Wheel {
        let heads = vec![NONE; SLOTS].into();
        Wheel { heads, links: Vec::with_capacity(entries_max), next: 0 }
    }

    /// One more entry, in no list.
    pub fn push(&mut self) {
        self.links.push(Links::NONE);
    }

    /// Puts an entry that is in no list where it is due.
    pub fn put(&mut self, entry: u32, due_ns: u64) {
        let last = self.next + SLOTS as u64 - 1;
        // Due when the slot has passed.
        let slot = ((due_ns / SLOT_NS).clamp(self.next, last) % SLOTS as u64) as usize;
        let after = std::mem::replace(&mut self.heads[slot], entry);
        self.links[entry as usize] = Links { before: IS_SLOT | slot as u32, after };
        if after != NONE {
            self.links[after as usize].before = entry;
        }
    }

    /// Takes an entry out of its list.
    pub fn take(&mut self, entry: u32) {
        let Links { before, after } =
            std::mem::replace(&mut self.links[entry as usize], Links::NONE);
        if after != NONE {
            self.links[after as usize].before = before;
        }
        match before {
            NONE => {}
            before if before & IS_SLOT != 0 => self.heads[(before & !IS_SLOT) as usize] = after,
            before => self.links[before as usize].after = after,
        }
    }

    /// Begins at this time, while there is no entry.
    pub fn begin(&mut self, now_ns: u64) {
        self.next = now_ns / SLOT_NS;
    }

    /// True if a slot has passed.
    #[inline]
    pub fn has_passed(&self, now_ns: u64) -> bool {
        now_ns / SLOT_NS > self.next
    }

    /// Takes out the next entry of a slot that has passed, and says when that slot ended. After
    /// `None` all have been looked at. An entry may be put back meanwhile: it comes again if it is
    /// due by then.
    pub fn pop(&mut self, now_ns: u64) -> Option<(u32, u64)> {
        while self.has_passed(now_ns) {
            let head = self.heads[(self.next % SLOTS as u64) as usize];
            if head != NONE {
                self.take(head);
                return Some((head, (self.next + 1) * SLOT_NS));
            }
            self.next += 1;
        }
        None
    }
}
