//! Which files are inputs, so that no output destroys one of them.

use crate::StoreError;
use ringside_core::Shown;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// True if `target` is a regular file that `inputs` name, as [`open`](crate::open) takes them: by
/// whatever name, as standard input, or as a file of a directory. Every file of a directory
/// counts: one that cannot be read as part of a recording now is worth keeping all the more.
///
/// # Errors
/// The target or a directory cannot be looked at.
pub fn is_input(inputs: &[PathBuf], target: &File) -> Result<bool, StoreError> {
    let target =
        target.metadata().map_err(|error| StoreError::io("cannot look at the output", error))?;
    if !target.is_file() {
        return Ok(false);
    }
    for input in inputs {
        let found = holds(input, &target)
            .map_err(|error| StoreError::io(format!("cannot look at {}", input.shown()), error));
        if found? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn holds(input: &Path, target: &Metadata) -> io::Result<bool> {
    if input.as_os_str() == "-" {
        let stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        return Ok(is_same(&stdin.metadata()?, target));
    }
    let metadata = input.metadata()?;
    if !metadata.is_dir() {
        return Ok(is_same(&metadata, target));
    }
    for entry in input.read_dir()? {
        // What vanished meanwhile, and a link to nothing, are no input.
        if entry?.path().metadata().is_ok_and(|file| is_same(&file, target)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}
