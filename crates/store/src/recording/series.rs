//! Writing one file of a recording, block by block, with the visible size always valid.

use super::{FileHeader, HeaderPage};
use crate::StoreError;
use crate::block;
use crate::writer::FILE_MODE;
use ringside_core::SourceInterface;
use ringside_core::limits::{RING_BLOCK_BYTES_MAX, RING_BLOCK_BYTES_MIN};
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Writes one file of a series: ring blocks in order, each in one piece or in several.
///
/// The file is never overwritten and grows only by whole pcapng blocks; after a write that the
/// system refused it is cut back to the last whole block, and nothing more is written.
#[derive(Debug)]
pub struct SeriesWriter {
    file: File,
    path: PathBuf,
    header_bytes: u64,
    block_bytes: u64,
    /// Where in the file the count of complete blocks stands.
    count_at: u64,
    blocks: u64,
    /// Bytes of the current ring block that are written.
    block_filled: u64,
    failed: bool,
}

impl SeriesWriter {
    /// Creates the file, which must not exist, and writes its header page, which counts no block
    /// yet whatever `header` says.
    ///
    /// # Errors
    /// The file exists or cannot be created, or the interfaces do not fit the header. A file that
    /// could not be begun is removed again.
    pub fn create(
        path: &Path,
        header: &FileHeader,
        interfaces: &[SourceInterface],
    ) -> Result<SeriesWriter, StoreError> {
        let sizes = RING_BLOCK_BYTES_MIN..=RING_BLOCK_BYTES_MAX;
        if !header.block_bytes.is_power_of_two() || !sizes.contains(&header.block_bytes) {
            let reason = format!("no ring block has {} bytes", header.block_bytes);
            return Err(StoreError::Misplaced { path: path.to_owned(), reason });
        }
        let header = FileHeader { blocks_complete: 0, ..header.clone() };
        let HeaderPage { bytes: page, blocks_complete_at: count_at, .. } =
            header.encode(interfaces)?;
        let context = |what: &str| format!("cannot {what} {}", path.display());
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create_new(true)
            .mode(FILE_MODE)
            .open(path)
            .map_err(|error| StoreError::io(context("create"), error))?;
        if let Err(error) = file.write_all_at(&page, 0) {
            // Best effort: the error that is reported is the one that matters.
            let _ = std::fs::remove_file(path);
            return Err(StoreError::io(context("write the header of"), error));
        }
        Ok(SeriesWriter {
            file,
            path: path.to_owned(),
            header_bytes: page.len() as u64,
            block_bytes: header.block_bytes as u64,
            count_at,
            blocks: 0,
            block_filled: 0,
            failed: false,
        })
    }

    /// Appends the next bytes of the current ring block: whole pcapng blocks.
    ///
    /// # Errors
    /// The bytes go beyond the ring block (nothing is written), or the system refused. Then
    /// [`bytes_written`](SeriesWriter::bytes_written) and
    /// [`block_filled`](SeriesWriter::block_filled) tell what is kept: whole pcapng blocks.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.check_usable()?;
        if self.block_filled + bytes.len() as u64 > self.block_bytes {
            let (filled, block) = (self.block_filled, self.block_bytes);
            return Err(self.misplaced(format!(
                "{} bytes do not fit the ring block: {filled} of {block} bytes are filled",
                bytes.len()
            )));
        }
        debug_assert_eq!(block::whole_bytes(bytes), bytes.len(), "only whole pcapng blocks");
        let start = self.bytes_written();
        let (accepted, result) = write_counted(&self.file, bytes, start);
        let Err(error) = result else {
            self.block_filled += bytes.len() as u64;
            return Ok(());
        };
        self.failed = true;
        self.block_filled += block::whole_bytes(&bytes[..accepted]) as u64;
        // If cutting fails too, readers still stop at the torn block.
        let _ = self.file.set_len(self.bytes_written());
        Err(StoreError::io(format!("cannot write {}", self.path.display()), error))
    }

    /// Counts the current ring block, which must be filled to its end, in the header page.
    ///
    /// # Errors
    /// The block is not filled, or the system refused.
    pub fn complete_block(&mut self) -> Result<(), StoreError> {
        self.check_usable()?;
        if self.block_filled != self.block_bytes {
            let (filled, block) = (self.block_filled, self.block_bytes);
            return Err(self.misplaced(format!("a ring block with {filled} of {block} bytes")));
        }
        self.blocks += 1;
        self.block_filled = 0;
        let count = self.blocks.to_le_bytes();
        self.file.write_all_at(&count, self.count_at).map_err(|error| {
            self.failed = true;
            StoreError::io(format!("cannot update the header of {}", self.path.display()), error)
        })
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
        self.header_bytes + self.blocks * self.block_bytes + self.block_filled
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Another handle of the file, to sync it from another thread.
    ///
    /// # Errors
    /// The system refused.
    pub fn duplicate(&self) -> Result<File, StoreError> {
        let context = || format!("cannot duplicate the handle of {}", self.path.display());
        self.file.try_clone().map_err(|error| StoreError::io(context(), error))
    }

    /// Ends the file where it is, also within a ring block, and waits until it is on the medium,
    /// with its length and its directory's knowledge of it as the file system sees fit.
    ///
    /// # Errors
    /// The system refused.
    pub fn finish(self) -> Result<(), StoreError> {
        self.file
            .sync_all()
            .map_err(|error| StoreError::io(format!("cannot sync {}", self.path.display()), error))
    }

    fn check_usable(&self) -> Result<(), StoreError> {
        if self.failed { Err(StoreError::FailedBefore) } else { Ok(()) }
    }

    fn misplaced(&self, reason: String) -> StoreError {
        StoreError::Misplaced { path: self.path.clone(), reason }
    }
}

/// As `write_all_at`, but tells how many bytes were accepted also when it fails.
fn write_counted(file: &File, bytes: &[u8], start: u64) -> (usize, Result<(), Error>) {
    let mut accepted = 0;
    while accepted < bytes.len() {
        match file.write_at(&bytes[accepted..], start + accepted as u64) {
            Ok(0) => return (accepted, Err(ErrorKind::WriteZero.into())),
            Ok(count) => accepted += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (accepted, Err(error)),
        }
    }
    (accepted, Ok(()))
}
