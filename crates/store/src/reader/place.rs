//! Where a file lies: under its name or packed, and next to the lock of the run that writes it.

use crate::dir::Dir;
use crate::file_header::FileHeader;
use crate::file_name::parts_of_name;
use crate::run_lock::{LockState, lock_state};
use crate::seekable::packed_path;
use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::path::Path;

/// Opens a file, or what it was packed into meanwhile, and says which.
pub(super) fn open_whatever_it_became(path: &Path) -> io::Result<(File, Cow<'_, Path>)> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_recorders(path) => {
            let packed = packed_path(path);
            // Of two errors the one about the name that was given.
            File::open(&packed).map(|file| (file, packed.into())).map_err(|_| error)
        }
        opened => opened.map(|file| (file, path.into())),
    }
}

/// True if a path has the name of a file of a recording.
fn is_recorders(path: &Path) -> bool {
    path.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| parts_of_name(name).is_some())
}

/// The directory in which a file lies.
pub(super) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// What the run's lock in the folder of a recording's file says; `Absent` without an answer.
pub(super) fn recorder(path: &Path, header: &FileHeader) -> LockState {
    let state = File::open(directory_of(path))
        .and_then(|at| lock_state(&Dir::of(at.into(), directory_of(path)), &header.run));
    state.unwrap_or(LockState::Absent)
}
