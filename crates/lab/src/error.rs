//! Why a test network could not be made or removed.

use std::path::PathBuf;
use thiserror::Error;

/// Errors of this crate.
#[derive(Debug, Error)]
pub enum Error {
    /// A name that cannot be part of a path.
    #[error(
        "`{name}` cannot name a test network: use lower-case letters, digits and hyphens, at most \
         {bytes_max}"
    )]
    Name {
        /// The name that was asked for.
        name: String,
        /// The longest name, in bytes.
        bytes_max: usize,
    },
    /// A number outside its limits.
    #[error("{what} is {value}, it must be {limit}")]
    Limit {
        /// What the number is.
        what: &'static str,
        /// The number that was asked for.
        value: u64,
        /// What is allowed.
        limit: String,
    },
    /// Threads for a NAPI that does not exist.
    #[error("a threaded NAPI needs the XDP program on the receiving end, which makes the NAPI")]
    NoNapi,
    /// The network exists.
    #[error("the test network {name} is up already{by}; remove it first")]
    AlreadyUp {
        /// Name of the network.
        name: String,
        /// Which process holds it, as text.
        by: String,
    },
    /// The network does not exist.
    #[error("there is no test network {name}; make one")]
    NotUp {
        /// Name of the network.
        name: String,
    },
    /// A namespace of another program.
    #[error(
        "the namespace {name} was not made by ringside (or was made again by another program): it \
         is left alone; if it is not needed, `ip netns del {name}`"
    )]
    Foreign {
        /// Name of the namespace.
        name: String,
    },
    /// Root is missing.
    #[error("test networks need root (CAP_NET_ADMIN and CAP_SYS_ADMIN): run it with sudo")]
    NotRoot,
    /// A tool that is not installed.
    #[error(
        "cannot run `{command}`: {source}; `apt-get install iproute2 ethtool` (or `make deps`)"
    )]
    NoTool {
        /// Command line of the tool.
        command: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A tool that failed.
    #[error("`{command}` failed: {said}")]
    ToolFailed {
        /// Command line of the tool.
        command: String,
        /// What it printed.
        said: String,
    },
    /// The kernel made fewer NAPI threads than queues.
    #[error(
        "{found} of {wanted} NAPI threads of {interface} were found; is the kernel 5.12 or later?"
    )]
    NapiThreads {
        /// NAPI threads that were found.
        found: usize,
        /// Queues of the interface, one thread each.
        wanted: usize,
        /// Name of the interface.
        interface: String,
    },
    /// A file that cannot be read or written.
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A state file that is none.
    #[error(
        "the state file {} is damaged ({reason}); remove it, and the namespaces that \
         `ip netns list` shows as ringside-NAME-a and -b",
        path.display()
    )]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A helper thread panicked: a bug.
    #[error("a thread ended by a bug of ringside; please report what it printed")]
    ThreadLost,
    /// The program of the receiving end.
    #[error(transparent)]
    Ebpf(#[from] ringside_ebpf::Error),
    /// The operating system.
    #[error(transparent)]
    Sys(#[from] ringside_sys::SysError),
}

impl Error {
    pub(crate) fn file(
        what: &'static str,
        path: impl Into<PathBuf>,
        source: impl Into<std::io::Error>,
    ) -> Error {
        Error::File { what, path: path.into(), source: source.into() }
    }
}
