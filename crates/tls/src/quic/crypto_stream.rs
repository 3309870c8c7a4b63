//! What one end says in CRYPTO frames: pieces in any order, and the handshake messages of which
//! they are (RFC 9000 section 19.6).

use crate::limits::{CRYPTO_PIECES_MAX, MESSAGE_BYTES_MAX};
use std::ops::Range;

/// More than a handshake takes: further ahead, or in more pieces.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Beyond;

/// The bytes of a direction, from the first.
#[derive(Debug, Default)]
pub(crate) struct CryptoStream {
    bytes: Vec<u8>,
    /// Which of them are there: in order, and apart from each other.
    there: Vec<Range<usize>>,
    /// Bytes that messages were read of.
    read: usize,
}

/// Bytes before a message: its type and length.
const HEADER_BYTES: usize = 4;

impl CryptoStream {
    /// Memory that is kept.
    pub fn kept(&self) -> usize {
        self.bytes.len() + self.there.len() * size_of::<Range<usize>>()
    }

    /// Takes a piece in. What is there already stays as it is.
    pub fn take_in(&mut self, offset: u64, piece: &[u8]) -> Result<(), Beyond> {
        let start = usize::try_from(offset).map_err(|_| Beyond)?;
        let end = start.checked_add(piece.len()).filter(|end| *end <= MESSAGE_BYTES_MAX);
        let end = end.ok_or(Beyond)?;
        if piece.is_empty() {
            return Ok(());
        }
        if end > self.bytes.len() {
            self.bytes.resize(end, 0);
        }
        let mut at = start;
        for range in self.there.iter().filter(|range| range.end > start && range.start < end) {
            let until = range.start.max(at);
            self.bytes[at..until].copy_from_slice(&piece[at - start..until - start]);
            at = range.end.min(end);
        }
        self.bytes[at..end].copy_from_slice(&piece[at - start..]);
        let mut whole = start..end;
        self.there.retain(|range| {
            let is_apart = range.end < whole.start || range.start > whole.end;
            if !is_apart {
                whole = range.start.min(whole.start)..range.end.max(whole.end);
            }
            is_apart
        });
        let place = self.there.partition_point(|range| range.end < whole.start);
        self.there.insert(place, whole);
        if self.there.len() > CRYPTO_PIECES_MAX { Err(Beyond) } else { Ok(()) }
    }

    /// The next message that is whole: its type and body.
    pub fn next_message(&mut self) -> Option<(u8, &[u8])> {
        let first = self.there.first().filter(|range| range.start == 0)?;
        let rest = self.bytes.get(self.read..first.end)?;
        let (&[kind, a, b, c], body) = rest.split_first_chunk()?;
        let bytes = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        let body = body.get(..bytes)?;
        self.read += HEADER_BYTES + bytes;
        Some((kind, body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_testkit::Random;

    #[test]
    fn messages_are_the_same_however_pieces_come() {
        let mut said = vec![1, 0, 1, 44];
        said.extend((0..300_u32).map(|n| n as u8));
        said.extend([2, 0, 0, 3, 7, 8, 9, 4, 0]);
        let mut random = Random::new(1);
        for _ in 0..300 {
            let (mut stream, mut found) = (CryptoStream::default(), Vec::new());
            let mut missing = vec![true; said.len()];
            while missing.contains(&true) {
                let start = random.below(said.len());
                let end = (start + random.below(80)).min(said.len());
                missing[start..end].fill(false);
                stream.take_in(start as u64, &said[start..end]).unwrap();
                while let Some((kind, body)) = stream.next_message() {
                    found.push((kind, body.to_vec()));
                }
            }
            let expected = [(1, said[4..304].to_vec()), (2, vec![7, 8, 9])];
            assert_eq!(found, expected);
            assert!(stream.there.iter().eq(std::iter::once(&(0..said.len()))));
        }
    }

    #[test]
    fn what_came_first_counts_and_too_much_is_refused() {
        let mut stream = CryptoStream::default();
        stream.take_in(5, b"abc").unwrap();
        stream.take_in(0, &[1, 0, 0, 8]).unwrap();
        stream.take_in(4, b"........").unwrap();
        assert_eq!(stream.next_message(), Some((1, &b".abc...."[..])));
        let most = MESSAGE_BYTES_MAX as u64;
        assert_eq!(stream.take_in(most, b""), Ok(()));
        for far in [most, u64::MAX] {
            assert_eq!(stream.take_in(far, b"a"), Err(Beyond));
        }
        let mut pieces = (0..).map(|n| stream.take_in(100 + 2 * n, b"a"));
        assert!(pieces.by_ref().take(CRYPTO_PIECES_MAX - 1).all(|piece| piece.is_ok()));
        assert_eq!(pieces.next(), Some(Err(Beyond)));
    }
}
