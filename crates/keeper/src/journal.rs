//! The journal of turned knobs: written and synced before a knob is turned, so that whoever finds
//! it after a crash knows what to put back.
//!
//! One file per process that turned knobs, `knobs-PID-START.json`, replaced as a whole at each
//! change. The next start looks for journals of processes that are gone; the lock of the directory
//! sees to it that of two starts at once one puts the knobs back. What `ringside doctor --fix`
//! turns stays, and lies in a journal that belongs to no process.

use super::knob::{Knob, PutBack};
use super::process::ProcessIdentity;
use anyhow::{Context, bail};
use ringside_control::state_directory::{self, StateDirectory};
use ringside_core::Shown;
use ringside_sys::clock;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Version of the format.
const VERSION: u32 = 1;
/// Name of the journal of what stays turned.
const KEPT: &str = "doctor.json";
/// Knobs of one process: several for each interface of a run.
const KNOBS_MAX: usize = 4_096;
/// Longest journal that is read: what so many knobs take.
const BYTES_MAX: u64 = 2 << 20;
/// Directory entries that are looked at: bounds the start among foreign files.
const ENTRIES_MAX: usize = 10_000;

/// What lies in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Content {
    version: u32,
    /// Processes that use the knobs.
    users: Vec<ProcessIdentity>,
    /// The system's start in which they run: settings do not outlive it.
    boot_id: [u8; 16],
    /// Identity of the namespace that the process ids belong to.
    pid_namespace: u64,
    knobs: Vec<Knob>,
}

impl Content {
    fn read(bytes: &[u8]) -> anyhow::Result<Content> {
        let content: Content = serde_json::from_slice(bytes).context("it is damaged")?;
        if content.version != VERSION {
            bail!("it is of version {}, known is {VERSION}", content.version);
        }
        let knobs = content.knobs.len();
        if knobs > KNOBS_MAX {
            bail!("it has {knobs} knobs, the limit is {KNOBS_MAX}");
        }
        Ok(content)
    }
}

/// The journal of this process, or a found one.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    content: Content,
}

impl Journal {
    /// An empty journal of this process in the first directory that can be written. Nothing is
    /// written before the first knob.
    ///
    /// # Errors
    /// There is no such directory.
    pub fn create() -> anyhow::Result<Journal> {
        in_first_directory(Journal::create_in)
    }

    /// The journal of what stays turned until somebody wants it back, whatever process turned it:
    /// the one that is there, or an empty one in the first directory that can be written.
    ///
    /// # Errors
    /// There is no such directory, or the journal that is there is damaged.
    pub fn kept() -> anyhow::Result<Journal> {
        for directory in state_directory::candidates() {
            if let Some(journal) = Journal::kept_in(&directory.path)? {
                return Ok(journal);
            }
        }
        in_first_directory(|directory| Journal::create_at(directory.join(KEPT), Vec::new()))
    }

    /// The one that is there, of this start of the system.
    fn kept_in(directory: &Path) -> anyhow::Result<Option<Journal>> {
        let path = directory.join(KEPT);
        if !path.exists() {
            return Ok(None);
        }
        let context = || format!("{}: what was turned for good", path.shown());
        let journal = Journal::read(&path).with_context(context)?;
        if journal.content.boot_id != clock::boot_id()? {
            fs::remove_file(&path).with_context(context)?;
            return Ok(None);
        }
        Ok(Some(journal))
    }

    fn create_in(directory: &Path) -> anyhow::Result<Journal> {
        let process = ProcessIdentity::of(std::process::id()).context("/proc is not there")?;
        let name = format!("knobs-{}-{}.json", process.pid, process.start_ticks);
        Journal::create_at(directory.join(name), vec![process])
    }

    fn create_at(path: PathBuf, users: Vec<ProcessIdentity>) -> anyhow::Result<Journal> {
        let content = Content {
            version: VERSION,
            users,
            boot_id: clock::boot_id()?,
            pid_namespace: pid_namespace()?,
            knobs: Vec::new(),
        };
        let journal = Journal { path, content };
        // To be sure that it can be written when it must.
        journal.write()?;
        fs::remove_file(&journal.path)?;
        Ok(journal)
    }

    /// Notes that another process uses the knobs too.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn add_user(&mut self, process: ProcessIdentity) -> anyhow::Result<()> {
        self.content.users.push(process);
        self.write()
    }

    /// Notes a planned knob, then turns it.
    ///
    /// # Errors
    /// The journal cannot be written (then the knob is not touched), or the knob cannot be turned.
    pub fn turn(&mut self, knob: Knob) -> anyhow::Result<Knob> {
        if self.content.knobs.len() == KNOBS_MAX {
            bail!("{KNOBS_MAX} knobs are turned already");
        }
        // What is added to is read and written by several processes.
        let _lock = knob.is_relative().then(|| self.lock()).transpose()?;
        self.content.knobs.push(knob.clone());
        self.write().inspect_err(|_| self.forget_last())?;
        let mut turned = knob;
        let result = turned.turn();
        match &result {
            Ok(()) => {
                if let Some(last) = self.content.knobs.last_mut() {
                    last.clone_from(&turned);
                }
            }
            Err(_) => self.forget_last(),
        }
        self.write()?;
        result.map(|()| turned)
    }

    fn forget_last(&mut self) {
        self.content.knobs.pop();
    }

    /// Puts everything back, the last first; says what was done. To be called under the
    /// [lock](Journal::lock).
    pub fn put_back(&mut self) -> Vec<String> {
        let mut notes = Vec::new();
        while let Some(knob) = self.content.knobs.last().cloned() {
            // In this order a second crash between the two leaves a knob turned rather than
            // takes another process's pages.
            if knob.is_relative() {
                self.forget_last();
                self.write_or_note(&mut notes);
            }
            notes.push(match knob.put_back() {
                Ok(PutBack::Done) => format!("{}: put back", knob.name()),
                Ok(PutBack::Left(why)) => format!("{}: left as it is: {why}", knob.name()),
                Err(error) => format!("{}: cannot be put back: {error:#}", knob.name()),
            });
            if !knob.is_relative() {
                self.forget_last();
                self.write_or_note(&mut notes);
            }
        }
        notes
    }

    fn write_or_note(&self, notes: &mut Vec<String>) {
        if let Err(error) = self.write() {
            notes.push(format!("{error:#}"));
        }
    }

    /// Replaces the file; without knobs there is none.
    fn write(&self) -> anyhow::Result<()> {
        let context = || format!("writing {}", self.path.shown());
        if self.content.knobs.is_empty() && self.path.exists() {
            return fs::remove_file(&self.path).with_context(context);
        }
        let new = self.path.with_extension("new");
        let write = || -> io::Result<()> {
            // The directory is ours alone, so the name can only be our own earlier try.
            let _ = fs::remove_file(&new);
            let options = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new);
            let mut file = options?;
            file.write_all(&serde_json::to_vec(&self.content)?)?;
            file.sync_all()?;
            fs::rename(&new, &self.path)?;
            // The name must be there too before the knob is turned.
            File::open(self.path.parent().unwrap_or(Path::new(".")))?.sync_all()
        };
        write().with_context(context)
    }

    fn read(path: &Path) -> anyhow::Result<Journal> {
        let file = rustix::fs::open(
            path,
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let file = File::from(file);
        let metadata = file.metadata()?;
        if metadata.uid() != own_user() {
            bail!("it belongs to another user");
        }
        if !metadata.is_file() {
            bail!("it is no regular file");
        }
        let mut bytes = Vec::new();
        file.take(BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(Journal { path: path.to_owned(), content: Content::read(&bytes)? })
    }

    /// True if a process that uses the knobs is running, or may be where we cannot see it.
    fn is_in_use(&self) -> anyhow::Result<bool> {
        let elsewhere = self.content.pid_namespace != pid_namespace()?;
        Ok(elsewhere || self.content.users.iter().any(|user| user.is_alive()))
    }

    /// What is turned, for messages, the last first.
    pub fn names(&self) -> Vec<String> {
        self.content.knobs.iter().rev().map(Knob::name).collect()
    }

    /// Keeps others from changing journals of its directory meanwhile.
    ///
    /// # Errors
    /// As [`state_directory::lock`].
    pub fn lock(&self) -> anyhow::Result<File> {
        state_directory::lock(self.path.parent().unwrap_or(Path::new(".")))
    }

    /// Says whose knobs they were.
    fn owner(&self) -> u32 {
        self.content.users.first().map_or(0, |user| user.pid)
    }
}

/// Makes a journal in the first directory that can be written.
fn in_first_directory(make: impl Fn(&Path) -> anyhow::Result<Journal>) -> anyhow::Result<Journal> {
    let mut last = None;
    for directory in state_directory::candidates() {
        match directory.make().and_then(|()| make(&directory.path)) {
            Ok(journal) => return Ok(journal),
            Err(error) => last = Some(error),
        }
    }
    let error = last.unwrap_or_else(|| anyhow::anyhow!("no directory"));
    Err(error.context("there is no place for the journal of what is to be put back"))
}

/// For each process that is gone and left knobs turned: its id, and their names.
pub fn left_by_the_dead() -> Vec<(u32, Vec<String>)> {
    let directories = state_directory::candidates();
    let paths = directories.iter().flat_map(|directory| journals(&directory.path));
    let left = |path: PathBuf| {
        let journal = Journal::read(&path).ok()?;
        let of_this_start = journal.content.boot_id == clock::boot_id().ok()?;
        let is_left = of_this_start && !journal.is_in_use().ok()?;
        is_left.then(|| (journal.owner(), journal.names()))
    };
    paths.filter_map(left).collect()
}

/// Puts back what processes that are gone left turned; says what was done.
pub fn put_back_of_the_dead() -> Vec<String> {
    state_directory::candidates().iter().flat_map(put_back_in).collect()
}

fn put_back_in(directory: &StateDirectory) -> Vec<String> {
    let found = journals(&directory.path);
    if found.is_empty() {
        return Vec::new();
    }
    let _lock = match state_directory::lock(&directory.path) {
        Ok(lock) => lock,
        Err(error) => return vec![format!("{error:#}")],
    };
    let mut notes = Vec::new();
    for path in found {
        match put_back_journal(&path) {
            Ok(more) => notes.extend(more),
            Err(error) => {
                let aside = path.with_extension("damaged");
                // It would be told at every start.
                let moved = fs::rename(&path, &aside).is_ok();
                let kept = if moved { &aside } else { &path };
                let kept = kept.shown();
                notes.push(format!("a journal of knobs is of no use: {error:#}; it is {kept}"));
            }
        }
    }
    notes
}

fn put_back_journal(path: &Path) -> anyhow::Result<Vec<String>> {
    // Another start may have dealt with it since.
    if !path.exists() {
        return Ok(Vec::new());
    }
    let mut journal = Journal::read(path)?;
    if journal.content.boot_id != clock::boot_id()? {
        // Settings do not outlive the system's start.
        fs::remove_file(path)?;
        return Ok(Vec::new());
    }
    if journal.is_in_use()? {
        return Ok(Vec::new());
    }
    let owner = journal.owner();
    let notes = journal.put_back();
    // Also a journal that was written before its first knob.
    let _ = fs::remove_file(path);
    Ok(notes.into_iter().map(|note| format!("left turned by process {owner}: {note}")).collect())
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The journals of this user in a directory, by name. Others' are not believed: who could plant one
/// would have us write anything anywhere; and their owners put back what is theirs.
fn journals(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let is_journal = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let owner = fs::symlink_metadata(path).map(|metadata| metadata.uid());
        name.starts_with("knobs-") && name.ends_with(".json") && owner.ok() == Some(own_user())
    };
    let paths = entries.take(ENTRIES_MAX).filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<PathBuf> = paths.filter(is_journal).collect();
    found.sort();
    found
}

fn pid_namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}

#[cfg(test)]
mod hostile;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    struct Case {
        folder: tempfile::TempDir,
        value: PathBuf,
    }

    impl Case {
        fn new() -> Case {
            let folder = tempfile::tempdir().unwrap();
            let value = folder.path().join("value");
            fs::write(&value, "10").unwrap();
            Case { folder, value }
        }

        fn journal(&self) -> Journal {
            Journal::create_in(self.folder.path()).unwrap()
        }

        fn knob(&self, before: &str, after: &str) -> Knob {
            let (before, after) = (before.to_owned(), after.to_owned());
            Knob::File { path: self.value.clone(), before, after }
        }

        fn value(&self) -> String {
            fs::read_to_string(&self.value).unwrap()
        }

        fn put_back(&self) -> Vec<String> {
            put_back_in(&StateDirectory::at(self.folder.path()))
        }

        fn files(&self) -> usize {
            let entries = fs::read_dir(self.folder.path()).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name());
            names.filter(|name| name != ".lock" && name != "value").count()
        }

        /// What a process leaves that dies with its knobs turned.
        fn leave(&self, journal: &mut Journal, user: ProcessIdentity) {
            journal.content.users = vec![user];
            journal.write().unwrap();
        }
    }

    fn dead() -> ProcessIdentity {
        // Our own id, of an earlier process: ids are used again.
        ProcessIdentity { pid: std::process::id(), start_ticks: 1 }
    }

    #[test]
    fn knobs_are_put_back_in_reverse_order_and_the_file_goes() {
        let case = Case::new();
        let mut journal = case.journal();
        assert_eq!(case.files(), 0, "nothing is turned yet");
        journal.turn(case.knob("10", "20")).unwrap();
        journal.turn(case.knob("20", "30")).unwrap();
        assert_eq!((case.value().as_str(), case.files()), ("30", 1));
        let mode = fs::metadata(&journal.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let notes = journal.put_back();
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert_eq!((case.value().as_str(), case.files()), ("10", 0));
    }

    #[test]
    fn the_journal_is_written_before_the_knob_is_turned() {
        let case = Case::new();
        let mut journal = case.journal();
        fs::remove_file(&case.value).unwrap();
        // It cannot be turned; no other knob is forgotten for that.
        assert!(journal.turn(case.knob("10", "20")).is_err());
        assert!(journal.content.knobs.is_empty());
        fs::write(&case.value, "10").unwrap();
        let mut nowhere = Journal { path: "/proc/none/knobs".into(), ..case.journal() };
        assert!(nowhere.turn(case.knob("10", "20")).is_err());
        assert_eq!(case.value(), "10", "without a journal nothing is turned");
    }

    #[test]
    fn knobs_of_the_dead_are_put_back_and_those_of_the_living_are_not() {
        let case = Case::new();
        let mut journal = case.journal();
        journal.turn(case.knob("10", "20")).unwrap();
        assert!(case.put_back().is_empty());
        assert_eq!(case.value(), "20", "this process lives");
        case.leave(&mut journal, dead());
        let notes = case.put_back();
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].contains("put back"), "{notes:?}");
        assert_eq!((case.value().as_str(), case.files()), ("10", 0));
    }

    #[test]
    fn knobs_that_a_worker_still_uses_are_left() {
        let case = Case::new();
        let mut journal = case.journal();
        journal.turn(case.knob("10", "20")).unwrap();
        let worker = journal.content.users[0];
        journal.add_user(worker).unwrap();
        journal.content.users[0] = dead();
        journal.write().unwrap();
        assert!(case.put_back().is_empty());
        assert_eq!(case.value(), "20");
    }

    #[test]
    fn a_value_that_was_changed_meanwhile_is_left_and_told() {
        let case = Case::new();
        let mut journal = case.journal();
        journal.turn(case.knob("10", "20")).unwrap();
        fs::write(&case.value, "25").unwrap();
        case.leave(&mut journal, dead());
        let notes = case.put_back();
        assert!(notes[0].contains("left as it is"), "{notes:?}");
        assert_eq!((case.value().as_str(), case.files()), ("25", 0));
    }

    #[test]
    fn a_torn_journal_is_told_once_and_an_old_one_forgotten() {
        let case = Case::new();
        let mut journal = case.journal();
        journal.turn(case.knob("10", "20")).unwrap();
        case.leave(&mut journal, dead());
        let whole = fs::read(&journal.path).unwrap();
        for torn in [&whole[..whole.len() / 2], b"", b"[]", b"{\"version\":2}", &[0; 100]] {
            fs::write(&journal.path, torn).unwrap();
            let notes = case.put_back();
            assert!(notes[0].contains("of no use"), "{notes:?}");
            assert!(case.put_back().is_empty());
        }
        assert_eq!(case.value(), "20");
        journal.content.boot_id = [0; 16];
        case.leave(&mut journal, dead());
        assert!(case.put_back().is_empty());
        assert_eq!(case.value(), "20", "settings do not outlive the system's start");
    }

    #[test]
    fn a_journal_of_another_user_is_not_believed() {
        if !ringside_testkit::need_root("a_journal_of_another_user") {
            return;
        }
        let case = Case::new();
        let mut journal = case.journal();
        journal.turn(case.knob("10", "20")).unwrap();
        case.leave(&mut journal, dead());
        std::os::unix::fs::chown(&journal.path, Some(65534), None).unwrap();
        assert!(case.put_back().is_empty());
        assert_eq!(case.value(), "20");
        assert!(Journal::read(&journal.path).is_err());
    }

    #[test]
    fn what_is_kept_belongs_to_no_process_and_grows() {
        let case = Case::new();
        let path = case.folder.path().join(KEPT);
        let kept = || Journal::kept_in(case.folder.path()).unwrap();
        assert!(kept().is_none());
        let mut journal = Journal::create_at(path.clone(), Vec::new()).unwrap();
        assert!(kept().is_none(), "nothing is turned");
        journal.turn(case.knob("10", "20")).unwrap();
        assert!(case.put_back().is_empty(), "no start puts it back");
        let mut again = kept().unwrap();
        again.turn(case.knob("20", "30")).unwrap();
        assert_eq!(kept().unwrap().names().len(), 2);
        assert_eq!(kept().unwrap().put_back().len(), 2);
        assert_eq!((case.value().as_str(), case.files()), ("10", 0));
        fs::write(&path, "{").unwrap();
        assert!(
            Journal::kept_in(case.folder.path()).is_err(),
            "what is damaged is not thrown away"
        );
    }

    #[test]
    fn ids_of_another_namespace_are_not_judged() {
        let case = Case::new();
        let mut journal = case.journal();
        journal.turn(case.knob("10", "20")).unwrap();
        journal.content.pid_namespace += 1;
        case.leave(&mut journal, dead());
        assert!(case.put_back().is_empty());
        assert_eq!(case.value(), "20");
    }
}
