//! A payload that lies in one or many pieces.

use ringside_wire::checksum::{self, Sum};
use std::cell::Cell;
use std::ops::Range;

/// Part of a payload within one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Index of the piece.
    pub piece: usize,
    /// Bytes of the piece; never empty.
    pub range: Range<usize>,
}

/// A payload in pieces, in order. It remembers where it was last, so that going through it in order
/// costs the same for one piece and for many.
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    pieces: &'a [&'a [u8]],
    bytes: usize,
    /// A piece, and the bytes before it.
    place: Cell<(usize, usize)>,
}

impl<'a> Pieces<'a> {
    /// The payload that `pieces` are together; some may be empty.
    pub fn new(pieces: &'a [&'a [u8]]) -> Pieces<'a> {
        let bytes = pieces.iter().map(|piece| piece.len()).sum();
        Pieces { pieces, bytes, place: Cell::new((0, 0)) }
    }

    /// Bytes of all pieces.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where the bytes `range` of the payload lie; less where the payload ends before.
    pub fn parts(&self, range: Range<usize>) -> impl Iterator<Item = Part> + use<'a> {
        let pieces = self.pieces;
        let (mut index, mut before) = self.place.get();
        if before > range.start {
            (index, before) = (0, 0);
        }
        while let Some(piece) = pieces.get(index)
            && before + piece.len() <= range.start
        {
            before += piece.len();
            index += 1;
        }
        self.place.set((index, before));
        let mut at = range.start;
        std::iter::from_fn(move || {
            while at < range.end {
                let (piece, length) = (index, pieces.get(index)?.len());
                let part = at - before..length.min(range.end - before);
                at = before + part.end;
                before += length;
                index += 1;
                if !part.is_empty() {
                    return Some(Part { piece, range: part });
                }
            }
            None
        })
    }

    /// The bytes `range` of the payload, in order.
    pub fn slices(&self, range: Range<usize>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let pieces = self.pieces;
        self.parts(range).map(move |part| &pieces[part.piece][part.range])
    }

    /// Their sum for a checksum.
    pub fn sum(&self, range: Range<usize>) -> Sum {
        let sums = self.slices(range).map(|slice| (slice.len(), Sum::new().bytes(slice)));
        joined(sums)
    }

    /// Copies them to the start of `to`, as far as there is room.
    pub fn copy(&self, range: Range<usize>, mut to: &mut [u8]) {
        for slice in self.slices(range) {
            let (here, rest) = to.split_at_mut(slice.len().min(to.len()));
            here.copy_from_slice(&slice[..here.len()]);
            to = rest;
        }
    }

    /// The same, and their sum: the bytes are read once.
    pub fn copy_and_sum(&self, range: Range<usize>, mut to: &mut [u8]) -> Sum {
        joined(self.slices(range).map(|slice| {
            let bytes = slice.len().min(to.len());
            let (here, rest) = std::mem::take(&mut to).split_at_mut(bytes);
            to = rest;
            (bytes, checksum::copy_and_sum(here, slice))
        }))
    }
}

/// Sums of pieces with their lengths, each put where it belongs.
fn joined(sums: impl Iterator<Item = (usize, Sum)>) -> Sum {
    let (mut all, mut is_odd) = (Sum::new(), false);
    for (bytes, sum) in sums {
        all = all.plus(if is_odd { sum.swapped() } else { sum });
        is_odd ^= bytes % 2 == 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_in_any_order_and_skip_empty_pieces() {
        let pieces: [&[u8]; 5] = [b"abc", b"", b"d", b"", b"efgh"];
        let pieces = Pieces::new(&pieces);
        let text = |range: Range<usize>| pieces.slices(range).collect::<Vec<_>>().concat();
        assert_eq!(pieces.bytes(), 8);
        for (range, expected) in
            [(0..8, "abcdefgh"), (2..5, "cde"), (7..20, "h"), (0..1, "a"), (3..4, "d"), (8..9, "")]
        {
            assert_eq!(text(range.clone()), expected.as_bytes(), "{range:?}");
        }
        let part = |piece, range| Part { piece, range };
        let found: Vec<Part> = pieces.parts(2..5).collect();
        assert_eq!(found, [part(0, 2..3), part(2, 0..1), part(4, 0..1)]);
        assert_eq!(Pieces::new(&[]).sum(0..5), Sum::new());
    }

    #[test]
    fn a_copy_into_less_room_ends_there() {
        let pieces: [&[u8]; 2] = [b"abc", b"defg"];
        let mut to = [0; 5];
        Pieces::new(&pieces).copy(0..7, &mut to);
        assert_eq!(&to, b"abcde");
    }
}
