//! Files: of rules, and the address files that they name.

use super::address_set::AddressSet;
use super::error::RuleErrors;
use super::limits::{FILE_BYTES_MAX, PATH_BYTES_MAX, SET_FILE_BYTES_MAX, SET_FILES_MAX};
use super::rule::RuleSet;
use ringside_core::Shown;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// Addresses that a rule names by their file (`@FILE`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressFile {
    /// The path as the rule has it.
    pub path: Box<str>,
    /// What the file held when it was read.
    pub addresses: AddressSet,
}

/// Where address files come from. Each is read once, however many rules name it.
#[derive(Clone, Debug, Default)]
pub struct Sets {
    folder: Option<PathBuf>,
    known: BTreeMap<Box<str>, Arc<AddressFile>>,
}

impl Sets {
    /// Reads no file: for rules from a user who may not read all files that this process may.
    pub fn none() -> Sets {
        Sets::default()
    }

    /// Reads files; relative paths count from `folder`.
    pub fn in_folder(folder: &Path) -> Sets {
        Sets { folder: Some(folder.to_owned()), known: BTreeMap::new() }
    }

    /// Gives the addresses for a path, so that no file is read for it.
    pub fn insert(&mut self, path: &str, addresses: AddressSet) {
        let file = AddressFile { path: path.into(), addresses };
        self.known.insert(path.into(), Arc::new(file));
    }

    /// What was read or given.
    pub fn files(&self) -> impl Iterator<Item = &Arc<AddressFile>> {
        self.known.values()
    }

    /// The file at `path`; the error is problem and fix.
    pub(super) fn get(&mut self, path: &str) -> Result<Arc<AddressFile>, (String, String)> {
        if let Some(file) = self.known.get(path) {
            return Ok(Arc::clone(file));
        }
        let Some(folder) = &self.folder else {
            let fix = "write the addresses in the rule, or load the rule from a file";
            return Err((format!("address file {path}: files are not read here"), fix.into()));
        };
        if self.known.len() == SET_FILES_MAX {
            let problem =
                format!("{path} is one address file too many, {SET_FILES_MAX} are allowed");
            return Err((problem, "join some of the files".into()));
        }
        let addresses = read_addresses(&folder.join(path))
            .map_err(|(problem, fix)| (format!("address file {path}: {problem}"), fix))?;
        let file = Arc::new(AddressFile { path: path.into(), addresses });
        self.known.insert(path.into(), Arc::clone(&file));
        Ok(file)
    }
}

fn read_addresses(path: &Path) -> Result<AddressSet, (String, String)> {
    let refused = |problem: String| (problem, "name a text file of addresses".to_owned());
    if path.as_os_str().len() > PATH_BYTES_MAX {
        return Err(refused(format!("a path has {PATH_BYTES_MAX} bytes at most")));
    }
    // A pipe or a device would block the load of the rules.
    let is_file = path.metadata().map(|metadata| metadata.is_file());
    if !is_file.map_err(|error| refused(error.to_string()))? {
        return Err(refused("it is no regular file".into()));
    }
    let text = read(path, SET_FILE_BYTES_MAX).map_err(|error| refused(error.to_string()))?;
    let text = text.ok_or_else(|| refused(too_long(SET_FILE_BYTES_MAX)))?;
    AddressSet::parse(&text).map_err(|errors| {
        let first = &errors.errors[0];
        let place = format!("line {}, column {}", first.line, first.column);
        (format!("{place}: {}", first.problem), first.fix.clone())
    })
}

fn too_long(limit: u64) -> String {
    format!("it has more than {limit} bytes")
}

/// A file as a whole; none if it is longer than `bytes_max`.
fn read(path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= bytes_max).then_some(bytes))
}

/// Why a file of rules cannot be used.
#[derive(Debug, Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error("rules in {}: {source}", path.shown())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It is longer than may be read.
    #[error("rules in {}: {}; put addresses into address files", path.shown(), too_long(*limit))]
    TooLong {
        /// Path of the file.
        path: PathBuf,
        /// The limit, in bytes.
        limit: u64,
    },
    /// It is wrong.
    #[error("rules in {}:\n{errors}", path.shown())]
    Rules {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with it.
        errors: RuleErrors,
    },
}

/// Reads a file of rules, and the address files in its directory that they name.
///
/// # Errors
/// The file cannot be read, is too long, or is wrong.
pub fn load(path: &Path) -> Result<RuleSet, LoadError> {
    load_with_sets(path).map(|(set, _)| set)
}

/// The same, with the address files that were read.
///
/// # Errors
/// As [`load`].
pub fn load_with_sets(path: &Path) -> Result<(RuleSet, Sets), LoadError> {
    let here = || path.to_owned();
    let text = read(path, FILE_BYTES_MAX)
        .map_err(|source| LoadError::Read { path: here(), source })?
        .ok_or_else(|| LoadError::TooLong { path: here(), limit: FILE_BYTES_MAX })?;
    let mut sets = Sets::in_folder(path.parent().unwrap_or(Path::new("")));
    let set = super::parse(&text, &mut sets);
    let set = set.map_err(|errors| LoadError::Rules { path: here(), errors })?;
    Ok((set, sets))
}
