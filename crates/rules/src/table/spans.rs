//! A field with few values, as ports and protocols: an array from value to class.

use super::rows::{Books, Class};
use super::{Bit, Full};
use crate::memory::NODE_ENTRIES;
use ringside_sys::words::Words32;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Values from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Lowest value.
    pub first: u32,
    /// Highest value.
    pub last: u32,
}

/// Classes by value: what readers look at.
#[derive(Clone, Debug)]
pub(super) struct Values {
    nodes: Words32,
    /// First entry.
    at: usize,
    /// One more than the last value.
    end: u32,
}

/// Where a class begins, and how many spans begin or have just ended there. The writer's.
#[derive(Debug)]
pub(super) struct Spans {
    pieces: BTreeMap<u32, Piece>,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    class: Class,
    borders: u32,
}

/// One side of a border.
#[derive(Clone, Copy, Debug)]
enum Part {
    Before,
    Behind,
}

impl Values {
    /// The values from 0 to `last`, from a node on.
    pub(super) fn new(nodes: &Words32, node: usize, last: u32) -> Values {
        Values { nodes: nodes.clone(), at: node * NODE_ENTRIES, end: last + 1 }
    }

    /// The class of a value; values beyond the last fall into its class.
    #[inline]
    pub(super) fn class(&self, value: u32) -> Class {
        let at = self.at + value.min(self.end - 1) as usize;
        Class(self.nodes[at].load(Ordering::Acquire))
    }

    /// The value after a span; none if it holds no value.
    fn after(&self, span: Span) -> Option<u32> {
        let is_there = span.first <= span.last && span.first < self.end;
        is_there.then(|| span.last.saturating_add(1).min(self.end))
    }

    /// Leads values to a class.
    fn lead(&self, first: u32, end: u32, class: Class) {
        for entry in &self.nodes[self.at + first as usize..self.at + end as usize] {
            entry.store(class.0, Ordering::Release);
        }
    }
}

impl Spans {
    /// All values fall into one class.
    pub(super) fn new(books: &mut Books<'_>, values: &Values) -> Result<Spans, Full> {
        let class = books.take(None)?;
        values.lead(0, values.end, class);
        Ok(Spans { pieces: BTreeMap::from([(0, Piece { class, borders: 1 })]) })
    }

    /// Has the rule `bit` accept the values of `span`.
    pub(super) fn add(
        &mut self,
        books: &mut Books<'_>,
        values: &Values,
        span: Span,
        bit: Bit,
    ) -> Result<(), Full> {
        let Some(after) = values.after(span) else { return Ok(()) };
        self.open(books, values, span.first, Part::Behind)?;
        if let Err(full) = self.open(books, values, after, Part::Before) {
            self.close(books, values, span.first);
            return Err(full);
        }
        for (_, piece) in self.pieces.range(span.first..after) {
            books.rows.set(piece.class, bit);
        }
        Ok(())
    }

    /// Takes away what [`add`](Spans::add) did, if it did.
    pub(super) fn remove(&mut self, books: &mut Books<'_>, values: &Values, span: Span, bit: Bit) {
        let Some(after) = values.after(span) else { return };
        let mut was_set = false;
        for (_, piece) in self.pieces.range(span.first..after) {
            was_set |= books.rows.has(piece.class, bit);
            books.rows.clear(piece.class, bit);
        }
        if was_set {
            self.close(books, values, span.first);
            self.close(books, values, after);
        }
    }

    /// Has a class begin at `value`. Of the two `part` is new: the one that a rule is about to
    /// accept, because a reader that has looked up a value of the other may still be on the
    /// old one.
    fn open(
        &mut self,
        books: &mut Books<'_>,
        values: &Values,
        value: u32,
        part: Part,
    ) -> Result<(), Full> {
        if value == values.end {
            return Ok(());
        }
        let (&start, &piece) = self.pieces.range(..=value).next_back().expect("0 is there");
        if start == value {
            self.pieces.insert(value, Piece { borders: piece.borders + 1, ..piece });
            return Ok(());
        }
        let class = books.take(Some(piece.class))?;
        let end = self.end_of(value, values);
        match part {
            Part::Behind => {
                self.pieces.insert(value, Piece { class, borders: 1 });
                values.lead(value, end, class);
            }
            Part::Before => {
                self.pieces.insert(value, Piece { borders: 1, ..piece });
                self.pieces.insert(start, Piece { class, ..piece });
                values.lead(start, value, class);
            }
        }
        Ok(())
    }

    /// One border at `value` less; the last has the class before it go on.
    fn close(&mut self, books: &mut Books<'_>, values: &Values, value: u32) {
        let Some(piece) = self.pieces.get_mut(&value) else { return };
        piece.borders -= 1;
        let (class, borders) = (piece.class, piece.borders);
        if borders > 0 {
            return;
        }
        self.pieces.remove(&value);
        let (_, before) = self.pieces.range(..value).next_back().expect("0 stays");
        values.lead(value, self.end_of(value, values), before.class);
        books.classes.retire(class);
    }

    /// Where the piece ends that `value` lies in.
    fn end_of(&self, value: u32, values: &Values) -> u32 {
        self.pieces.range(value + 1..).next().map_or(values.end, |(&at, _)| at)
    }
}
