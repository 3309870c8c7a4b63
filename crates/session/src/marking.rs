//! Files of a recording that hold frames which rules pin are pinned while the run goes on.

use ringside_capture::keep::{PinMark, PinMarks};
use ringside_core::{LaneId, Stamps, TimeRange, Timestamp};
use ringside_rules::language::RuleId;
use ringside_store::dir::Dir;
use ringside_store::recording::{StoredFile, series_of};
use ringside_store::retention::{Pin, PinnedFile, extend_pin};
use ringside_store::{Query, StoreError, StoredSource};
use ringside_sys::clock;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often marks are taken. They wait one turn more: by then their frames are in files.
const INTERVAL: Duration = Duration::from_secs(2);

/// The thread that pins.
pub(crate) struct Marking {
    ended: Sender<()>,
    thread: JoinHandle<()>,
}

impl Marking {
    /// Pins what is marked of the files of `run` in these directories, until it is finished.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn start(
        marks: PinMarks,
        run: &str,
        directories: Vec<PathBuf>,
    ) -> io::Result<Marking> {
        let (ended, end) = channel();
        let run = run.to_owned();
        let folders = directories.into_iter().map(Folder::new).collect();
        let mut pinner = Pinner { run, folders, pins: BTreeMap::new() };
        let work = move || pinner.work(&marks, &end);
        let thread = thread::Builder::new().name("pins".into()).spawn(work)?;
        Ok(Marking { ended, thread })
    }

    /// Pins what is left. All files are whole.
    pub(crate) fn finish(self) {
        drop(self.ended);
        if self.thread.join().is_err() {
            tracing::warn!("the thread died that pins files for rules; `ringside pin` does it too");
        }
    }
}

struct Pinner {
    run: String,
    folders: Vec<Folder>,
    pins: BTreeMap<RuleId, OwnPin>,
}

/// A directory of the recording.
struct Folder {
    path: PathBuf,
    /// Of each lane, the newest file when files were looked for the time before last, and the last
    /// time: what was marked since the former lies there or behind.
    newest: BTreeMap<LaneId, [u64; 2]>,
}

/// The pin of a rule, in each directory.
#[derive(Default)]
struct OwnPin {
    ids: BTreeMap<PathBuf, u64>,
    files: BTreeSet<PathBuf>,
    /// It was said that there is no room for more.
    is_full: bool,
}

impl Folder {
    fn new(path: PathBuf) -> Folder {
        Folder { path, newest: BTreeMap::new() }
    }

    /// The files of a run that may hold what was marked, with their lanes.
    fn files(&mut self, run: &str) -> Result<Vec<(LaneId, StoredFile)>, StoreError> {
        let (series, _) = series_of(std::slice::from_ref(&self.path))?;
        let mut files = Vec::new();
        for series in series.into_iter().filter(|series| series.run == run) {
            let [before, last] = self.newest.entry(series.lane).or_default();
            let newest = series.files.iter().map(|file| file.sequence).max().unwrap_or(0);
            let oldest = std::mem::replace(before, std::mem::replace(last, newest));
            let may_hold = |file: &StoredFile| file.sequence >= oldest;
            let found = series.files.into_iter().filter(may_hold);
            files.extend(found.map(|file| (series.lane, file)));
        }
        Ok(files)
    }
}

impl Pinner {
    fn work(&mut self, marks: &PinMarks, end: &Receiver<()>) {
        let mut waiting = Vec::new();
        loop {
            let is_end = end.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Disconnected);
            let due = std::mem::replace(&mut waiting, marks.take());
            self.pin(&due);
            if is_end {
                return self.pin(&waiting);
            }
        }
    }

    fn pin(&mut self, marks: &[PinMark]) {
        if marks.is_empty() {
            return;
        }
        let Pinner { run, folders, pins } = self;
        for folder in folders {
            let files = match folder.files(run) {
                Ok(files) => files,
                Err(error) => {
                    tracing::warn!("rules pin nothing in this directory now: {error}");
                    continue;
                }
            };
            for rule in marks.iter().map(|mark| mark.rule).collect::<BTreeSet<_>>() {
                let own = pins.entry(rule).or_default();
                let mut held = Vec::new();
                for (lane, file) in files.iter().filter(|(_, file)| !own.files.contains(&file.path))
                {
                    let of_file = |mark: &&PinMark| mark.rule == rule && mark.lane == *lane;
                    let spans = marks.iter().filter(of_file).map(|mark| mark.stamps);
                    if holds_some(file, spans) {
                        held.push((file.path.clone(), PinnedFile::of(&file.path, *lane)));
                    }
                }
                if !held.is_empty() {
                    own.extend(rule, &folder.path, held);
                }
            }
        }
    }
}

impl OwnPin {
    fn extend(
        &mut self,
        rule: RuleId,
        directory: &PathBuf,
        held: Vec<(PathBuf, Option<PinnedFile>)>,
    ) {
        let (paths, files): (Vec<_>, Vec<_>) = held.into_iter().unzip();
        let pin = Pin {
            id: self.ids.get(directory).copied().unwrap_or(0),
            note: format!("rule {}", rule.0),
            created: clock::realtime_now(),
            files: files.into_iter().flatten().collect(),
            ..Pin::default()
        };
        let made = Dir::open(directory).map_err(|error| error.to_string());
        let made = made.and_then(|dir| extend_pin(&dir, pin).map_err(|error| error.to_string()));
        match made {
            Ok(made) => {
                self.ids.insert(directory.clone(), made.pin.id);
                self.files.extend(paths);
            }
            Err(error) if !self.is_full => {
                self.is_full = true;
                tracing::warn!("rule {} pins no more files: {error}", rule.0);
            }
            Err(_) => {}
        }
    }
}

/// True if a file holds a frame of one of these spans of time, or cannot be read: then it may.
fn holds_some(file: &StoredFile, mut spans: impl Iterator<Item = Stamps>) -> bool {
    spans.any(|stamps| {
        let to = Timestamp(stamps.latest.0.saturating_add(1));
        let range = TimeRange { from: Some(stamps.earliest), to: Some(to) };
        let query = Query { inputs: vec![file.path.clone()], range };
        query.open().map_or_else(|_| file.path.exists(), |mut source| has_frames(&mut *source))
    })
}

fn has_frames(source: &mut dyn StoredSource) -> bool {
    while !source.is_finished() {
        match source.next_batch(Duration::MAX) {
            Ok(Some(_)) | Err(_) => return true,
            Ok(None) => {}
        }
    }
    false
}
