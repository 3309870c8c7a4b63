//! Which borders of ring blocks are borders of records too, as they all are in a sound file.

/// Follows the reading of a file of a recording up to the first border that lies within a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Borders {
    first: u64,
    step: u64,
    /// The border that comes next, or lies within a record.
    next: u64,
}

impl Borders {
    /// Ring blocks of `step` bytes from `first` on, of which `known` are passed.
    pub(crate) fn new(first: u64, step: u64, known: u64) -> Borders {
        Borders { first, step, next: first.saturating_add(step.saturating_mul(known)) }
    }

    /// Ring blocks that lie between borders that were met.
    pub(crate) fn blocks(&self) -> u64 {
        (self.next - self.first).saturating_sub(1) / self.step
    }

    /// The first border behind `offset`.
    pub(crate) fn after(&self, offset: u64) -> u64 {
        match offset.checked_sub(self.first) {
            None => self.first,
            Some(since) => self.first.saturating_add((since / self.step + 1) * self.step),
        }
    }

    /// A record begins or the file ends at `offset`.
    #[inline]
    pub(super) fn note(&mut self, offset: u64) {
        if offset == self.next {
            self.next = self.next.saturating_add(self.step);
        }
    }

    /// Every border from `start` to `end` becomes one of records.
    pub(crate) fn fix(&mut self, start: u64, end: u64) {
        if (start..=end).contains(&self.next) {
            self.next = self.after(end);
        }
    }
}
