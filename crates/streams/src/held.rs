//! What was received of a direction and waits for bytes before it.

use crate::Overlap;
use crate::limits::PIECE_BYTES;
use ringside_core::Timestamp;
use std::collections::VecDeque;

/// Pieces in the order of the stream, none of which overlaps another.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pieces: VecDeque<Piece>,
    /// Memory, as it is counted against the limits.
    memory: usize,
}

/// Bytes that are next to each other.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Sequence number of the first.
    pub start: u32,
    pub bytes: Vec<u8>,
    /// When they came.
    pub stamp: Timestamp,
    /// Bytes behind them that were on the wire and were not captured.
    pub cut: u32,
    /// Where the segment began that they came in.
    origin: u32,
}

/// What came of a segment that was taken in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TakenIn {
    /// Bytes that are held now and were not before.
    pub new: usize,
    /// Bytes that were held already.
    pub repeated: usize,
    /// Of these: other ones.
    pub conflicting: usize,
}

impl Piece {
    fn end(&self) -> u32 {
        self.start.wrapping_add(self.bytes.len() as u32)
    }

    fn memory(&self) -> usize {
        self.bytes.len() + PIECE_BYTES
    }
}

/// A segment ahead of what was handed on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead<'a> {
    pub start: u32,
    pub bytes: &'a [u8],
    pub cut: u32,
    pub stamp: Timestamp,
}

impl Held {
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    pub(crate) fn pieces(&self) -> usize {
        self.pieces.len()
    }

    pub(crate) fn first(&self) -> Option<&Piece> {
        self.pieces.front()
    }

    /// Takes the first piece out.
    pub(crate) fn take_first(&mut self) -> Option<Piece> {
        let piece = self.pieces.pop_front()?;
        self.memory -= piece.memory();
        Some(piece)
    }

    /// Takes a segment in that lies behind `next`, from where all numbers are counted.
    pub(crate) fn take_in(&mut self, ahead: Ahead<'_>, next: u32, overlap: Overlap) -> TakenIn {
        let Ahead { start, bytes, .. } = ahead;
        let place = |number: u32| number.wrapping_sub(next);
        let end = start.wrapping_add(bytes.len() as u32);
        let part = |from: u32, to: u32| {
            let range = from.wrapping_sub(start) as usize..to.wrapping_sub(start) as usize;
            bytes.get(range).unwrap_or_default()
        };
        let mut taken = TakenIn::default();
        let mut index = self.pieces.partition_point(|piece| place(piece.end()) <= place(start));
        let mut from = start;
        while place(from) < place(end) {
            let Some(piece) = self.pieces.get_mut(index).filter(|p| place(p.start) < place(end))
            else {
                break;
            };
            let piece_start = piece.start;
            if place(piece_start) > place(from) {
                self.insert(index, part(from, piece_start), from, &ahead, &mut taken);
                (index, from) = (index + 1, piece_start);
                continue;
            }
            let to = if place(piece.end()) < place(end) { piece.end() } else { end };
            piece.say_again(from, part(from, to), start, next, overlap, &mut taken);
            (index, from) = (index + 1, to);
        }
        if place(from) < place(end) {
            self.insert(index, part(from, end), from, &ahead, &mut taken);
        }
        if ahead.cut > 0
            && let Some(last) = self.pieces.iter_mut().rev().find(|piece| piece.end() == end)
        {
            last.cut = last.cut.max(ahead.cut);
        }
        taken
    }

    fn insert(
        &mut self,
        index: usize,
        bytes: &[u8],
        start: u32,
        ahead: &Ahead<'_>,
        taken: &mut TakenIn,
    ) {
        let (stamp, origin) = (ahead.stamp, ahead.start);
        let piece = Piece { start, bytes: bytes.to_vec(), stamp, cut: 0, origin };
        taken.new += bytes.len();
        self.memory += piece.memory();
        self.pieces.insert(index, piece);
    }
}

impl Piece {
    /// A segment that began at `start` says these bytes again.
    fn say_again(
        &mut self,
        from: u32,
        again: &[u8],
        start: u32,
        next: u32,
        overlap: Overlap,
        taken: &mut TakenIn,
    ) {
        let at = from.wrapping_sub(self.start) as usize;
        let Some(here) = self.bytes.get_mut(at..at + again.len()) else { return };
        taken.repeated += again.len();
        if here == again {
            return;
        }
        taken.conflicting += here.iter().zip(again).filter(|(one, other)| one != other).count();
        let begins_earlier = start.wrapping_sub(next) < self.origin.wrapping_sub(next);
        let counts = match overlap {
            Overlap::First => false,
            Overlap::Leftmost => begins_earlier,
            Overlap::Last => true,
        };
        if counts {
            here.copy_from_slice(again);
        }
    }
}
