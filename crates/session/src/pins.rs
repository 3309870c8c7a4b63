//! Which files of a recording hold the answer to a question, so that they can be pinned.

use crate::filters::programs;
use ringside_core::TimeRange;
use ringside_search::{Finder, FrameFilter};
use ringside_store::recording::series_of;
use ringside_store::retention::PinnedFile;
use ringside_store::{Query, StoredSource};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Files that hold packets that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// They hold one at least, or cannot be read, and then may.
    pub files: Vec<PinnedFile>,
    /// Of these, files that cannot be read.
    pub unreadable: Vec<(PathBuf, String)>,
    /// They hold some, and have no name of a recorder: nothing deletes them anyhow.
    pub others: Vec<PathBuf>,
}

/// Looks in which files of the directory `path` packets of `range` match `expression`; in each up
/// to the first. `is_stopped` is asked now and then, and ends it: then `None`.
///
/// # Errors
/// The directory cannot be read, or libpcap refuses the expression.
pub fn files_that_hold(
    path: &Path,
    range: TimeRange,
    expression: &str,
    is_stopped: &dyn Fn() -> bool,
) -> anyhow::Result<Option<Held>> {
    let programs = programs(expression)?;
    let finder = Arc::new(Finder::of(programs.clone()));
    let mut filter = FrameFilter::of(programs);
    let mut held = Held::default();
    let (series, _) = series_of(&[path.to_owned()])?;
    for (series, file) in
        series.iter().flat_map(|one| one.files.iter().map(move |file| (one, file)))
    {
        let query = Query { inputs: vec![file.path.clone()], range };
        let found = match query.open_pruned(finder.clone()) {
            Ok(mut source) => holds_some(&mut source, &mut filter, is_stopped),
            // Retention was faster.
            Err(_) if !file.path.exists() => Ok(Some(false)),
            Err(error) => Err(Failure::Input(error.to_string())),
        };
        match found {
            Ok(None) => return Ok(None),
            Ok(Some(false)) => continue,
            Ok(Some(true)) => {}
            Err(Failure::Filter(error)) => return Err(error),
            Err(Failure::Input(error)) => held.unreadable.push((file.path.clone(), error)),
        }
        match PinnedFile::of(&file.path, series.lane) {
            Some(file) => held.files.push(file),
            None => held.others.push(file.path.clone()),
        }
    }
    Ok(Some(held))
}

enum Failure {
    /// It is the same for all files.
    Filter(anyhow::Error),
    Input(String),
}

/// True if a frame matches; `None` if that was not found out.
fn holds_some(
    source: &mut dyn StoredSource,
    filter: &mut FrameFilter,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Option<bool>, Failure> {
    for interface in source.interfaces() {
        filter.prepare(interface.link_type).map_err(Failure::Filter)?;
    }
    while !source.is_finished() {
        if is_stopped() {
            return Ok(None);
        }
        let batch = source.next_batch(Duration::MAX);
        let Some(batch) = batch.map_err(|error| Failure::Input(error.to_string()))? else {
            continue;
        };
        for frame in batch.iter() {
            let interface = batch.interface_of(&frame.meta);
            let interface = interface.map_err(|error| Failure::Input(error.to_string()))?;
            if filter.accepts(&frame, interface.link_type).map_err(Failure::Filter)? {
                return Ok(Some(true));
            }
        }
    }
    Ok(Some(false))
}
