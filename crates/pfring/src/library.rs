//! The library, found and opened once.

use crate::api::Api;
use crate::error::PfRingError;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Its names: as the linker finds it, and where PF_RING's own `make install` puts it.
const NAMES: [&str; 3] = ["libpfring.so", "libpfring.so.8", "/usr/local/lib/libpfring.so"];

/// PF_RING's library. It stays open to the end of the process.
#[derive(Clone, Copy)]
pub struct Library {
    pub(crate) api: &'static Api,
}

impl Library {
    /// That of this machine.
    ///
    /// # Errors
    /// There is none, or it is too old.
    pub fn find() -> Result<Library, PfRingError> {
        static FOUND: OnceLock<Result<Library, PfRingError>> = OnceLock::new();
        let look = || {
            let mut reason = String::new();
            for name in NAMES {
                match Library::at(Path::new(name)) {
                    Err(PfRingError::NoLibrary { reason: said }) => reason = said,
                    other => return other,
                }
            }
            Err(PfRingError::NoLibrary { reason })
        };
        FOUND.get_or_init(look).clone()
    }

    /// That of a file.
    ///
    /// # Errors
    /// The file cannot be opened, or lacks a function.
    pub fn at(path: &Path) -> Result<Library, PfRingError> {
        // SAFETY: a library of the linker's own folders, or one that the caller names; its
        // constructors prepare it and nothing else.
        let opened = unsafe { libloading::Library::new(path) };
        let library = opened.map_err(|error| {
            let source = std::error::Error::source(&error);
            PfRingError::NoLibrary { reason: source.map_or(error.to_string(), ToString::to_string) }
        })?;
        let path: PathBuf = path.to_owned();
        // SAFETY: functions of these names are PF_RING's, of these types (its manual).
        let api = unsafe { Api::of(&library, &path) }?;
        // Threads of the library's may run in it, and every ring has its functions.
        std::mem::forget(library);
        Ok(Library { api: Box::leak(Box::new(api)) })
    }

    /// The release that it was built for, as `8.9.0`.
    pub fn release(&self) -> String {
        let mut version = 0;
        // SAFETY: without a ring it tells its own number; room for the answer.
        unsafe { (self.api.pfring_version)(std::ptr::null_mut(), &raw mut version) };
        format!("{:x}.{:x}.{:x}", version >> 16 & 0xff, version >> 8 & 0xff, version & 0xff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_missing_or_another_is_reported_with_the_fix() {
        let error = |path: &str| Library::at(Path::new(path)).err().unwrap().to_string();
        assert!(error("/nowhere/libpfring.so").contains("packages.ntop.org"));
        let other = error("libc.so.6");
        assert!(other.contains("pfring_open") && other.contains("PF_RING 8"), "{other}");
    }
}
