//! Repair of unfinished recordings: a process was killed, or the power failed.
//!
//! What is whole stays as it is, byte for byte. A torn end is cut; what cannot be read between
//! ring blocks becomes padding, its bytes kept; the header page counts what is there; each lane
//! gets a mark that says from when on nothing is known. All of it can be interrupted and begun
//! again, and a second repair changes nothing.
//!
//! A capture file of no recording, named alone, is looked at by [`capture`](CaptureReport): a torn
//! end is cut.
//!
//! Left alone: runs whose [lock](crate::recording::RunLock) somebody holds, and every file that is
//! not of a recording.

mod capture;
mod file;
mod find;
mod mark;
mod report;
mod walk;
mod watch;

pub use report::{
    CaptureReport, Change, FileReport, LaneReport, Missing, Report, RunReport, RunState, Unreadable,
};
pub use walk::Depth;
pub use watch::Watch;

use self::file::Examined;
use self::find::{Finds, Found, Run};
use self::walk::Seen;
use crate::dir::Entry;
use crate::recording::RunLock;
use crate::{StoreError, remove_index_draft, remove_orphaned_index_drafts};
use ringside_core::{LaneId, Shown};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What is to be repaired, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Only looks.
    pub dry_run: bool,
    /// Only runs that left a lock behind; else all, also copies of recordings.
    pub only_locked: bool,
    /// How much of each file is looked at.
    pub depth: Depth,
}

impl Options {
    /// For a recorder that starts: what runs before it left unfinished in its directories, and no
    /// more of it than a dead process can have left torn.
    pub const AT_START: Options = Options { dry_run: false, only_locked: true, depth: Depth::Tail };
    /// For a user who asks for it: everything.
    pub const IN_FULL: Options =
        Options { dry_run: false, only_locked: false, depth: Depth::Whole };
}

/// Repairs the recordings in `paths`: directories, which together hold a recording that lies in
/// several, or single files.
///
/// # Errors
/// One of `paths` cannot be read. What cannot be repaired is in the report.
pub fn repair(paths: &[PathBuf], options: &Options) -> Result<Report, StoreError> {
    repair_watched(paths, options, &Watch::NONE)
}

/// As [`repair`], watched. A file that is not looked at in time has an error in the report, and is
/// left as it is.
///
/// # Errors
/// As there.
pub fn repair_watched(
    paths: &[PathBuf],
    options: &Options,
    watch: &Watch<'_>,
) -> Result<Report, StoreError> {
    let finds = Finds::new(paths)?;
    let captures = finds.captures.iter().map(|path| capture::repair(path, options)).collect();
    let (unreadable, empty) = (finds.unreadable, finds.empty);
    let mut report = Report { runs: Vec::new(), captures, unreadable, empty };
    for (name, run) in finds.runs {
        if run.locks.is_empty() && options.only_locked {
            continue;
        }
        report.runs.push(repair_dead(name, &run, options, watch)?);
    }
    Ok(report)
}

/// Repairs the run `run` in `directories` for a process that holds its locks, which stay. A lane is
/// marked only if its end was torn.
///
/// # Errors
/// A directory cannot be read.
pub fn repair_run(
    run: &str,
    directories: &[PathBuf],
    depth: Depth,
) -> Result<RunReport, StoreError> {
    let found = Finds::new(directories)?.runs.remove(run).unwrap_or_default();
    let options = Options { dry_run: false, only_locked: false, depth };
    let mut work = Work::new(&found, false, &options, &Watch::NONE);
    work.apply();
    let state = match (work.has_errors(), work.has_changes()) {
        (true, _) => RunState::Failed,
        (_, true) => RunState::Repaired,
        (_, false) => RunState::Clean,
    };
    Ok(RunReport { run: run.to_owned(), state, files: work.reports, lanes: work.lanes })
}

/// Repairs one run whose lock no process holds.
fn repair_dead(
    name: String,
    run: &Run,
    options: &Options,
    watch: &Watch<'_>,
) -> Result<RunReport, StoreError> {
    let mut locks = Vec::new();
    for entry in &run.locks {
        match RunLock::try_take(entry)? {
            Some(lock) => locks.push(lock),
            // Held, or its run ended just now.
            None if entry.exists().unwrap_or(true) => {
                let (files, lanes) = (Vec::new(), Vec::new());
                return Ok(RunReport { run: name, state: RunState::Live, files, lanes });
            }
            None => {}
        }
    }
    let is_dead = !locks.is_empty();
    let mut work = Work::new(run, is_dead, options, watch);
    if !is_dead && !options.dry_run && work.has_changes() {
        // No other process may repair it meanwhile, nor have begun to since it was looked at.
        for directory in &run.directories {
            locks.push(RunLock::create(directory, &name)?);
        }
        work = Work::new(run, is_dead, options, watch);
    }
    let needed = work.has_changes() || is_dead;
    if !options.dry_run {
        work.apply();
        // Also of a recorder that died when its files were whole and its lock was gone, but not yet
        // all of its indexes made.
        run.files.iter().for_each(|found| remove_index_draft(&found.entry));
        run.directories.iter().for_each(remove_orphaned_index_drafts);
    }
    let state = match (work.has_errors(), needed, options.dry_run) {
        (true, ..) => RunState::Failed,
        (_, false, _) => RunState::Clean,
        (_, _, true) => RunState::Broken,
        _ => RunState::Repaired,
    };
    if !options.dry_run && state != RunState::Failed {
        for directory in run.directories.iter().filter(|_| needed) {
            let context = || format!("cannot sync {}", directory.path().shown());
            directory.sync().map_err(|error| StoreError::io(context(), error))?;
        }
        locks.into_iter().try_for_each(RunLock::remove)?;
    } else if !options.dry_run && !is_dead {
        // These locks are our own, and nothing of theirs was recorded.
        locks.into_iter().try_for_each(RunLock::remove)?;
    }
    Ok(RunReport { run: name, state, files: work.reports, lanes: work.lanes })
}

/// What is to be done for one run.
struct Work {
    /// What was looked at, each with its report at the same place.
    files: Vec<Option<Planned>>,
    reports: Vec<FileReport>,
    lanes: Vec<LaneReport>,
}

/// One file that can be repaired.
struct Planned {
    examined: Examined,
    /// Where it is to be moved.
    rename: Option<Entry>,
    /// It holds nothing and goes.
    remove: bool,
}

impl Work {
    fn new(run: &Run, is_dead: bool, options: &Options, watch: &Watch<'_>) -> Work {
        let mut work = Work { files: Vec::new(), reports: Vec::new(), lanes: Vec::new() };
        for found in &run.files {
            let examined = examine(run, found, options.depth, watch);
            let error = examined.as_ref().err().map(ToString::to_string);
            let planned = examined.ok().flatten().map(|e| Planned::new(e, found, is_dead));
            work.reports.push(FileReport {
                path: found.entry.path().to_owned(),
                ring_blocks: planned.as_ref().map_or(0, |planned| planned.examined.ring_blocks()),
                frames: planned.as_ref().and_then(|planned| {
                    let walked = &planned.examined.walked;
                    walked.is_whole.then_some(walked.frames)
                }),
                changes: Vec::new(),
                error,
            });
            work.files.push(planned);
        }
        work.plan_lanes(is_dead, &run.packed);
        for (planned, report) in work.files.iter().zip(&mut work.reports) {
            report.changes = planned.as_ref().map(Planned::changes).unwrap_or_default();
        }
        work
    }

    /// Marks the end of each unfinished lane, and finds out what is missing of it.
    fn plan_lanes(&mut self, is_dead: bool, packed: &[(LaneId, u64)]) {
        let mut lanes: BTreeMap<LaneId, Vec<&mut Examined>> = BTreeMap::new();
        for planned in self.files.iter_mut().flatten().filter(|planned| !planned.remove) {
            let lane = planned.examined.header.lane;
            lanes.entry(lane).or_default().push(&mut planned.examined);
        }
        for (lane, mut files) in lanes {
            let mut missing = missing(&files);
            // What was packed is not looked at, and not missing.
            missing.retain(|gap| {
                let blocks = gap.first_block..=gap.last_block;
                !packed.iter().any(|(of, first)| *of == lane && blocks.contains(first))
            });
            let unknown_after = files.iter().map(|file| file.last_time()).max();
            let last =
                files.iter_mut().max_by_key(|file| (file.last_block(), file.header.sequence));
            let mut unknown_after_ns = None;
            if let (Some(last), Some(unknown_after)) = (last, unknown_after) {
                if is_dead || last.walked.is_torn() {
                    last.plan_mark(unknown_after);
                }
                unknown_after_ns = last.marked;
            }
            self.lanes.push(LaneReport { lane, missing, unknown_after_ns });
        }
    }

    fn has_changes(&self) -> bool {
        self.reports.iter().any(|report| !report.changes.is_empty())
    }

    fn has_errors(&self) -> bool {
        self.reports.iter().any(|report| report.error.is_some())
    }

    fn apply(&mut self) {
        for (planned, report) in self.files.iter().zip(&mut self.reports) {
            let Some(planned) = planned.as_ref().filter(|_| !report.changes.is_empty()) else {
                continue;
            };
            if let Err(error) = planned.apply() {
                report.error = Some(error.to_string());
            }
        }
    }
}

fn examine(
    run: &Run,
    found: &Found,
    depth: Depth,
    watch: &Watch<'_>,
) -> Result<Option<Examined>, StoreError> {
    if !found.is_lost {
        return Examined::new(&found.entry, (depth, watch), None);
    }
    let page = run.lost_page(found)?;
    Examined::new(&found.entry, (Depth::Whole, watch), page.as_ref())
}

impl Planned {
    fn new(examined: Examined, found: &Found, is_dead: bool) -> Planned {
        // The first file of a lane stays, so that the run is not forgotten.
        let is_first = found.sequence == 0 && found.final_name.is_none();
        let remove = is_dead && examined.is_empty() && !is_first;
        let rename = found.final_name.as_ref().filter(|_| is_dead && !remove);
        let rename = rename.map(|name| found.entry.dir().entry(name));
        Planned { examined, rename, remove }
    }

    fn changes(&self) -> Vec<Change> {
        if self.remove {
            return vec![Change::Removed];
        }
        let mut changes = self.examined.changes();
        changes.extend(self.rename.as_ref().map(|_| Change::Renamed));
        changes
    }

    fn apply(&self) -> Result<(), StoreError> {
        let entry = self.examined.entry();
        let fail =
            |what, error| StoreError::io(format!("cannot {what} {}", entry.path().shown()), error);
        if self.remove {
            return entry.remove().map_err(|error| fail("remove", error));
        }
        self.examined.apply()?;
        let Some(to) = &self.rename else { return Ok(()) };
        entry.rename(to).map_err(|error| fail("rename", error))
    }
}

/// What is missing between the ring blocks of a lane's files, as far as all of them were looked
/// at.
fn missing(files: &[&mut Examined]) -> Vec<Missing> {
    let parts = files.iter().filter(|file| !file.walked.is_whole);
    let from = parts.filter_map(|file| file.walked.blocks.first()).map(|seen| seen.header.number);
    let from = from.max().unwrap_or(0);
    let all = files.iter().flat_map(|file| &file.walked.blocks);
    let mut blocks: Vec<&Seen> = all.filter(|seen| seen.header.number >= from).collect();
    blocks.sort_by_key(|seen| seen.header.number);
    blocks.dedup_by_key(|seen| seen.header.number);
    let gaps = blocks.windows(2).filter_map(|pair| {
        let [before, after] = [pair[0], pair[1]];
        let frame = before.header.first_frame.0.saturating_add(before.frames);
        let frames = after.header.first_frame.0.checked_sub(frame);
        let (last, next) = (before.header.number, after.header.number);
        let is_next = next <= last.saturating_add(1);
        (!is_next || frames != Some(0)).then_some(Missing {
            first_block: if is_next { last } else { last + 1 },
            last_block: if is_next { last } else { next - 1 },
            frames,
        })
    });
    gaps.collect()
}
