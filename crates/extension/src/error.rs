//! Why a file is no extension.

use crate::abi::VERSION;
use crate::limits::{
    FILE_BYTES_MAX, MEMORY_BYTES_MAX, PACKET_BYTES_MAX, TRIAL_CPU_SECONDS, TRIAL_MEMORY_BYTES,
};
use ringside_ebpf::object::ObjectError;
use thiserror::Error;

/// Why a file is no extension.
#[derive(Debug, Error)]
pub enum ExtensionError {
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    Read(#[from] std::io::Error),
    /// The file is too long.
    #[error("it has more than {FILE_BYTES_MAX} bytes: compile it with optimisation, and strip it")]
    TooLong,
    /// It is no module.
    #[error("it is neither a WebAssembly module, as bytes or as text, nor an eBPF object: {0}")]
    Module(String),
    /// It is no eBPF object that is taken.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// It is no eBPF object that is taken, as the child said that tried it.
    #[error("{0}")]
    Refused(String),
    /// The child that tried it came to no end.
    #[error(
        "loading it ended without an answer ({0}): libbpf and the kernel have \
         {TRIAL_CPU_SECONDS} seconds of one CPU and {mib} MiB for that",
        mib = TRIAL_MEMORY_BYTES >> 20
    )]
    Trial(String),
    /// It wants something else than what there is.
    #[error(
        "it imports {module}.{name}: an extension may import ringside.emit, count, header, \
         payload_offset and payload_bytes, and nothing else"
    )]
    Import {
        /// The module that it imports from.
        module: String,
        /// What it imports from there.
        name: String,
    },
    /// It does not export what an extension has to.
    #[error("it has to export {0}")]
    Export(&'static str),
    /// It is made for another version of the interface.
    #[error("ringside_abi() says {0}: this program has version {VERSION} of the interface")]
    Version(i32),
    /// The buffer does not lie in its memory.
    #[error(
        "ringside_buffer() says {0}: {PACKET_BYTES_MAX} bytes from there are not in its memory"
    )]
    Buffer(u32),
    /// It cannot begin.
    #[error("it does not start: {0} (memory is limited to {MEMORY_BYTES_MAX} bytes)")]
    Start(String),
}
