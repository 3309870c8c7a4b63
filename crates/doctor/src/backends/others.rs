//! Systems that Ringside does not receive with, as far as they are installed here: the other
//! columns of the comparison.

use serde::Serialize;
use std::fs::{read_dir, read_to_string};
use std::path::Path;

/// Where libraries lie.
const LIBRARIES: [&str; 6] = [
    "/usr/lib",
    "/usr/local/lib",
    "/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
];
/// Entries of a directory that are looked at.
const ENTRIES_MAX: usize = 100_000;

/// One of them.
#[derive(Serialize)]
pub struct Other {
    /// Its name.
    pub name: &'static str,
    /// What was found of it; none if it is not installed.
    pub found: Option<String>,
    /// Where it was looked for.
    pub probe: &'static str,
}

/// All of them.
pub fn all() -> Vec<Other> {
    let exists = |path: &'static str| Path::new(path).exists().then(|| path.to_owned());
    let kernel = read_to_string("/proc/net/pf_ring/info").ok();
    let version = kernel.and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("PF_RING Version"))?;
        Some(format!("module {}", line.trim_start_matches([' ', ':']).trim()))
    });
    vec![
        Other {
            name: "pf-ring",
            found: version.or_else(|| library("libpfring.so").map(|l| format!("{l}, no module"))),
            probe: "/proc/net/pf_ring/info, libpfring",
        },
        Other { name: "netmap", found: exists("/dev/netmap"), probe: "/dev/netmap" },
    ]
}

/// The longest name of a library that begins so: it tells the version.
fn library(prefix: &str) -> Option<String> {
    let entries = LIBRARIES.iter().filter_map(|folder| read_dir(folder).ok()).flatten();
    let names =
        entries.take(ENTRIES_MAX).flatten().filter_map(|e| e.file_name().into_string().ok());
    names.filter(|name| name.starts_with(prefix)).max_by_key(String::len)
}
