//! Why an eBPF program could not be loaded, attached or run.

use thiserror::Error;

/// Errors of this crate.
#[derive(Debug, Error)]
pub enum Error {
    /// libbpf or the kernel refused.
    #[error("{what}: {source}{}", mend(.source))]
    Kernel {
        /// What was tried.
        what: String,
        /// The reason.
        source: libbpf_rs::Error,
    },
    /// An object lacks what its loader expects: a bug of the build.
    #[error("the embedded object {object} has no {part}; the build is broken, build again")]
    Object {
        /// Name of the object.
        object: &'static str,
        /// What is missing.
        part: String,
    },
    /// A frame that live frames cannot carry.
    #[error(
        "a frame of {bytes} bytes cannot be sent as a live frame, which carries {min} to {max} \
         bytes; use the packet sender for other sizes"
    )]
    FrameSize {
        /// Asked for.
        bytes: usize,
        /// Smallest.
        min: usize,
        /// Largest.
        max: usize,
    },
    /// A configuration that no program can run.
    #[error("the generator's {field} is {value}, it must be {limit}")]
    Config {
        /// Which field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What is allowed.
        limit: String,
    },
}

impl Error {
    pub(crate) fn kernel(what: impl Into<String>, source: libbpf_rs::Error) -> Error {
        Error::Kernel { what: what.into(), source }
    }
}

fn mend(source: &libbpf_rs::Error) -> &'static str {
    match source.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => {
            "; it needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN: run it as root"
        }
        _ => "",
    }
}
