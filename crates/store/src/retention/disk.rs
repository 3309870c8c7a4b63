//! A directory of a file system: the lock file, the files of recordings, who still writes.
//!
//! Everything goes through the open directory ([`Dir`]), so that it may be moved; no symbolic
//! link is followed and nothing but regular files is opened.

use super::RetentionError;
use super::drafts::draft_of;
use super::folder::{Born, FileFacts, Folder, name_of_spare, reused_name};
use super::pins::Pins;
use super::state::{STATE_BYTES, STATE_VERSION, State};
use crate::IndexMaker;
use crate::dir::Dir;
use crate::file_header::is_finished;
use crate::file_name::parts_of_name;
use crate::part::index_name;
use crate::recording::{FileHeader, MappedFiles, Reused, is_room_at, read_stored_header};
use crate::run_lock::{LockState, lock_state};
use crate::seekable::{packed_name, unpacked_name};
use crate::writer::{FILE_MODE, LOCK_MODE};
use ringside_core::Shown;
use ringside_sys::disk::{Lease, is_in_memory};
use ringside_sys::file_lock;
use ringside_sys::file_map::FileMap;
use rustix::fs::{self, AtFlags, FlockOperation, Mode, OFlags, Statx, StatxFlags};
use rustix::io::Errno;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Lock of the directory; its content is the [`State`].
pub(super) const LOCK_NAME: &str = ".ringside.lock";
/// Longest wait for the lock. It is held while files are deleted and one is created: a second at
/// most, unless the disk or the holder hangs, and then waiting longer does not help.
const LOCK_WAIT: Duration = Duration::from_secs(10);
/// How often the lock is tried meanwhile.
const LOCK_POLL: Duration = Duration::from_millis(5);
/// By then recorders have let go of what others deleted (they sweep [`MappedFiles`] each 0.8 s).
const LET_GO: Duration = Duration::from_secs(1);
/// Names in a directory: as many as a reader of recordings takes.
const NAMES_MAX: usize = 1 << 20;

/// Unit of `stx_blocks`.
pub(super) const STAT_BLOCK_BYTES: u64 = 512;

/// The directory, as one process sees it.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) dir: Dir,
    lock: File,
    /// Header pages that were read before, by name: they are not read again each time.
    headers: HashMap<String, Cached>,
    /// Finished files that are mapped, where files are used again.
    pub(super) mapped: Arc<MappedFiles>,
    /// A file that was handed over and waits to be taken.
    pub(super) reused: Option<Reused>,
}

/// What was found in a file, and which file that was.
#[derive(Clone, Debug)]
struct Cached {
    identity: Identity,
    /// `None`: not a file of a recording.
    header: Option<(FileHeader, u64)>,
}

/// Tells a file from another that comes to have its name or its inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    inode: u64,
    created: (i64, u32),
}

/// Removes the lock of a directory in which there is nothing else, so that the directory can go.
pub fn remove_directory_lock(directory: &Path) {
    let Ok(dir) = Dir::open(directory) else { return };
    let names = dir.names().into_iter().flatten();
    // Two tell as much as all.
    let names: Vec<_> = names.take(2).filter_map(|name| Some(name.ok()?.0)).collect();
    if names == [LOCK_NAME] {
        // Best effort: the directory stays with it.
        let _ = dir.entry(LOCK_NAME).remove();
    }
}

impl Disk {
    /// Removes the index of a file that is gone, if there is one, and what a killed process left of
    /// one. Best effort: without its file it means nothing.
    fn remove_index(&self, name: &str) {
        let first = unpacked_name(name).unwrap_or(name);
        let other = if first == name { packed_name(name) } else { first.to_owned() };
        // Of a file that was just packed the other copy may be there.
        if self.dir.entry(other).exists().unwrap_or(true) {
            return;
        }
        let _ = self.dir.entry(index_name(name)).remove();
        for maker in IndexMaker::ALL {
            let _ = self.dir.entry(maker.draft_of(name.as_ref())).remove();
        }
    }

    /// Makes the lock file of the directory.
    pub(super) fn open(dir: &Dir) -> Result<Disk, RetentionError> {
        let (lock, dir) = (open_lock(dir)?, dir.clone());
        Ok(Disk { dir, lock, headers: HashMap::new(), mapped: Arc::default(), reused: None })
    }

    /// Takes the lock of the directory.
    pub(super) fn lock(&mut self) -> Result<(), RetentionError> {
        let start = Instant::now();
        let path = self.lock_path();
        while start.elapsed() < LOCK_WAIT {
            match fs::flock(&self.lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if self.is_lock_current() => return Ok(()),
                // Someone removed the file: those who come later would lock another.
                Ok(()) => self.lock = open_lock(&self.dir)?,
                Err(Errno::WOULDBLOCK | Errno::INTR) => std::thread::sleep(LOCK_POLL),
                Err(error) => {
                    let context = format!("cannot lock {}", path.shown());
                    return Err(RetentionError::io(context, error));
                }
            }
        }
        let holder = file_lock::holder(&self.lock);
        Err(RetentionError::Locked { path, seconds: LOCK_WAIT.as_secs(), holder })
    }

    /// Gives the lock back.
    pub(super) fn unlock(&mut self) {
        // It cannot fail for a lock that is held; if it did, the end of the process unlocks.
        let _ = fs::flock(&self.lock, FlockOperation::Unlock);
    }

    /// Notes that the file whose name the state holds has been created, or will not be.
    pub(super) fn end_creation(&mut self) {
        if let Ok(mut state) = self.state()
            && let Some(name) = state.creating.take()
        {
            // A file that was reused and then not needed: making it failed, or no recorder took it.
            if self.remove(&reused_name(&name)).is_err_and(|e| e.kind() != ErrorKind::NotFound) {
                return;
            }
            // If it cannot be noted, the next reservation looks at the file.
            let _ = self.set_state(&state);
        }
    }

    fn is_lock_current(&self) -> bool {
        self.dir.entry(LOCK_NAME).is(&self.lock)
    }

    fn lock_path(&self) -> PathBuf {
        self.path().join(LOCK_NAME)
    }

    pub(super) fn fail(&self, what: &str, error: impl Into<io::Error>) -> RetentionError {
        RetentionError::io(format!("cannot {what} {}", self.path().shown()), error)
    }

    /// Names that files of recordings may have. A file that is renamed while a directory is being
    /// read may appear under both its names, or neither: so it is read twice, and the name that a
    /// spare file is to have is looked for as well.
    fn names(&self) -> Result<BTreeSet<String>, RetentionError> {
        let mut names = BTreeSet::new();
        for _ in 0..2 {
            let list = self.dir.names().map_err(|e| self.fail("read directory", e))?;
            for (count, name) in list.enumerate() {
                let (name, _) = name.map_err(|e| self.fail("read directory", e))?;
                if count == NAMES_MAX {
                    let (directory, limit) = (self.path().to_owned(), NAMES_MAX);
                    let what = "names; give recordings a directory of their own";
                    return Err(RetentionError::TooMany { directory, limit, what });
                }
                // A name that is no text is not ours.
                let Some(name) = name.to_str() else { continue };
                let final_name = name_of_spare(name).unwrap_or(name);
                let first_name = unpacked_name(final_name).unwrap_or(final_name);
                if parts_of_name(first_name).is_some() && draft_of(name).is_none() {
                    names.extend([name, final_name].map(str::to_owned));
                    // It may be packed meanwhile.
                    names.insert(packed_name(first_name));
                }
            }
        }
        Ok(names)
    }

    /// How the lock of a run stands.
    pub(super) fn run_lock(&self, run: &str) -> Result<LockState, RetentionError> {
        lock_state(&self.dir, run)
            .map_err(|error| self.fail(&format!("look whether run {run} lives in"), error))
    }

    /// Size, allocation and identity of a regular file; `None` for anything else, or if it is gone.
    pub(super) fn look(&self, name: &str) -> Result<Option<Statx>, RetentionError> {
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        match fs::statx(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW, wanted) {
            Ok(found) if fs::FileType::from_raw_mode(found.stx_mode.into()).is_file() => {
                Ok(Some(found))
            }
            Ok(_) | Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.fail(&format!("look at {name} in"), error)),
        }
    }

    /// The header page of a file: from memory, if what it says cannot have changed.
    fn header(&mut self, name: &str, found: &Statx) -> Result<Cached, RetentionError> {
        let created = (found.stx_btime.tv_sec, found.stx_btime.tv_nsec);
        let identity = Identity { inode: found.stx_ino, created };
        if let Some(cached) = self.headers.get(name)
            && let Some((header, _)) = &cached.header
            && cached.identity == identity
            && is_finished(header.bytes_max, found.stx_size)
        {
            return Ok(cached.clone());
        }
        let header = match self.dir.entry(name).open(OFlags::RDONLY, 0) {
            Ok(file) => read_stored_header(&file).map_err(|e| self.fail("read in", e))?,
            Err(error) if is_gone(&error) => None,
            Err(error) => return Err(self.fail(&format!("open {name} in"), error)),
        };
        // A file that was given another name, or the name of another file, is its owner's.
        let final_name = name_of_spare(name).unwrap_or(name);
        let (first_name, is_named_packed) = match unpacked_name(final_name) {
            Some(first) => (first, true),
            None => (final_name, false),
        };
        let parts = parts_of_name(first_name);
        let header = header
            .filter(|(header, is_packed)| {
                let is_named = parts == Some((header.file.lane, header.file.sequence));
                is_named && *is_packed == is_named_packed
            })
            .map(|(mut header, is_packed)| {
                if is_packed {
                    // It had ended before, and will never be larger.
                    header.file.bytes_max = found.stx_size.max(1);
                }
                (header.file, header.bytes as u64)
            });
        Ok(Cached { identity, header })
    }

    /// Asked of spare files only: others hold frames or are being written.
    fn begins_with_room(&self, name: &str, header_bytes: u64) -> bool {
        let open = |_| self.dir.entry(name).open(OFlags::RDONLY, 0).ok();
        let file = name_of_spare(name).and_then(open);
        file.is_some_and(|file| is_room_at(&file, header_bytes))
    }

    /// Opens a file for writing, if it is the one that was looked at; with its mapping, if it has
    /// one. Another opening would keep it from being alone.
    fn open_known(&self, name: &str) -> Option<(File, Option<FileMap>)> {
        let known = self.headers.get(name)?.identity.inode;
        if let Some((file, map)) = self.mapped.take(known) {
            return Some((file, Some(map)));
        }
        let file = self.dir.entry(name).open(OFlags::RDWR, 0).ok()?;
        (fs::fstat(&file).ok()?.st_ino == known).then_some((file, None))
    }

    /// True if `file` is the one of that name and of no other, and is as one that this process
    /// would make here.
    fn is_own(&self, file: &File, name: &str) -> bool {
        let (Ok(found), Ok(directory)) = (fs::fstat(file), fs::fstat(&self.dir)) else {
            return false;
        };
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        let is_inherited = directory.st_mode & Mode::SGID.bits() != 0;
        let group = if is_inherited { directory.st_gid } else { group.as_raw() };
        self.dir.entry(name).is(file)
            && found.st_nlink == 1
            && (found.st_uid, found.st_gid) == (user.as_raw(), group)
            && found.st_mode & 0o7777 & !FILE_MODE == 0
            && !has_attributes(file)
    }

    /// What retention has to know of a file; `None` if it is not of a recording.
    fn facts(&mut self, name: &str) -> Result<Option<(Cached, FileFacts)>, RetentionError> {
        // The size first: a file that is finished meanwhile then counts as larger, not as smaller.
        let Some(found) = self.look(name)? else { return Ok(None) };
        let cached = self.header(name, &found)?;
        let Some((header, header_bytes)) = cached.header.clone() else { return Ok(None) };
        let born =
            Born { wall: header.created, boot_ns: header.created_boot_ns, boot_id: header.boot_id };
        let facts = FileFacts {
            name: name.to_owned(),
            is_spare: name_of_spare(name).is_some(),
            size_bytes: found.stx_size,
            allocated_bytes: found.stx_blocks * STAT_BLOCK_BYTES,
            header_bytes,
            begins_with_room: self.begins_with_room(name, header_bytes),
            run: header.run,
            serial: header.serial,
            bytes_max: header.bytes_max,
            born,
        };
        Ok(Some((cached, facts)))
    }
}

impl Folder for Disk {
    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn state(&mut self) -> Result<State, RetentionError> {
        let mut bytes = Vec::new();
        let path = self.lock_path();
        let fail = |error| RetentionError::io(format!("cannot read {}", path.shown()), error);
        let read = (&self.lock).seek(SeekFrom::Start(0));
        let read = read.and_then(|_| (&self.lock).take(STATE_BYTES as u64).read_to_end(&mut bytes));
        read.map_err(fail)?;
        State::decode(&bytes).map_err(|version| RetentionError::LaterVersion {
            path,
            version,
            known: STATE_VERSION,
        })
    }

    fn set_state(&mut self, state: &State) -> Result<(), RetentionError> {
        let path = self.lock_path();
        let fail = |error| RetentionError::io(format!("cannot write {}", path.shown()), error);
        let page = state.encode().ok_or_else(|| fail(io::Error::other("it exceeds one page")))?;
        self.lock.write_all_at(&page, 0).map_err(fail)
    }

    fn files(&mut self) -> Result<Vec<FileFacts>, RetentionError> {
        let mut headers = HashMap::new();
        let mut files = Vec::new();
        // A file under two names is one file.
        let mut seen = HashSet::new();
        for name in self.names()? {
            if let Some((cached, facts)) = self.facts(&name)?
                && seen.insert(cached.identity.inode)
            {
                headers.insert(name, cached);
                files.push(facts);
            }
        }
        self.headers = headers;
        self.mapped.retain(&seen);
        Ok(files)
    }

    fn pinned(&mut self) -> Result<BTreeSet<String>, RetentionError> {
        Ok(Pins::read(&self.dir)?.names().into_iter().map(str::to_owned).collect())
    }

    fn drafts_bytes(&mut self) -> Result<u64, RetentionError> {
        self.held_drafts_bytes()
    }

    fn is_live(&mut self, run: &str) -> Result<bool, RetentionError> {
        Ok(matches!(self.run_lock(run)?, LockState::Held | LockState::Unknown))
    }

    fn free_bytes(&mut self) -> Result<u64, RetentionError> {
        self.dir.free_bytes().map_err(|e| self.fail("ask for the free space of", e))
    }

    fn settle_free_bytes(&mut self) {
        // Best effort: who asks looks at what came of it.
        let _ = fs::syncfs(&self.dir);
        if is_in_memory(&self.dir) {
            // Another recorder may have had it mapped, and not know yet that it is not alone here.
            std::thread::sleep(LET_GO);
        }
    }

    fn exists(&mut self, name: &str) -> Result<bool, RetentionError> {
        let exists = self.dir.entry(name).exists();
        exists.map_err(|error| self.fail(&format!("look at {name} in"), error))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.dir.entry(name).remove()?;
        self.remove_index(name);
        self.mapped.sweep();
        Ok(())
    }

    fn reuse(&mut self, name: &str, to: &str) -> io::Result<bool> {
        let new = self.dir.entry(to);
        let known = self.open_known(name).filter(|_| self.dir.entry(name).rename(&new).is_ok());
        let Some((file, map)) = known else { return self.remove(name).map(|()| false) };
        self.remove_index(name);
        // Only now, when it has lost its old name, can no process open or link it any more.
        let lease = if self.is_own(&file, to) { Lease::take(file).ok() } else { None };
        self.reused = lease.map(|lease| Reused { lease, map, entry: new });
        match self.reused {
            Some(_) => Ok(true),
            None => self.remove(to).map(|()| false),
        }
    }
}

/// True if a file has attributes that a new one has not: an access control list, a user's notes.
/// Labels are given by the system, to all files of a directory.
fn has_attributes(file: &File) -> bool {
    let mut names = [0; 4096];
    match fs::flistxattr(file, &mut names) {
        Ok(length) => names[..length]
            .split(|&byte| byte == 0)
            .any(|name| !name.is_empty() && !name.starts_with(b"security.")),
        Err(Errno::OPNOTSUPP) => false,
        Err(_) => true,
    }
}

/// Opens or makes the lock file.
fn open_lock(dir: &Dir) -> Result<File, RetentionError> {
    let entry = dir.entry(LOCK_NAME);
    let context = || format!("cannot open {}", entry.path().shown());
    let opened = entry.open(OFlags::RDWR | OFlags::CREATE, LOCK_MODE);
    let lock = opened.map_err(|error| RetentionError::io(context(), error))?;
    // One that an earlier version made, which others could lock too; as far as it is ours.
    let _ = fs::fchmod(&lock, Mode::from_raw_mode(LOCK_MODE));
    Ok(lock)
}

/// True if an open failed because the file is gone, or was replaced by a symbolic link.
pub(super) fn is_gone(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}
