//! Reading the header page of a file, and nothing else of it.

use crate::StoreError;
use crate::file_header::{FileHeader, HEADER_BYTES_MAX, HEADER_PAGE_BYTES};
use crate::reader::{HeaderStep, HeaderWalk};
use crate::seekable::SeekableFile;
use ringside_core::Shown;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Everything that the header page(s) of a file say.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) file: FileHeader,
    /// Where ring block 0 begins.
    pub(crate) bytes: usize,
    /// The walk over the header, from which the rest of the file is read on.
    pub(crate) walk: HeaderWalk,
}

/// What the header page of the file at `path` says; `None` for anything but a file of a recording
/// in this version's format. Reads as much of the file as its header takes, at most 4 MiB.
///
/// # Errors
/// The file cannot be opened or read.
pub fn read_header(path: &Path) -> Result<Option<FileHeader>, StoreError> {
    let fail = |error| StoreError::io(format!("cannot read {}", path.shown()), error);
    // A name may lead to a FIFO, whose opening would wait for a writer.
    let mut options = OpenOptions::new();
    let file =
        options.read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path).map_err(fail)?;
    if !file.metadata().map_err(fail)?.is_file() {
        return Ok(None);
    }
    let header = read_stored(&file).map_err(fail)?;
    Ok(header.map(|(header, _)| header.file))
}

/// Reads the header of a file from its start, and says whether the file was packed.
pub(crate) fn read_stored(file: &File) -> std::io::Result<Option<(Header, bool)>> {
    if let Some(packed) = SeekableFile::open(file)? {
        return Ok(read_from(packed)?.map(|header| (header, true)));
    }
    let mut file = file;
    file.seek(SeekFrom::Start(0))?;
    Ok(read_from(file)?.map(|header| (header, false)))
}

/// Reads the header from the start of `file`, which is read from its position on.
pub(crate) fn read_from(mut file: impl Read) -> std::io::Result<Option<Header>> {
    let mut bytes = Vec::with_capacity(HEADER_PAGE_BYTES);
    let mut walk = HeaderWalk::new();
    while bytes.len() < HEADER_BYTES_MAX {
        // Twice as much each time: a long header costs few reads, a short one a single page.
        let more = bytes.len().max(HEADER_PAGE_BYTES).min(HEADER_BYTES_MAX - bytes.len());
        if file.by_ref().take(more as u64).read_to_end(&mut bytes)? == 0 {
            break;
        }
        match walk.advance(&bytes) {
            HeaderStep::Found(file, bytes) => {
                return Ok(Some(Header { file, bytes, walk }));
            }
            HeaderStep::Foreign => break,
            HeaderStep::More => {}
        }
    }
    Ok(None)
}
