//! Why DPDK cannot be used.

use std::path::PathBuf;
use thiserror::Error;

/// Why DPDK, or a device, cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DpdkError {
    /// This build has no plug-in.
    #[error(
        "the plug-in {} is not in {}: it is built where DPDK 22.11 or newer is (`apt-get install \
         libdpdk-dev`, then `make build`), and belongs next to the binary",
        crate::FILE_NAME,
        .looked.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    )]
    NoPlugin {
        /// The folders that were looked in.
        looked: Vec<PathBuf>,
    },
    /// It is there, and cannot be opened.
    #[error("{}: {reason}; DPDK's libraries are in `apt-get install dpdk`", .path.display())]
    Unopened {
        /// The plug-in.
        path: PathBuf,
        /// The linker's words.
        reason: String,
    },
    /// It is of another build.
    #[error("{} is of another build ({reason}): `make build` builds both", .path.display())]
    OtherBuild {
        /// The plug-in.
        path: PathBuf,
        /// What differs.
        reason: String,
    },
    /// Huge pages were not asked for when it was started, and cannot be any more.
    #[error(
        "DPDK was started without huge pages, for a device that needs none; name the card first"
    )]
    StartedWithout,
    /// DPDK or a driver refused.
    #[error("{what}: {reason}{}", said(.log))]
    Refused {
        /// What was tried.
        what: String,
        /// What it says.
        reason: String,
        /// What it logged meanwhile.
        log: Vec<String>,
    },
}

fn said(log: &[String]) -> String {
    if log.is_empty() { String::new() } else { format!(" (DPDK's log: {})", log.join("; ")) }
}
