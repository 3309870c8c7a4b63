//! The library, found and opened once.

use crate::api::Api;
use crate::error::KafkaError;
use std::ffi::CStr;
use std::path::Path;
use std::sync::OnceLock;

/// Its names: as programs find it that were built with it, and as builders do.
const NAMES: [&str; 2] = ["librdkafka.so.1", "librdkafka.so"];

/// The oldest that will do, 2.0.0, as the library writes it.
const OLDEST: i32 = 0x0200_00ff;

/// librdkafka. It stays open to the end of the process.
#[derive(Clone, Copy)]
pub struct Library {
    pub(crate) api: &'static Api,
}

impl Library {
    /// That of this machine.
    ///
    /// # Errors
    /// It is missing, or too old.
    pub fn find() -> Result<Library, KafkaError> {
        static FOUND: OnceLock<Result<Library, KafkaError>> = OnceLock::new();
        let look = || {
            let mut first = None;
            for name in NAMES {
                match Library::at(Path::new(name)) {
                    Err(KafkaError::NoLibrary { reason }) => first = first.or(Some(reason)),
                    other => return other,
                }
            }
            Err(KafkaError::NoLibrary { reason: first.unwrap_or_default() })
        };
        FOUND.get_or_init(look).clone()
    }

    /// That of a file.
    ///
    /// # Errors
    /// The file cannot be opened, or lacks a function.
    pub fn at(path: &Path) -> Result<Library, KafkaError> {
        // SAFETY: a library of the linker's own folders, or one that the caller names; its
        // constructors prepare it and nothing else.
        let opened = unsafe { libloading::Library::new(path) };
        let library = opened.map_err(|error| {
            let source = std::error::Error::source(&error);
            KafkaError::NoLibrary { reason: source.map_or(error.to_string(), ToString::to_string) }
        })?;
        // SAFETY: functions of these names are librdkafka's, of these types (`rdkafka.h`).
        let api = unsafe { Api::of(&library, path) }?;
        // Its threads run in it, and every client has its functions.
        std::mem::forget(library);
        let library = Library { api: Box::leak(Box::new(api)) };
        // SAFETY: it tells a number.
        let version = unsafe { (library.api.rd_kafka_version)() };
        if version < OLDEST {
            return Err(KafkaError::TooOld { version: library.version() });
        }
        Ok(library)
    }

    /// Its version, as `2.0.2`.
    pub fn version(&self) -> String {
        // SAFETY: a text of the library's that stays.
        let text = unsafe { CStr::from_ptr((self.api.rd_kafka_version_str)()) };
        text.to_string_lossy().into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_missing_or_another_is_reported_with_the_fix() {
        let error = |path: &str| Library::at(Path::new(path)).err().unwrap().to_string();
        assert!(error("/nowhere/librdkafka.so").contains("librdkafka1"));
        let other = error("libc.so.6");
        assert!(other.contains("rd_kafka_version") && other.contains("2.0"), "{other}");
    }
}
