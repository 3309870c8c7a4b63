//! Why a header could not be viewed.

use crate::LayerKind;
use thiserror::Error;

/// A header that cannot be read. It names the header, so that callers count causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// Fewer bytes than the header has.
    #[error("{header} needs {needed} bytes, {available} are there")]
    Truncated {
        /// Kind of the header.
        header: LayerKind,
        /// Bytes that it needs, as far as could be seen.
        needed: usize,
        /// Bytes that were there.
        available: usize,
    },
    /// A field that no valid header has.
    #[error("{header} has {field} {value}")]
    Malformed {
        /// Kind of the header.
        header: LayerKind,
        /// Name of the field.
        field: &'static str,
        /// What it held.
        value: u32,
    },
}

impl WireError {
    /// The header that could not be read.
    pub fn header(self) -> LayerKind {
        match self {
            WireError::Truncated { header, .. } | WireError::Malformed { header, .. } => header,
        }
    }
}
