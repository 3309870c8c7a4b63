//! The begin of a recording: its start, its locks and its first files.

use super::Recording;
use super::file::LaneFile;
use super::folder::Folder;
use super::lane::Lane;
use crate::start::RunError;
use ringside_core::Timestamp;
use ringside_store::StoreError;
use ringside_store::dir::{Dir, Entry};
use ringside_store::recording::{RunLock, file_name};
use ringside_store::retention::{RetentionError, remove_directory_lock};
use ringside_sys::clock;
use std::path::PathBuf;
use std::sync::Arc;

/// Seconds that are tried for the start of a run.
const START_TRIES: u64 = 60;
pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// A recording whose first files are there.
pub(super) struct Begun {
    pub(super) recording: Arc<Recording>,
    pub(super) folders: Vec<(Folder, Vec<LaneFile>)>,
    pub(super) unstarted: Unstarted,
}

/// Creates the first files, under a second that no other run has: one that begins at the same time
/// may take it between the look and the creation.
pub(super) fn begin(
    recording: &Recording,
    lanes: &[Lane],
    directories: &[Dir],
    direct: bool,
) -> Result<Begun, RunError> {
    let now = clock::realtime_now();
    let start = |tried: u64| free_start(directories, lanes, now.saturating_add(tried * SECOND_NS));
    begin_from(start, recording, lanes, directories, direct)
}

/// As `begin`; `start` says when, each time that the last one was taken.
pub(super) fn begin_from(
    mut start: impl FnMut(u64) -> Timestamp,
    recording: &Recording,
    lanes: &[Lane],
    directories: &[Dir],
    direct: bool,
) -> Result<Begun, RunError> {
    let mut tried = 0;
    loop {
        match begin_at(start(tried), recording, lanes, directories, direct) {
            Err(error) if is_taken(&error) && tried < START_TRIES => tried += 1,
            other => return other,
        }
    }
}

pub(super) fn is_taken(error: &RunError) -> bool {
    matches!(error, RunError::Store(StoreError::Retention(RetentionError::NameTaken { .. })))
}

pub(super) fn begin_at(
    start: Timestamp,
    recording: &Recording,
    lanes: &[Lane],
    directories: &[Dir],
    direct: bool,
) -> Result<Begun, RunError> {
    lanes.iter().for_each(Lane::restart_files);
    let recording = Arc::new(recording.begun_at(start));
    let (mut folders, mut unstarted) = (Vec::new(), Unstarted::default());
    for dir in directories {
        unstarted.locks.push(RunLock::create(dir, &recording.run)?);
        let folder = Folder::new(dir.clone(), recording.clone(), direct)?;
        let files = first_files(&folder, lanes, &mut unstarted)?;
        folders.push((folder, files));
    }
    Ok(Begun { recording, folders, unstarted })
}

/// The first file of each lane.
fn first_files(
    folder: &Folder,
    lanes: &[Lane],
    unstarted: &mut Unstarted,
) -> Result<Vec<LaneFile>, RunError> {
    let mut files = Vec::new();
    for (index, lane) in lanes.iter().enumerate() {
        let series = folder.create(lane)?;
        unstarted.files.push(series.entry().clone());
        files.push(folder.open(series, index)?);
    }
    Ok(files)
}

/// The start time for the names of the files: `from`, or the next second that is free, when a run
/// into one of the directories began within this second.
fn free_start(directories: &[Dir], lanes: &[Lane], from: Timestamp) -> Timestamp {
    let candidates = (0..START_TRIES).map(|second| from.saturating_add(second * SECOND_NS));
    let is_free = |start: &Timestamp| {
        lanes.iter().all(|lane| {
            // Each directory has one of the lanes' first files, whichever number it has.
            (0..directories.len() as u64).all(|sequence| {
                let name = file_name(*start, &lane.interface, lane.id, sequence);
                directories.iter().all(|dir| !dir.entry(&name).exists().unwrap_or(false))
            })
        })
    };
    candidates.into_iter().find(is_free).unwrap_or(from)
}

/// What is there of a recording before it starts. If it never does, nothing stays behind.
#[derive(Default)]
pub(super) struct Unstarted {
    pub(super) locks: Vec<RunLock>,
    pub(super) files: Vec<Entry>,
    pub(super) directories: MadeDirectories,
}

/// Directories that were made for a recording. If it never starts, those that are empty go again.
#[derive(Default)]
pub struct MadeDirectories(Vec<PathBuf>);

impl MadeDirectories {
    /// Makes what is missing of the directories, and of what they lie in.
    ///
    /// # Errors
    /// The system refused; nothing that was made stays.
    pub fn make(directories: &[PathBuf]) -> Result<MadeDirectories, RunError> {
        let mut made = MadeDirectories::default();
        for path in directories {
            let missing = path.ancestors().take_while(|path| !path.exists() && *path != "");
            let missing: Vec<_> = missing.map(PathBuf::from).collect();
            made.0.extend(missing.into_iter().rev());
            std::fs::create_dir_all(path)
                .map_err(|source| RunError::Directory { path: path.clone(), source })?;
        }
        Ok(made)
    }

    /// Opens them, to be held.
    ///
    /// # Errors
    /// One cannot be opened.
    pub(super) fn open(directories: &[PathBuf]) -> Result<Vec<Dir>, RunError> {
        let open = |path: &PathBuf| {
            Dir::open(path).map_err(|source| RunError::Directory { path: path.clone(), source })
        };
        directories.iter().map(open).collect()
    }

    /// They stay.
    pub fn keep(&mut self) {
        self.0.clear();
    }
}

impl Drop for MadeDirectories {
    fn drop(&mut self) {
        // The inner ones first.
        for path in self.0.iter().rev() {
            remove_directory_lock(path);
            // Best effort: it may hold something by now.
            let _ = std::fs::remove_dir(path);
        }
    }
}

impl Drop for Unstarted {
    fn drop(&mut self) {
        // Best effort: what stays holds no frame, and repair removes it.
        self.files.iter().for_each(|file| drop(file.remove()));
        // The directories go after this, as fields do.
        self.locks.drain(..).for_each(|lock| drop(lock.remove()));
    }
}
