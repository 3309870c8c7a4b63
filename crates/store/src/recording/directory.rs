//! Directories of recordings: which files belong to which lane.

use super::header;
use crate::StoreError;
use crate::block::{BLOCK_HEADER_BYTES, block_header};
use crate::reader::Notice;
use crate::seekable::{SeekableFile, packed_path, unpacked_name};
use crate::side_by_side::side_by_side;
use ringside_core::{LaneId, Shown};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Why a directory is refused that holds other files, or none.
pub const NO_RECORDING: &str = "holds no file of a recording; name its files to read others";

/// Files of one directory. A recording of 1 GiB files that needs more is a petabyte.
const FILES_MAX: usize = 1 << 20;

/// The files of one lane of one run, wherever they lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// Name of the run.
    pub run: String,
    /// Lane of the run.
    pub lane: LaneId,
    /// By the number of their first ring block, then by sequence number. Files of different
    /// directories overlap: the order is that of their ring blocks.
    pub files: Vec<StoredFile>,
}

/// A file of a [`Series`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// Where it is.
    pub path: PathBuf,
    /// Number of its first ring block; `None` as long as it has none.
    pub first_block: Option<u64>,
    /// Number of the file within its lane.
    pub sequence: u64,
}

/// Groups the `*.pcapng` files of all `directories` into series. Hidden files are passed; others
/// that are no part of a recording are reported in the notices.
///
/// # Errors
/// A directory cannot be read, or none holds a file of a recording that can.
pub fn series_of(directories: &[PathBuf]) -> Result<(Vec<Series>, Vec<Notice>), StoreError> {
    let mut series: BTreeMap<(String, LaneId), Vec<StoredFile>> = BTreeMap::new();
    let (mut notices, mut empty, mut refused) = (Vec::new(), Vec::new(), None);
    for directory in directories {
        let mut found = false;
        let looked_at = |path: PathBuf| (look_at(&path), path);
        for (file, path) in side_by_side(pcapng_files(directory)?, looked_at) {
            match file {
                Ok(Some((run, lane, file))) => {
                    series.entry((run, lane)).or_default().push(file);
                    found = true;
                }
                Ok(None) => {
                    let reason = "not a file of a recording; name it to read it";
                    notices.push(Notice::skipped(&path, reason));
                }
                Err(error) if error.is_gone() => notices.push(Notice::deleted(&path)),
                Err(error) => {
                    notices.push(Notice::unreadable(&path, &error));
                    refused.get_or_insert(error);
                }
            }
        }
        if !found {
            empty.push(directory);
        }
    }
    let reason = NO_RECORDING;
    if series.is_empty()
        && let Some(&directory) = empty.first()
    {
        // What cannot be read may well be a recording.
        if let Some(error) = refused {
            return Err(error);
        }
        return Err(StoreError::Unusable { path: directory.clone(), reason: reason.into() });
    }
    // A short recording may have left nothing in one of its directories.
    notices.extend(empty.into_iter().map(|directory| Notice::skipped(directory, reason)));
    let ordered = series.into_iter().map(|((run, lane), mut files)| {
        files.sort_by_key(|file| (file.first_block.unwrap_or(0), file.sequence));
        Series { run, lane, files }
    });
    Ok((ordered.collect(), notices))
}

/// The `*.pcapng` files of a directory that are not hidden, by name.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn pcapng_files(directory: &Path) -> Result<Vec<PathBuf>, StoreError> {
    files_named(directory, &["pcapng"])
}

/// The files of a directory whose names end as those of captures do and that are not hidden, by
/// name.
///
/// # Errors
/// The directory cannot be read.
pub fn capture_files(directory: &Path) -> Result<Vec<PathBuf>, StoreError> {
    files_named(directory, &["pcapng", "pcap", "cap"])
}

fn files_named(directory: &Path, endings: &[&str]) -> Result<Vec<PathBuf>, StoreError> {
    let fail =
        |error| StoreError::io(format!("cannot read directory {}", directory.shown()), error);
    let mut paths = BTreeSet::new();
    // A file that is packed while the directory is read may be seen under neither of its names.
    for _ in 0..2 {
        for entry in std::fs::read_dir(directory).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let (name, path) = (entry.file_name(), entry.path());
            let is_hidden = name.as_encoded_bytes().starts_with(b".");
            let is_end = |one: &OsStr| endings.iter().any(|end| one == *end);
            let is_named = path.extension().is_some_and(is_end) || is_packed(&path);
            if !is_hidden && is_named && path.is_file() {
                paths.insert(path);
            }
            if paths.len() > FILES_MAX {
                let reason = format!("holds more than {FILES_MAX} files; name some of them");
                return Err(StoreError::Unusable { path: directory.to_owned(), reason });
            }
        }
    }
    // Of a file that was just packed both are there: the same, and opened by the first name either.
    let packed: BTreeSet<_> = paths.iter().map(|path| packed_path(path)).collect();
    Ok(paths.difference(&packed).cloned().collect())
}

/// True for a file of a recording that was packed so that it can be read at places: others are
/// their owner's.
fn is_packed(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).and_then(unpacked_name);
    let is_seekable = |file| SeekableFile::open(&file).is_ok_and(|packed| packed.is_some());
    name.is_some() && File::open(path).is_ok_and(is_seekable)
}

/// What a file says of its place; `None` if it is no file of a recording. The number in its first
/// ring block counts: the header page may be older.
fn look_at(path: &Path) -> Result<Option<(String, LaneId, StoredFile)>, StoreError> {
    let fail = |error| StoreError::io(format!("cannot read {}", path.shown()), error);
    let file = File::open(path).or_else(|error| match error.kind() {
        ErrorKind::NotFound => File::open(packed_path(path)).map_err(|_| error),
        _ => Err(error),
    });
    let file = file.map_err(fail)?;
    let Some((header, is_packed)) = header::read_stored(&file).map_err(fail)? else {
        return Ok(None);
    };
    let mut bytes = [0; BLOCK_HEADER_BYTES];
    // A file that was packed had ended, and then its header is right.
    let read = file.read_exact_at(&mut bytes, header.bytes as u64).ok().filter(|()| !is_packed);
    let first = read.and_then(|()| block_header(&bytes)).map(|block| block.number);
    let header = header.file;
    let (path, first_block) = (path.to_owned(), first.or(header.first_block));
    let file = StoredFile { path, first_block, sequence: header.sequence };
    Ok(Some((header.run, header.lane, file)))
}
