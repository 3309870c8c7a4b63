//! A flow's segments, one after the other.

use super::Text;

/// What is kept of a flow between its segments: its last bytes, fewer than the longest pattern has,
/// and how many there were.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    last: Vec<u8>,
    position: u64,
}

/// What lies around the border between a flow so far and its next segment, as far as a pattern
/// across it reaches.
#[derive(Clone, Debug, Default)]
pub struct Seam {
    bytes: Vec<u8>,
    /// Of them, those before the border.
    old: usize,
    /// Bytes of the flow before them.
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

    /// This number of bytes of the flow is missing: no pattern is found across them.
    pub fn skip(&mut self, bytes: u64) {
        self.last.clear();
        self.position = self.position.saturating_add(bytes);
    }

    /// Begins anew; what is allocated is used again.
    pub fn restart(&mut self) {
        self.last.clear();
        self.position = 0;
    }

    /// Takes in the next segment, of which no more is kept than a pattern of `longest` bytes needs.
    /// What lies around the border is put into `seam`.
    pub fn take_in(&mut self, segment: &[u8], longest: usize, seam: &mut Seam) {
        let keep = longest.saturating_sub(1);
        let last = &self.last[self.last.len().saturating_sub(keep)..];
        seam.bytes.clear();
        seam.bytes.extend_from_slice(last);
        seam.bytes.extend_from_slice(&segment[..segment.len().min(keep)]);
        seam.old = last.len();
        seam.position = self.position - last.len() as u64;

        let of_segment = &segment[segment.len().saturating_sub(keep)..];
        let of_last = self.last.len().min(keep - of_segment.len());
        self.last.drain(..self.last.len() - of_last);
        // Allocated once, with exactly this size: of many flows it adds up.
        self.last.reserve_exact(keep - of_last);
        self.last.extend_from_slice(of_segment);
        self.position = self.position.saturating_add(segment.len() as u64);
    }

    /// Bytes that are kept.
    pub fn kept(&self) -> usize {
        self.last.len()
    }
}

impl Seam {
    /// Nothing came before.
    pub const NONE: Seam = Seam { bytes: Vec::new(), old: 0, position: 0 };

    /// Another payload, before which nothing came.
    pub fn clear(&mut self) {
        self.bytes.clear();
        (self.old, self.position) = (0, 0);
    }

    /// The last bytes before the border.
    pub fn before(&self) -> &[u8] {
        &self.bytes[..self.old]
    }

    /// True if nothing lies across.
    pub fn is_empty(&self) -> bool {
        self.old == 0
    }

    /// The bytes in which a pattern of `bytes` bytes that lies across the border must be: so few on
    /// either side that it cannot lie on one alone.
    pub fn around(&self, bytes: usize) -> &[u8] {
        let side = bytes.saturating_sub(1);
        let (from, to) = (self.old.saturating_sub(side), self.old + side);
        &self.bytes[from..to.min(self.bytes.len())]
    }

    pub(super) fn text(&self) -> Text<'_> {
        Text { bytes: &self.bytes, old: self.old, position: self.position }
    }

    /// The next segment behind it.
    pub(super) fn next<'t>(&self, bytes: &'t [u8]) -> Text<'t> {
        Text { bytes, old: 0, position: self.position + self.old as u64 }
    }
}
