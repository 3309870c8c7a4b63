//! Writing one file of a recording, block by block, with the visible size always valid.

use super::{FileHeader, SeriesFile};
use crate::StoreError;
use crate::block;
use ringside_core::SourceInterface;
use ringside_sys::disk::write_counted;
use std::fs::File;
use std::path::Path;

/// Writes one file of a series by itself: ring blocks in order, each in one piece or in several.
///
/// The file is never overwritten and grows only by whole pcapng blocks; after a write that the
/// system refused it is cut back to the last whole block, and nothing more is written.
#[derive(Debug)]
pub struct SeriesWriter {
    file: SeriesFile,
    first_block: Option<u64>,
    blocks: u64,
    /// Bytes of the current ring block that are written.
    block_filled: u64,
    failed: bool,
}

impl SeriesWriter {
    /// As [`SeriesFile::create`].
    ///
    /// # Errors
    /// As there.
    pub fn create(
        path: &Path,
        header: &FileHeader,
        interfaces: &[SourceInterface],
    ) -> Result<SeriesWriter, StoreError> {
        let file = SeriesFile::create(path, header, interfaces)?;
        let first_block = header.first_block;
        Ok(SeriesWriter { file, first_block, blocks: 0, block_filled: 0, failed: false })
    }

    /// Appends the next bytes of the current ring block: whole pcapng blocks.
    ///
    /// # Errors
    /// The bytes go beyond the ring block (nothing is written), or the system refused. Then
    /// [`bytes_written`](SeriesWriter::bytes_written) and
    /// [`block_filled`](SeriesWriter::block_filled) tell what is kept: whole pcapng blocks.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.check_usable()?;
        if self.block_filled + bytes.len() as u64 > self.file.block_bytes() {
            let (filled, block) = (self.block_filled, self.file.block_bytes());
            return Err(self.misplaced(format!(
                "{} bytes do not fit the ring block: {filled} of {block} bytes are filled",
                bytes.len()
            )));
        }
        debug_assert_eq!(block::whole_bytes(bytes), bytes.len(), "only whole pcapng blocks");
        let start = self.bytes_written();
        let (accepted, result) = write_counted(self.file.file(), bytes, start);
        if self.first_block.is_none() {
            self.first_block = block::block_header(bytes).map(|header| header.number);
        }
        let Err(error) = result else {
            self.block_filled += bytes.len() as u64;
            return Ok(());
        };
        self.failed = true;
        self.block_filled += block::whole_bytes(&bytes[..accepted]) as u64;
        // If cutting fails too, readers still stop at the torn block.
        let _ = self.file.cut(self.bytes_written());
        Err(self.file.write_error(error))
    }

    /// Counts the current ring block, which must be filled to its end, in the header page.
    ///
    /// # Errors
    /// The block is not filled, or the system refused.
    pub fn complete_block(&mut self) -> Result<(), StoreError> {
        self.check_usable()?;
        if self.block_filled != self.file.block_bytes() {
            let (filled, block) = (self.block_filled, self.file.block_bytes());
            return Err(self.misplaced(format!("a ring block with {filled} of {block} bytes")));
        }
        self.blocks += 1;
        self.block_filled = 0;
        let counted = self.file.set_blocks(self.first_block, self.blocks);
        self.failed = counted.is_err();
        counted
    }

    /// Complete ring blocks in the file.
    pub fn blocks_in_file(&self) -> u64 {
        self.blocks
    }

    /// Bytes of the current ring block that are in the file.
    pub fn block_filled(&self) -> usize {
        self.block_filled as usize
    }

    /// Size of the file: header, complete blocks and what there is of the current one.
    pub fn bytes_written(&self) -> u64 {
        self.file.block_offset(self.blocks) + self.block_filled
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Another handle of the file, to sync it from another thread.
    ///
    /// # Errors
    /// The system refused.
    pub fn duplicate(&self) -> Result<File, StoreError> {
        self.file.duplicate()
    }

    /// Ends the file where it is, also within a ring block, and waits until it is on the medium,
    /// with its length and its directory's knowledge of it as the file system sees fit.
    ///
    /// # Errors
    /// The system refused.
    pub fn finish(self) -> Result<(), StoreError> {
        self.file.set_finished(self.bytes_written())?;
        self.file.sync_all()
    }

    fn check_usable(&self) -> Result<(), StoreError> {
        if self.failed { Err(StoreError::FailedBefore) } else { Ok(()) }
    }

    fn misplaced(&self, reason: String) -> StoreError {
        StoreError::Misplaced { path: self.file.path().to_owned(), reason }
    }
}
