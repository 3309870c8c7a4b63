//! A directory of recordings: which files belong to which series.

use super::read_header;
use crate::StoreError;
use crate::merged::skipped;
use crate::reader::Notice;
use ringside_core::LaneId;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Files of one directory. A recording of 1 GiB files that needs more is a petabyte.
const FILES_MAX: usize = 1 << 20;

/// The files of each series, in order.
type Series = Vec<Vec<PathBuf>>;

/// Groups the `*.pcapng` files of `dir` into series (run and lane), each in order of its sequence
/// numbers. Files that are no part of a recording are told in the notices.
///
/// # Errors
/// The directory cannot be read, or holds nothing of a recording.
pub fn series_of_directory(dir: &Path) -> Result<(Series, Vec<Notice>), StoreError> {
    let fail = |error| StoreError::io(format!("cannot read directory {}", dir.display()), error);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path.extension().is_some_and(|extension| extension == "pcapng") && path.is_file() {
            paths.push(path);
        }
        if paths.len() > FILES_MAX {
            let reason = format!("holds more than {FILES_MAX} files; name some of them");
            return Err(StoreError::Unusable { path: dir.to_owned(), reason });
        }
    }
    paths.sort();
    let mut series: BTreeMap<(String, LaneId), Vec<(u64, PathBuf)>> = BTreeMap::new();
    let mut notices = Vec::new();
    for path in paths {
        match read_header(&path) {
            Ok(Some(header)) => {
                let lane = series.entry((header.run, header.lane)).or_default();
                lane.push((header.sequence, path));
            }
            Ok(None) => {
                let reason = "not a file of a recording; name it to read it";
                notices.push(skipped(&path, reason));
            }
            Err(error) => notices.push(skipped(&path, error.to_string())),
        }
    }
    if series.is_empty() {
        let reason = "holds no file of a recording (made by -w DIR); name its files to read others";
        return Err(StoreError::Unusable { path: dir.to_owned(), reason: reason.into() });
    }
    let ordered = series.into_values().map(|mut lane| {
        lane.sort();
        lane.into_iter().map(|(_, path)| path).collect()
    });
    Ok((ordered.collect(), notices))
}
