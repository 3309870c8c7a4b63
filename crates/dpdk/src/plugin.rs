//! The plug-in, found and opened once.

use crate::error::DpdkError;
use crate::log;
use crate::table::Table;
use libloading::Library;
use std::ffi::{CStr, c_int};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The plug-in's file.
pub const FILE_NAME: &str = "libringside_dpdk.so";

/// The function that gives out its table.
const TABLE: &[u8] = b"ringside_dpdk_table\0";

/// DPDK's release, as "DPDK 22.11.11".
///
/// # Errors
/// There is no plug-in, or none that can be opened.
pub fn release() -> Result<String, DpdkError> {
    let table = table()?;
    // SAFETY: rte_version gives a text that lives as long as the library, which is never closed.
    let text = unsafe { CStr::from_ptr((table.release)()) };
    Ok(text.to_string_lossy().into_owned())
}

/// Its table. The plug-in stays open: threads of DPDK's run in it to the process's end.
pub(crate) fn table() -> Result<&'static Table, DpdkError> {
    static PLUGIN: OnceLock<Result<&'static Table, DpdkError>> = OnceLock::new();
    PLUGIN.get_or_init(|| open(&places())).clone()
}

/// The folders in which it may be: next to the binary, where cargo puts tests' binaries one deeper,
/// and where `make install` puts it.
fn places() -> Vec<PathBuf> {
    let exe = std::env::current_exe().unwrap_or_default();
    let Some(folder) = exe.parent() else { return Vec::new() };
    let mut places = vec![folder.to_owned()];
    if let Some(above) = folder.parent() {
        if folder.ends_with("deps") {
            places.push(above.to_owned());
        }
        places.push(above.join("lib/ringside"));
    }
    places
}

fn open(places: &[PathBuf]) -> Result<&'static Table, DpdkError> {
    let paths = places.iter().map(|place| place.join(FILE_NAME));
    match paths.into_iter().find(|path| path.is_file()) {
        Some(path) => open_at(&path),
        None => Err(DpdkError::NoPlugin { looked: places.to_vec() }),
    }
}

fn open_at(path: &Path) -> Result<&'static Table, DpdkError> {
    let unopened = |error: libloading::Error| {
        // The linker's words name the file once more.
        let reason = std::error::Error::source(&error)
            .map_or_else(|| error.to_string(), ToString::to_string);
        DpdkError::Unopened { path: path.to_owned(), reason }
    };
    // SAFETY: the file lies where only who may replace the binary can put one; its constructors are
    // those of DPDK's libraries, which register drivers and nothing else.
    let library = unsafe { Library::new(path) }.map_err(unopened)?;
    // SAFETY: a function of that name and type is all that the plug-in exports.
    let table = unsafe { library.get::<unsafe extern "C" fn() -> *const Table>(TABLE) };
    let table = *table.map_err(unopened)?;
    // SAFETY: it takes nothing and gives a pointer to a constant.
    let table = unsafe { table() };
    std::mem::forget(library);
    // SAFETY: the constant lives as long as the library, which stays open. Version and sizes, which
    // every table begins with, are looked at before anything else of it.
    let table = unsafe { table.as_ref() };
    let reason = match table.map(Table::difference) {
        Some(None) => None,
        Some(difference) => difference,
        None => Some("it has no table".to_owned()),
    };
    match (table, reason) {
        (Some(table), None) => Ok(table),
        (_, reason) => {
            Err(DpdkError::OtherBuild { path: path.to_owned(), reason: reason.unwrap_or_default() })
        }
    }
}

impl Table {
    /// What `done` says, of what was tried.
    pub(crate) fn check(&self, what: &str, done: c_int) -> Result<u32, DpdkError> {
        u32::try_from(done).map_err(|_| {
            // SAFETY: it gives the calling thread's own text, which lives until its next refusal.
            let reason = unsafe { CStr::from_ptr((self.why)()) };
            DpdkError::Refused {
                what: what.to_owned(),
                reason: reason.to_string_lossy().into_owned(),
                log: log::take_last(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plug_in_that_is_missing_or_none_is_reported_with_the_fix() {
        let folder = tempfile::tempdir().unwrap();
        let places = [folder.path().to_owned()];
        let error = open(&places).err().unwrap().to_string();
        assert!(error.contains("apt-get install libdpdk-dev"), "{error}");
        std::fs::write(folder.path().join(FILE_NAME), b"no library").unwrap();
        let error = open(&places).err().unwrap().to_string();
        assert!(error.contains("apt-get install dpdk"), "{error}");
        assert!(error.contains("ELF") || error.contains("too short"), "{error}");
    }
}
