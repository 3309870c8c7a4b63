//! When flows are to be looked at: a word for each, side by side.

/// Width of a slot, in nanoseconds: records of seconds are late by no more, and all words are
/// looked through no more often.
pub(super) const SLOT_NS: u64 = 500_000_000;

/// Words that are looked at together.
const CHUNK: usize = 64;

/// How far ahead the slot of a place without a flow is, in slots.
const FAR: u32 = 1 << 30;

/// Nothing is changed while packets come: a flow keeps the slot in which it was due when that was
/// set, and the caller to whom it is shown says when it is due by now. So a packet costs nothing,
/// and a slot that has passed a look at four bytes of each flow. A slot in which nothing can be due
/// costs nothing either: a leap of time is not longer than what is due within it.
#[derive(Debug)]
pub(super) struct Dues {
    /// By place: the lower half of a slot's number. Time-outs are short enough that it tells what
    /// has passed from what is to come.
    slots: Vec<u32>,
    /// Slots before this have been looked at.
    next: u64,
    /// In no slot before this is anything due.
    earliest: u64,
}

impl Dues {
    /// Bytes for each flow.
    pub const BYTES: usize = size_of::<u32>();

    pub fn new(flows_max: usize) -> Dues {
        Dues { slots: Vec::with_capacity(flows_max), next: 0, earliest: u64::MAX }
    }

    /// Nothing is there any more; time goes on.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.earliest = u64::MAX;
    }

    /// Says when what lies at a place is due. It is shown when that slot has passed, or the one
    /// that is next if that is later.
    pub fn set(&mut self, at: usize, due_ns: u64) {
        let slot = (due_ns / SLOT_NS).max(self.next);
        self.earliest = self.earliest.min(slot);
        if at == self.slots.len() {
            self.slots.push(slot as u32);
        } else {
            self.slots[at] = slot as u32;
        }
    }

    /// A place has no flow any more.
    pub fn unset(&mut self, at: usize) {
        self.slots[at] = (self.next as u32).wrapping_add(FAR);
    }

    /// True if a slot has passed.
    #[inline]
    pub fn has_passed(&self, now_ns: u64) -> bool {
        now_ns / SLOT_NS > self.next
    }

    /// The next slot that has passed and in which something may be due, and when it ended. All that
    /// is due in it is to be looked for by [`find`](Dues::find) before the next is asked for.
    pub fn next_slot(&mut self, now_ns: u64) -> Option<(u64, u64)> {
        let now = now_ns / SLOT_NS;
        if self.earliest >= now {
            self.next = self.next.max(now);
            return None;
        }
        let slot = std::mem::replace(&mut self.earliest, u64::MAX);
        self.next = slot + 1;
        Some((slot, self.next * SLOT_NS))
    }

    /// The first place from `at` on that is due in this slot. After [`FAR`] slots it may be one
    /// without a flow.
    pub fn find(&mut self, mut at: usize, slot: u64) -> Option<usize> {
        let after = |due: u32| due.wrapping_sub(slot as u32) as i32;
        let least = |dues: &[u32]| dues.iter().fold(i32::MAX, |least, &due| least.min(after(due)));
        while let Some(chunk) = self.slots[at..].chunks(CHUNK).next() {
            let mut later = chunk;
            if least(chunk) <= 0 {
                let found = chunk.iter().position(|&due| after(due) <= 0);
                later = &chunk[..found.unwrap_or(chunk.len())];
            }
            self.earliest = self.earliest.min(slot + u64::from(least(later).unsigned_abs()));
            at += later.len();
            if later.len() < chunk.len() {
                return Some(at);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_testkit::Random;

    /// What is due is shown once, in the slot where it is, whatever time does, and where the lower
    /// half of the number begins anew.
    #[test]
    fn each_is_shown_in_its_slot() {
        for begin in [0, 1_700_000_000 * 2, u64::from(u32::MAX) - 300] {
            let mut random = Random::new(begin);
            let mut dues = Dues::new(500);
            let mut now = begin * SLOT_NS;
            assert_eq!(dues.next_slot(now), None);
            let mut model: Vec<Option<u64>> = Vec::new();
            for _ in 0..300 {
                for _ in 0..random.below(4) {
                    let at = random.below(model.len().min(499) + 1);
                    let slot = now / SLOT_NS + random.below(200) as u64;
                    match model.get_mut(at) {
                        Some(due) if random.below(4) == 0 => {
                            *due = None;
                            dues.unset(at);
                            continue;
                        }
                        Some(due) => *due = Some(slot),
                        None => model.push(Some(slot)),
                    }
                    dues.set(at, slot * SLOT_NS + random.below(SLOT_NS as usize) as u64);
                }
                now += random.below(3 * SLOT_NS as usize) as u64;
                if random.below(50) == 0 {
                    now += 400 * SLOT_NS;
                }
                let mut shown = Vec::new();
                while let Some((slot, end)) = dues.next_slot(now) {
                    assert!(end == (slot + 1) * SLOT_NS && end <= now);
                    let mut at = 0;
                    while let Some(found) = dues.find(at, slot) {
                        assert_eq!(model[found].take(), Some(slot));
                        dues.unset(found);
                        (at, shown) = (found, [shown, vec![(slot, found)]].concat());
                    }
                }
                assert!(shown.is_sorted());
                assert!(model.iter().flatten().all(|&slot| slot >= now / SLOT_NS));
            }
        }
    }
}
