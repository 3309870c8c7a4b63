//! Symbolic links in directories where others may plant names.
//!
//! One is followed only if root or the user of this process made it. Otherwise any user who can
//! create a name in the directory that we write to would choose which file is overwritten.

use rustix::process::geteuid;
use std::fs::{Metadata, symlink_metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Tells a link from any that has its name later: renaming changes the time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link(u64, u64, i64, i64);

/// The link at `path`; `None` if that is something else, or nothing.
///
/// # Errors
/// It is a link of another user.
pub(crate) fn own_link(path: &Path) -> io::Result<Option<Link>> {
    let found = symlink_metadata(path).ok().filter(Metadata::is_symlink);
    let Some(found) = found else { return Ok(None) };
    if found.uid() != 0 && found.uid() != geteuid().as_raw() {
        return refused("it is a symbolic link that another user made: name what it leads to");
    }
    Ok(Some(Link(found.dev(), found.ino(), found.ctime(), found.ctime_nsec())))
}

/// Checks, once `path` is open, that [`own_link`] still says the same of it. Nothing was written
/// yet, so that a link which was put there in between did no harm.
///
/// # Errors
/// It does not.
pub(crate) fn still(path: &Path, before: &Option<Link>) -> io::Result<()> {
    match own_link(path)? == *before {
        true => Ok(()),
        false => refused("the symbolic link was replaced while it was opened"),
    }
}

fn refused<T>(text: &str) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}
