//! Whole records on their way to the output, and what of them has arrived.

use crate::StoreError;
use std::io::{ErrorKind, Write};

/// Collected bytes from which a write is made: large enough that the system call does not show,
/// small enough to stay in the second-level cache.
const FLUSH_BYTES: usize = 128 << 10;

/// Collects records and counts exactly what the output has accepted.
#[derive(Debug)]
pub(crate) struct RecordBuffer<W> {
    out: W,
    bytes: Vec<u8>,
    /// Ends of the records in `bytes`, and whether the record is a frame.
    ends: Vec<(usize, bool)>,
    bytes_written: u64,
    frames_written: u64,
    failed: bool,
}

impl<W: Write> RecordBuffer<W> {
    pub(crate) fn new(out: W) -> RecordBuffer<W> {
        let (bytes, ends) = (Vec::with_capacity(2 * FLUSH_BYTES), Vec::new());
        RecordBuffer { out, bytes, ends, bytes_written: 0, frames_written: 0, failed: false }
    }

    /// Adds the record that `append` writes; a frame or something else.
    pub(crate) fn record(
        &mut self,
        is_frame: bool,
        append: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), StoreError> {
        if self.failed {
            return Err(StoreError::FailedBefore);
        }
        append(&mut self.bytes);
        self.ends.push((self.bytes.len(), is_frame));
        if self.bytes.len() >= FLUSH_BYTES { self.hand_over() } else { Ok(()) }
    }

    /// Hands everything over, and flushes the output.
    pub(crate) fn flush(&mut self) -> Result<(), StoreError> {
        self.hand_over()?;
        self.out.flush().map_err(|error| self.fail(error))
    }

    pub(crate) fn bytes_added(&self) -> u64 {
        self.bytes_written + self.bytes.len() as u64
    }

    pub(crate) fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    pub(crate) fn frames_written(&self) -> u64 {
        self.frames_written
    }

    fn hand_over(&mut self) -> Result<(), StoreError> {
        if self.failed {
            return Err(StoreError::FailedBefore);
        }
        let (accepted, result) = write_counted(&mut self.out, &self.bytes);
        let mut whole_bytes = 0;
        for &(end, is_frame) in self.ends.iter().take_while(|(end, _)| *end <= accepted) {
            self.frames_written += u64::from(is_frame);
            whole_bytes = end;
        }
        self.bytes_written += whole_bytes as u64;
        self.bytes.clear();
        self.ends.clear();
        result.map_err(|error| self.fail(error))
    }

    fn fail(&mut self, error: std::io::Error) -> StoreError {
        self.failed = true;
        StoreError::io("cannot write the capture file", error)
    }
}

/// As `write_all`, but tells how many bytes were accepted also when it fails.
fn write_counted(out: &mut impl Write, bytes: &[u8]) -> (usize, std::io::Result<()>) {
    let mut accepted = 0;
    while accepted < bytes.len() {
        match out.write(&bytes[accepted..]) {
            Ok(0) => return (accepted, Err(ErrorKind::WriteZero.into())),
            Ok(count) => accepted += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (accepted, Err(error)),
        }
    }
    (accepted, Ok(()))
}
