//! What the reading of inputs took, and what it passed by.

use ringside_core::Timestamp;

/// Counts of a reading so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Bytes that were read of the inputs. The header pages of a directory's files, by which they
    /// are put in order, were read once more.
    pub bytes_read: u64,
    /// Frames that were passed by, because their time lies outside the range that was asked for.
    pub frames_outside: u64,
    /// Ring blocks of which only the header and the end were read, because none of their frames
    /// lies in the range.
    pub blocks_passed: u64,
    /// The newest stamp that was met, also of frames outside the range; zero if there was none.
    pub newest: Timestamp,
}

impl Tally {
    /// Adds the counts of another part of the reading.
    pub(crate) fn add(&mut self, other: &Tally) {
        self.bytes_read += other.bytes_read;
        self.frames_outside += other.frames_outside;
        self.blocks_passed += other.blocks_passed;
        self.newest = self.newest.max(other.newest);
    }
}
