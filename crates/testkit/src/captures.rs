//! Real captures, where the folder exists. None is committed.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// The folder of real captures: `RINGSIDE_PCAPS`, else `../shared/pcaps` from the project's root.
pub fn capture_dir() -> Option<PathBuf> {
    let dir = match std::env::var_os("RINGSIDE_PCAPS") {
        Some(dir) => PathBuf::from(dir),
        None => crate::project_root().join("../shared/pcaps"),
    };
    dir.is_dir().then_some(dir)
}

/// Every `.pcap` and `.pcapng` file there, sorted by path. Empty, and `test` skipped visibly,
/// where the folder is missing.
pub fn capture_files(test: &str) -> Vec<PathBuf> {
    let Some(dir) = capture_dir() else {
        crate::skip(test, "no folder of real captures (../shared/pcaps or RINGSIDE_PCAPS)");
        return Vec::new();
    };
    let mut files = Vec::new();
    collect(&dir, &mut files);
    files.sort();
    files
}

/// Of [`capture_files`] one in `one_in` in the short run, and other ones for each test: together
/// they take about all. The long run takes all. For tests that start another program for each file.
pub fn capture_sample(test: &str, one_in: u64) -> Vec<PathBuf> {
    let one_in = crate::by_run(one_in, 1);
    let is_taken = |path: &PathBuf| {
        // By name: a capture that is added changes nothing for those that are there.
        let mut hasher = DefaultHasher::new();
        (test, path.file_name()).hash(&mut hasher);
        hasher.finish().is_multiple_of(one_in)
    };
    capture_files(test).into_iter().filter(is_taken).collect()
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let extension = path.extension().and_then(|e| e.to_str());
        if path.is_dir() {
            collect(&path, files);
        } else if matches!(extension, Some("pcap" | "pcapng")) {
            files.push(path);
        }
    }
}
