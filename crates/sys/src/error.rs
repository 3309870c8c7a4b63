//! What the operating system refused.

use std::io;
use thiserror::Error;

/// Why a call of this crate failed: what was tried, and the system's reason.
#[derive(Debug, Error)]
pub enum SysError {
    /// The system refused.
    #[error("{context}: {source}")]
    Io {
        /// What was tried, with the value.
        context: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A filter was refused.
    #[error(transparent)]
    Bpf(#[from] crate::bpf::BpfError),
    /// A value beyond its limit.
    #[error("{what} is {value}, the limit is {limit}")]
    Limit {
        /// What was asked for.
        what: &'static str,
        /// The value.
        value: u64,
        /// What is allowed, as text.
        limit: String,
    },
    /// The interface is not up, so it receives nothing.
    #[error("the interface with index {ifindex} is down")]
    InterfaceDown {
        /// Kernel index.
        ifindex: u32,
    },
}

impl SysError {
    /// Wraps the system's reason.
    pub fn io(context: impl Into<String>, source: impl Into<io::Error>) -> SysError {
        SysError::Io { context: context.into(), source: source.into() }
    }

    /// The system's reason, where there is one.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            SysError::Io { source, .. } => Some(source.kind()),
            _ => None,
        }
    }

    /// True if a privilege is missing.
    pub fn is_permission_denied(&self) -> bool {
        self.io_kind() == Some(io::ErrorKind::PermissionDenied)
    }
}
