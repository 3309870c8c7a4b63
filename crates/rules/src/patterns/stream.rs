//! A flow's segments, one after the other.

use super::Text;
use crate::language::limits::PATTERN_BYTES_MAX;

/// Bytes from either side of a border that a pattern across it may have.
const SIDE_BYTES_MAX: usize = PATTERN_BYTES_MAX - 1;

/// What is kept of a flow between its segments: its last bytes, fewer than the longest pattern has,
/// and how many there were.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    pub(super) last: Vec<u8>,
    position: u64,
}

impl Stream {
    /// A flow of which no byte was seen yet.
    pub fn new() -> Stream {
        Stream::default()
    }

    /// Bytes of the flow so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// So many bytes of the flow are missing: no pattern is found across them.
    pub fn skip(&mut self, bytes: u64) {
        self.last.clear();
        self.position = self.position.saturating_add(bytes);
    }

    /// Takes in a segment, of which no more is kept than a pattern of `longest` bytes needs.
    pub(super) fn advance(&mut self, segment: &[u8], longest: usize) {
        let keep = longest.saturating_sub(1);
        let of_segment = &segment[segment.len().saturating_sub(keep)..];
        let of_last = self.last.len().min(keep - of_segment.len());
        self.last.drain(..self.last.len() - of_last);
        self.last.extend_from_slice(of_segment);
        self.position = self.position.saturating_add(segment.len() as u64);
    }
}

/// What lies around the border between a flow so far and its next segment.
pub(super) struct Across {
    bytes: [u8; 2 * SIDE_BYTES_MAX],
}

impl Across {
    pub(super) fn new() -> Across {
        Across { bytes: [0; 2 * SIDE_BYTES_MAX] }
    }

    /// Joins both sides, as far as a pattern of `longest` bytes reaches.
    pub(super) fn join(&mut self, stream: &Stream, segment: &[u8], longest: usize) -> Text<'_> {
        let side = longest.saturating_sub(1);
        let last = &stream.last[stream.last.len().saturating_sub(side)..];
        let next = &segment[..segment.len().min(side)];
        let end = last.len() + next.len();
        self.bytes[..last.len()].copy_from_slice(last);
        self.bytes[last.len()..end].copy_from_slice(next);
        let position = stream.position - last.len() as u64;
        Text { bytes: &self.bytes[..end], old: last.len(), position }
    }
}
