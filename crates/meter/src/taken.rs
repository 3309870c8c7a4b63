//! What was taken of each entry: in memory that outlives the process, if another one has it open.

use ringside_ebpf::flows::abi::{Entry, TAKEN_WORDS, halves};
use ringside_sys::words::Words64;
use std::sync::atomic::Ordering;

/// Sums of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums3 {
    pub packets: u64,
    pub octets: u64,
    pub ip_octets: u64,
}

impl Sums3 {
    pub fn of(entry: &Entry) -> Sums3 {
        let Entry { packets, octets, ip_octets, .. } = *entry;
        Sums3 { packets, octets, ip_octets }
    }

    /// What came since `before`.
    pub fn since(&self, before: &Sums3) -> Sums3 {
        Sums3 {
            packets: self.packets.wrapping_sub(before.packets),
            octets: self.octets.wrapping_sub(before.octets),
            ip_octets: self.ip_octets.wrapping_sub(before.ip_octets),
        }
    }
}

/// What was taken of a place: all of the generations before, and this of the present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub generation: u32,
    pub sums: Sums3,
}

/// Of all places, `struct flow_taken`. Each has two slots: a new value goes over the older one, its
/// number last, so that a process that dies in between leaves the other one as it was.
pub(crate) struct AllTaken {
    words: Words64,
}

const SLOT_WORDS: usize = TAKEN_WORDS / 2;

impl AllTaken {
    pub fn new(words: Words64) -> AllTaken {
        AllTaken { words }
    }

    /// Of a place; where nothing was taken, its first generation is the present one.
    pub fn get(&self, place: usize) -> Taken {
        let at = place * TAKEN_WORDS + self.valid(place).0 * SLOT_WORDS;
        let word = |more: usize| self.words[at + more].load(Ordering::Relaxed);
        let sums = Sums3 { packets: word(1), octets: word(2), ip_octets: word(3) };
        Taken { generation: halves(word(0))[0].max(1), sums }
    }

    pub fn set(&self, place: usize, taken: Taken) {
        let (valid, number) = self.valid(place);
        let at = place * TAKEN_WORDS + (1 - valid) * SLOT_WORDS;
        let Sums3 { packets, octets, ip_octets } = taken.sums;
        for (more, word) in [packets, octets, ip_octets].into_iter().enumerate() {
            self.words[at + 1 + more].store(word, Ordering::Relaxed);
        }
        self.words[at].store(join(taken.generation, number.wrapping_add(1)), Ordering::Release);
    }

    /// The slot that is valid, and its number.
    fn valid(&self, place: usize) -> (usize, u32) {
        let number = |slot: usize| {
            let word = &self.words[place * TAKEN_WORDS + slot * SLOT_WORDS];
            halves(word.load(Ordering::Acquire))[1]
        };
        let (first, second) = (number(0), number(1));
        let is_second = (second.wrapping_sub(first) as i32) > 0;
        if is_second { (1, second) } else { (0, first) }
    }
}

fn join(generation: u32, number: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (generation.to_ne_bytes(), number.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_was_not_finished_is_not_there() {
        let words = Words64::zeroed(2 * TAKEN_WORDS).unwrap();
        let all = AllTaken::new(words.clone());
        assert_eq!(all.get(1), Taken { generation: 1, sums: Sums3::default() });
        let sums = |n: u64| Sums3 { packets: n, octets: 2 * n, ip_octets: 3 * n };
        for n in 1..9 {
            let before = all.get(1);
            let value = Taken { generation: n as u32 / 3 + 1, sums: sums(n) };
            all.set(1, value);
            assert_eq!(all.get(1), value);
            // As if the process had died before the number was written.
            let (valid, number) = all.valid(1);
            let at = TAKEN_WORDS + valid * SLOT_WORDS;
            let word = words[at].load(Ordering::Relaxed);
            words[at].store(join(77, number.wrapping_sub(2)), Ordering::Relaxed);
            assert_eq!(all.get(1), before);
            words[at].store(word, Ordering::Relaxed);
        }
        assert_eq!(all.get(0).sums, Sums3::default());
    }
}
