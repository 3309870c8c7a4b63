//! One file of a recording while it grows: its header page, its name and its end.

use super::{MappedFiles, Storage, read_header_from, room};
use crate::StoreError;
use crate::dir::Entry;
use crate::file_header::{FileHeader, HeaderPage, NO_BLOCK};
use crate::writer::FILE_MODE;
use ringside_core::limits::{RING_BLOCK_BYTES_MAX, RING_BLOCK_BYTES_MIN};
use ringside_core::{Shown, SourceInterface};
use ringside_sys::disk::Lease;
use ringside_sys::file_map::FileMap;
use rustix::fs::OFlags;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Room at the end of every file, beyond its ring blocks: a repair puts its mark there, with
/// padding before it, after the reservation of a killed run is gone.
pub const END_BYTES: u64 = 4096;

/// A file with its header page. Its ring blocks are written by its owner, in order, at
/// [`block_offset`](SeriesFile::block_offset).
#[derive(Debug)]
pub struct SeriesFile<F = File> {
    file: F,
    /// Its memory, if it is mapped: room is written over there.
    map: Mutex<Option<FileMap>>,
    entry: Entry,
    /// Number of the file within its lane.
    sequence: u64,
    header_bytes: u64,
    block_bytes: u64,
    /// Places for ring blocks that were room when it was made.
    room_blocks: u64,
    /// Where in the file the number of the first ring block stands.
    first_block_at: u64,
    /// Where in the file the count of complete blocks stands.
    blocks_complete_at: u64,
    /// Where in the file its largest size stands.
    bytes_max_at: u64,
}

/// A file that went and is to be made another one ([`SeriesFile::reuse`]): no other process has it
/// open, and it has a name that neither readers nor repairs know.
#[derive(Debug)]
pub struct Reused {
    /// The file, which no process can open meanwhile.
    pub lease: Lease,
    /// Its memory, if it is mapped.
    pub map: Option<FileMap>,
    /// Its name for the time being.
    pub entry: Entry,
}

impl SeriesFile {
    /// Creates the file, which must not exist, and writes its header page, which counts no block
    /// yet whatever `header` says.
    ///
    /// # Errors
    /// The file exists or cannot be created, or the interfaces do not fit the header. A file that
    /// could not be begun is removed again.
    pub fn create(
        entry: Entry,
        header: &FileHeader,
        interfaces: &[SourceInterface],
    ) -> Result<SeriesFile, StoreError> {
        let page = first_page(entry.path(), header, interfaces)?;
        let file = entry.open(OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, FILE_MODE);
        let file = file.map_err(|error| {
            StoreError::io(format!("cannot create {}", entry.path().shown()), error)
        })?;
        SeriesFile::begin(file, entry.clone(), header, &page).inspect_err(|_| {
            // Best effort: the error that is reported is the one that matters.
            let _ = entry.remove();
        })
    }

    /// Makes the file of `old`, of which nothing that is in it is wanted any more: what it holds
    /// becomes room for as many ring blocks as `header.bytes_max` allows, and the rest goes. The
    /// header page comes last. It keeps its name until it is [renamed](SeriesFile::rename).
    ///
    /// # Errors
    /// It cannot be written, or the interfaces do not fit the header.
    pub fn reuse(
        old: Reused,
        header: &FileHeader,
        interfaces: &[SourceInterface],
    ) -> Result<SeriesFile, StoreError> {
        let Reused { lease, mut map, entry } = old;
        let page = first_page(entry.path(), header, interfaces)?;
        let context = format!("cannot reuse {}", entry.path().shown());
        let fail = |error| StoreError::io(context.clone(), error);
        let (file, first, step) =
            (lease.file(), page.bytes.len() as u64, header.block_bytes as u64);
        let wanted = header.bytes_max.saturating_sub(first + END_BYTES) / step;
        let there = file.metadata().map_err(fail)?.len().saturating_sub(first) / step;
        let blocks = wanted.min(there);
        let target = room::Target { file, map: map.as_mut() };
        room::lay(target, first, step, blocks)
            .and_then(|()| file.set_len(first + blocks * step))
            .and_then(|()| file.write_all_at(&page.bytes, 0))
            .map_err(fail)?;
        Ok(SeriesFile::new((lease.release(), map), entry, header, blocks, &page))
    }

    /// Opens a file that another process began, to go on with it; with what its header page says.
    /// `None` if it is no file of a recording.
    ///
    /// # Errors
    /// It cannot be opened or read, or is no regular file.
    pub fn open(
        entry: Entry,
    ) -> Result<Option<(SeriesFile, FileHeader, Vec<SourceInterface>)>, StoreError> {
        let context = format!("cannot open {}", entry.path().shown());
        let fail = |error| StoreError::io(context.clone(), error);
        let file = entry.open_regular(OFlags::RDWR).map_err(fail)?;
        let Some(header) = read_header_from(&file).map_err(fail)? else { return Ok(None) };
        let [first_block_at, blocks_complete_at, bytes_max_at] =
            header.file.changing_fields(header.walk.offset()).map(|(at, _)| at);
        let series = SeriesFile {
            file,
            map: Mutex::default(),
            entry,
            sequence: header.file.sequence,
            header_bytes: header.bytes as u64,
            block_bytes: header.file.block_bytes as u64,
            room_blocks: 0,
            first_block_at,
            blocks_complete_at,
            bytes_max_at,
        };
        let interfaces = header.walk.interfaces().to_vec();
        Ok(Some((series, header.file, interfaces)))
    }

    /// Writes whole ring blocks over room, at `offset`. A reader that looks meanwhile sees either
    /// all of a block or none of it. Returns the bytes of the blocks that are complete.
    pub fn fill_room(&self, blocks: &[u8], offset: u64) -> (usize, io::Result<()>) {
        let mut map = self.map();
        let target = room::Target { file: &self.file, map: map.as_mut() };
        room::fill(target, blocks, self.block_bytes as usize, offset)
    }

    /// Hands the file, of which nothing more is written and which had room for `bytes`, to `files`:
    /// who uses it again needs not map it anew.
    pub fn keep_mapped(&self, files: &MappedFiles, bytes: u64) {
        if let Ok(file) = self.file.try_clone() {
            files.keep(file, self.map().take(), bytes);
        }
    }

    fn map(&self) -> MutexGuard<'_, Option<FileMap>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Storage> SeriesFile<F> {
    /// Writes the header page of the file `entry`, which was just made, as [`SeriesFile::create`]
    /// does.
    ///
    /// # Errors
    /// It cannot be written, or the interfaces do not fit.
    pub fn create_in(
        file: F,
        entry: Entry,
        header: &FileHeader,
        interfaces: &[SourceInterface],
    ) -> Result<SeriesFile<F>, StoreError> {
        let page = first_page(entry.path(), header, interfaces)?;
        SeriesFile::begin(file, entry, header, &page)
    }

    fn begin(
        file: F,
        entry: Entry,
        header: &FileHeader,
        page: &HeaderPage,
    ) -> Result<SeriesFile<F>, StoreError> {
        let series = SeriesFile::new((file, None), entry, header, 0, page);
        let written = series.file.write_counted(&page.bytes, 0).1;
        written.map_err(|error| series.error("cannot write the header of", error))?;
        Ok(series)
    }

    fn new(
        (file, map): (F, Option<FileMap>),
        entry: Entry,
        header: &FileHeader,
        room_blocks: u64,
        page: &HeaderPage,
    ) -> SeriesFile<F> {
        SeriesFile {
            file,
            map: Mutex::new(map),
            entry,
            sequence: header.sequence,
            header_bytes: page.bytes.len() as u64,
            block_bytes: header.block_bytes as u64,
            room_blocks,
            first_block_at: page.first_block_at,
            blocks_complete_at: page.blocks_complete_at,
            bytes_max_at: page.bytes_max_at,
        }
    }

    /// The open file, written through the page cache.
    pub fn file(&self) -> &F {
        &self.file
    }

    /// Its name, and the directory in which it is.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Where the file is, for messages.
    pub fn path(&self) -> &Path {
        self.entry.path()
    }

    /// Number of the file within its lane.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Bytes of a ring block.
    pub fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Where in the file ring block `index` begins, counted from 0 in this file.
    pub fn block_offset(&self, index: u64) -> u64 {
        self.header_bytes + index * self.block_bytes
    }

    /// Where the room ends that the file was made with; where its ring blocks begin, if it was made
    /// without.
    pub fn room_end(&self) -> u64 {
        self.block_offset(self.room_blocks)
    }

    /// Sends the header page to the disk and waits until it has it. Without a header no reader
    /// finds frames that were written past the page cache; a disk that fails early must not cost
    /// it.
    ///
    /// # Errors
    /// The disk did not take it.
    pub fn write_out_header(&self) -> Result<(), StoreError> {
        self.file
            .write_out(self.header_bytes)
            .map_err(|error| self.error("cannot write the header of", error))
    }

    /// A handle of the file that writes past the page cache; `None` where that cannot be had, or
    /// if its name leads to another file by now.
    pub fn open_direct(&self) -> Option<F> {
        self.file.open_direct(&self.entry)
    }

    /// Gives the file another name in its file system, which must be free.
    ///
    /// # Errors
    /// The name is taken, or the system refused.
    pub fn rename(&mut self, to: &Entry) -> Result<(), StoreError> {
        let fail = |error| StoreError::io(format!("cannot create {}", to.path().shown()), error);
        self.file.rename(&self.entry, to).map_err(fail)?;
        self.entry = to.clone();
        Ok(())
    }

    /// Writes into the header page which ring block is the first, and how many are complete.
    ///
    /// # Errors
    /// The system refused.
    pub fn set_blocks(&self, first: Option<u64>, complete: u64) -> Result<(), StoreError> {
        let first = first.unwrap_or(NO_BLOCK);
        self.set_field(self.first_block_at, first)?;
        self.set_field(self.blocks_complete_at, complete)
    }

    /// Writes into the header page that nothing more will be written: the largest size becomes
    /// `bytes`, the size that the file has. Until then it counts as full and is not deleted
    /// ([`crate::retention`]).
    ///
    /// # Errors
    /// The system refused.
    pub fn set_finished(&self, bytes: u64) -> Result<(), StoreError> {
        self.set_field(self.bytes_max_at, bytes)
    }

    fn set_field(&self, at: u64, value: u64) -> Result<(), StoreError> {
        let written = self.file.write_counted(&value.to_le_bytes(), at).1;
        written.map_err(|error| self.error("cannot update the header of", error))
    }

    /// Cuts the file to `bytes`; also gives back what is reserved beyond.
    ///
    /// # Errors
    /// The system refused.
    pub fn cut(&self, bytes: u64) -> Result<(), StoreError> {
        self.file.set_len(bytes).map_err(|error| self.error("cannot cut", error))
    }

    /// Waits until the content is on the medium, with the size that is needed to read it.
    ///
    /// # Errors
    /// The system refused: what was written may be lost.
    pub fn sync_data(&self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(|error| self.error("cannot sync", error))
    }

    /// As [`sync_data`](SeriesFile::sync_data), with all that the file system keeps of the file.
    ///
    /// # Errors
    /// As there.
    pub fn sync_all(&self) -> Result<(), StoreError> {
        self.file.sync_all().map_err(|error| self.error("cannot sync", error))
    }

    /// Another handle of the file.
    ///
    /// # Errors
    /// The system refused.
    pub fn duplicate(&self) -> Result<F, StoreError> {
        self.file.duplicate().map_err(|error| self.error("cannot duplicate the handle of", error))
    }

    /// The error of a write to the file that the caller tried.
    pub fn write_error(&self, error: io::Error) -> StoreError {
        self.error("cannot write", error)
    }

    fn error(&self, what: &str, error: io::Error) -> StoreError {
        StoreError::io(format!("{what} {}", self.path().shown()), error)
    }
}

/// The header page of a file that counts no block yet.
fn first_page(
    path: &Path,
    header: &FileHeader,
    interfaces: &[SourceInterface],
) -> Result<HeaderPage, StoreError> {
    let sizes = RING_BLOCK_BYTES_MIN..=RING_BLOCK_BYTES_MAX;
    if !header.block_bytes.is_power_of_two() || !sizes.contains(&header.block_bytes) {
        let reason = format!("no ring block has {} bytes", header.block_bytes);
        return Err(StoreError::Misplaced { path: path.to_owned(), reason });
    }
    FileHeader { first_block: None, blocks_complete: 0, ..header.clone() }.encode(interfaces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dir::Dir;
    use crate::recording::read_header;

    #[test]
    fn a_name_that_is_taken_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let place = Dir::open(dir.path()).unwrap();
        let (hidden, named) = (dir.path().join(".a.next"), dir.path().join("a.pcapng"));
        let to = place.entry("a.pcapng");
        let mut file =
            SeriesFile::create(place.entry(".a.next"), &FileHeader::default(), &[]).unwrap();
        std::fs::write(&named, b"somebody's").unwrap();
        let error = file.rename(&to).unwrap_err().to_string();
        assert!(error.contains("a.pcapng"), "{error}");
        assert_eq!(std::fs::read(&named).unwrap(), b"somebody's");
        std::fs::remove_file(&named).unwrap();
        file.rename(&to).unwrap();
        assert_eq!((file.path(), hidden.exists()), (&*named, false));
    }

    #[test]
    fn the_header_counts_what_it_is_given() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pcapng");
        let file =
            SeriesFile::create(Entry::at(&path).unwrap(), &FileHeader::default(), &[]).unwrap();
        assert_eq!(read_header(&path).unwrap().unwrap().first_block, None);
        file.set_blocks(Some(17), 3).unwrap();
        let header = read_header(&path).unwrap().unwrap();
        assert_eq!((header.first_block, header.blocks_complete), (Some(17), 3));
        assert_eq!(file.block_offset(2), 4096 + (2 << 20));
    }
}
