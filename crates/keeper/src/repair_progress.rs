//! Repair with its progress shown: a line on a terminal, else one each ten seconds.

use ringside_store::StoreError;
use ringside_store::repair::{Options, Report, Watch, repair_watched};
use ringside_terminal::progress::FileProgress;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Repairs, as [`repair_watched`].
///
/// # Errors
/// As there.
pub fn repair(
    paths: &[PathBuf],
    options: &Options,
    deadline: Option<Instant>,
) -> Result<Report, StoreError> {
    let progress = FileProgress::new();
    let report = |path: &Path, at, bytes| progress.report(path, at, bytes);
    let repaired = repair_watched(paths, options, &Watch { deadline, report: &report });
    progress.clear();
    repaired
}
