//! Rows of bits, one for each class, with a summary in front.

use super::{Bit, Full};
use crate::memory::Memory;
use ringside_sys::words::{AtomicU64, Words64};
use std::sync::atomic::Ordering;

/// A class of values of a field: the number of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Class(pub(super) u32);

/// All rows. A row is its summary, a bit for each word that is not 0, and then its words.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    memory: Words64,
    /// Words of a summary.
    summary_words: usize,
    /// Words of a row without its summary.
    words: usize,
}

/// Which classes are in use. The writer's.
#[derive(Debug)]
pub(super) struct Classes {
    classes_max: u32,
    /// Classes that were ever given out.
    used: u32,
    free: Vec<Class>,
    /// Given back since the last reclaim.
    retired: Vec<Class>,
}

/// Classes of a field: a bit each, so that going through all of them reads little memory compared
/// with their rows. Of the writer alone.
#[derive(Debug, Default)]
pub(super) struct ClassSet(Vec<u64>);

impl ClassSet {
    pub(super) fn insert(&mut self, class: Class) {
        let at = class.0 as usize / 64;
        if at >= self.0.len() {
            self.0.resize(at + 1, 0);
        }
        self.0[at] |= 1 << (class.0 % 64);
    }

    pub(super) fn remove(&mut self, class: Class) {
        if let Some(bits) = self.0.get_mut(class.0 as usize / 64) {
            *bits &= !(1 << (class.0 % 64));
        }
    }

    /// In the order of the rows.
    pub(super) fn iter(&self) -> impl Iterator<Item = Class> {
        (0u32..).step_by(64).zip(&self.0).flat_map(|(first, &bits)| {
            let rest = std::iter::successors(Some(bits), |&bits| Some(bits & bits.wrapping_sub(1)));
            rest.take_while(|&bits| bits != 0).map(move |bits| Class(first + bits.trailing_zeros()))
        })
    }
}

/// The row of the live rules.
const LIVE: Class = Class(0);

impl Rows {
    pub(super) fn of(memory: &Memory) -> Rows {
        let summary_words = memory.layout.summary_words;
        let words = memory.layout.row_words - summary_words;
        Rows { memory: memory.rows.clone(), summary_words, words }
    }

    /// The summary and the words of a row.
    #[inline]
    pub(super) fn row(&self, class: Class) -> (&[AtomicU64], &[AtomicU64]) {
        let stride = self.summary_words + self.words;
        let row = &self.memory[class.0 as usize * stride..][..stride];
        row.split_at(self.summary_words)
    }

    /// The row of the rules that count.
    #[inline]
    pub(super) fn live(&self) -> (&[AtomicU64], &[AtomicU64]) {
        self.row(LIVE)
    }

    /// The rule counts from now on; what was written of it before is seen with this.
    pub(super) fn set_live(&self, bit: Bit) {
        self.set(LIVE, bit);
    }

    pub(super) fn clear_live(&self, bit: Bit) {
        self.clear(LIVE, bit);
    }

    pub(super) fn set(&self, class: Class, bit: Bit) {
        self.set_all(std::iter::once(class), bit);
    }

    /// The bit of many rows, which is quickest in the order of the rows.
    pub(super) fn set_all(&self, classes: impl Iterator<Item = Class>, bit: Bit) {
        // Each row is a line of memory that is in no cache: the less there is to do for each, the
        // more of them are on their way at a time.
        let (memory, stride) = (&*self.memory, self.summary_words + self.words);
        let (word, bit) = (bit.0 as usize / 64, 1 << (bit.0 % 64));
        let (above, above_bit) = (word / 64, 1 << (word % 64));
        for class in classes {
            let row = class.0 as usize * stride;
            let at = &memory[row + self.summary_words + word];
            let before = at.load(Ordering::Relaxed);
            at.store(before | bit, Ordering::Release);
            if before == 0 {
                let summary = &memory[row + above];
                let before = summary.load(Ordering::Relaxed);
                summary.store(before | above_bit, Ordering::Release);
            }
        }
    }

    pub(super) fn has(&self, class: Class, bit: Bit) -> bool {
        let word = self.row(class).1[bit.0 as usize / 64].load(Ordering::Relaxed);
        word >> (bit.0 % 64) & 1 != 0
    }

    pub(super) fn clear(&self, class: Class, bit: Bit) {
        self.clear_all(std::iter::once(class), bit);
    }

    /// As [`set_all`](Rows::set_all).
    pub(super) fn clear_all(&self, classes: impl Iterator<Item = Class>, bit: Bit) {
        let (memory, stride) = (&*self.memory, self.summary_words + self.words);
        let (word, bit) = (bit.0 as usize / 64, 1 << (bit.0 % 64));
        let (above, above_bit) = (word / 64, 1 << (word % 64));
        for class in classes {
            let row = class.0 as usize * stride;
            let at = &memory[row + self.summary_words + word];
            let left = at.load(Ordering::Relaxed) & !bit;
            at.store(left, Ordering::Release);
            if left == 0 {
                let summary = &memory[row + above];
                let before = summary.load(Ordering::Relaxed);
                summary.store(before & !above_bit, Ordering::Release);
            }
        }
    }

    /// Gives a row the bits of another, or none.
    fn fill(&self, class: Class, like: Option<Class>) {
        let stride = self.summary_words + self.words;
        let [from, to] = [like.unwrap_or(class), class].map(|class| class.0 as usize * stride);
        for at in 0..stride {
            let value = match like {
                Some(_) => self.memory[from + at].load(Ordering::Relaxed),
                None => 0,
            };
            self.memory[to + at].store(value, Ordering::Relaxed);
        }
    }
}

impl Classes {
    pub(super) fn new(classes: u32) -> Classes {
        let (used, free, retired) = (LIVE.0 + 1, Vec::new(), Vec::new());
        Classes { classes_max: classes + 1, used, free, retired }
    }

    fn take(&mut self) -> Result<Class, Full> {
        match self.free.pop() {
            Some(class) => Ok(class),
            None if self.used < self.classes_max => {
                self.used += 1;
                Ok(Class(self.used - 1))
            }
            None => Err(Full::Classes),
        }
    }

    /// Nothing leads to this class any more; readers may still be on it.
    pub(super) fn retire(&mut self, class: Class) {
        self.retired.push(class);
    }

    /// Frees what was retired: no reader is in it any more.
    pub(super) fn reclaim(&mut self) {
        self.free.append(&mut self.retired);
    }
}

/// What every change of a field needs: the rows, and which of them are in use.
#[derive(Debug)]
pub(super) struct Books<'t> {
    pub(super) rows: &'t Rows,
    pub(super) classes: &'t mut Classes,
}

impl Books<'_> {
    /// A class that no reader looks at, with the bits of `like`, or none.
    pub(super) fn take(&mut self, like: Option<Class>) -> Result<Class, Full> {
        let class = self.classes.take()?;
        self.rows.fill(class, like);
        Ok(class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_set_of_classes_is_one() {
        let (mut set, mut model) = (ClassSet::default(), BTreeSet::new());
        for step in 0..2000u32 {
            let class = Class(step.wrapping_mul(0x9e37_79b9) >> 22);
            if step % 3 == 0 {
                set.remove(class);
                model.remove(&class);
            } else {
                set.insert(class);
                model.insert(class);
            }
            assert!(set.iter().eq(model.iter().copied()), "step {step}");
        }
    }
}
