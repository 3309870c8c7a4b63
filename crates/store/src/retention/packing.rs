//! Files that ended are packed (compressed): a frame of Zstandard for the header page and for each
//! ring block, so that a reader still passes by what it does not need (docs/formats/recording.md).
//!
//! What is packed has a hidden name until it is whole, was read back and is on the medium; then it
//! gets its name, and the file that it was made of goes. Whatever is killed in between, one of the
//! two is whole, and readers take one of them only. Room for it is reserved as for a new file, so
//! that the limits hold at every moment: as long as somebody holds the lock of the hidden file.

use super::age::ages_ns;
use super::disk::Disk;
use super::folder::{FileFacts, Folder, spare_name};
use super::{Deleted, Directory};
use crate::StoreError;
use crate::dir::Entry;
use crate::file_header::HEADER_BYTES_MAX;
use crate::recording::read_stored_header;
use crate::run_lock::LockState;
use crate::seekable::{SeekableFile, SeekableWriter, packed_name};
use ringside_core::Shown;
use ringside_sys::clock::Clocks;
use rustix::fs::{self, FlockOperation, Mode, OFlags};
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use std::fs::{File, FileTimes, Metadata};
use std::io::{self, BufWriter};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::Duration;

/// A file that does not become smaller by this part stays as it is: to unpack it costs more than
/// the space is worth.
const WORTH: u64 = 16;
/// Mode of what is not whole yet.
const DRAFT_MODE: u32 = 0o600;
/// Bytes that are written at once.
const WRITE_BYTES: usize = 1 << 20;

/// Most bytes that a file of `bytes` is packed into: what cannot be packed is stored, with some
/// bytes for each frame and block of Zstandard.
pub(super) fn packed_bytes_max(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 1024).saturating_add(64 << 10)
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PackedState {
    /// It is packed.
    Packed,
    /// It stays as it is: it would not become much smaller.
    NotSmaller,
    /// It is gone, or was changed, meanwhile.
    Gone,
    /// The work was ended.
    Stopped,
}

/// A file that was worked on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Packed {
    /// The name that the recorder gave it.
    pub name: String,
    /// What became of it.
    pub state: PackedState,
    /// Bytes before.
    pub bytes: u64,
    /// Bytes of what it was packed into.
    pub packed_bytes: u64,
}

/// Which files are to be packed.
#[derive(Clone, Debug, Default)]
pub struct PackingOrder {
    /// Time since a file was begun.
    pub after: Duration,
    /// Files that were tried before, and are not tried again.
    pub passed: BTreeSet<String>,
}

/// A file that is being packed, for which there is room.
#[derive(Debug)]
pub struct PackingJob {
    name: String,
    file: File,
    found: Metadata,
    draft: Draft,
    /// What had to go for it.
    pub deleted: Vec<Deleted>,
}

/// The hidden file that it is packed into; removed if it does not get its name.
#[derive(Debug)]
struct Draft {
    entry: Entry,
    /// Held locked: as long as it is, there is room for it.
    file: File,
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.entry.is(&self.file) {
            // If it stays, the next recorder that makes room removes it.
            let _ = self.entry.remove();
        }
    }
}

impl Directory {
    /// Chooses the oldest file that is due and makes room for what it is packed into; `None` if
    /// there is none. The work itself is done without the directory's lock, by [`PackingJob::run`].
    ///
    /// # Errors
    /// There is no room, or the directory cannot be read or written.
    pub fn begin_packing(
        &mut self,
        order: &PackingOrder,
        now: Clocks,
    ) -> Result<Option<PackingJob>, StoreError> {
        self.disk.lock()?;
        let begun = self.begin_packing_locked(order, now);
        self.disk.unlock();
        begun
    }

    fn begin_packing_locked(
        &mut self,
        order: &PackingOrder,
        now: Clocks,
    ) -> Result<Option<PackingJob>, StoreError> {
        // What a killed process left goes first.
        self.disk.drafts_bytes()?;
        let Some(due) = due(&mut self.disk, order, now)? else { return Ok(None) };
        let (_, deleted) = self.enforce(None, packed_bytes_max(due.size_bytes), now)?;
        let entry = self.disk.dir.entry(&due.name);
        let fail =
            |error| StoreError::io(format!("cannot compress {}", entry.path().shown()), error);
        let file = match entry.open_regular(OFlags::RDONLY) {
            // It was the oldest, and had to go.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(fail)?,
        };
        let draft = self.disk.dir.entry(spare_name(&packed_name(&due.name)));
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let made = draft.open(flags, DRAFT_MODE).map_err(fail)?;
        let draft = Draft { entry: draft, file: made };
        fs::flock(&draft.file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| fail(error.into()))?;
        let found = file.metadata().map_err(fail)?;
        // Others who make room here must be able to see that somebody works on it.
        give(&draft.file, &found);
        Ok(Some(PackingJob { name: due.name, file, found, draft, deleted }))
    }

    /// Puts a file that was packed in the place of what it was made of.
    ///
    /// # Errors
    /// The system refused; the file is then there as it was, or twice, of which readers take one.
    pub fn end_packing(&mut self, job: PackingJob, packed: Packed) -> Result<Packed, StoreError> {
        if packed.state != PackedState::Packed {
            return Ok(packed);
        }
        self.disk.lock()?;
        let ended = end(&self.disk, &job);
        self.disk.unlock();
        let is_done = ended.map_err(|error| job.failed(error))?;
        let state = if is_done { PackedState::Packed } else { PackedState::Gone };
        if is_done {
            self.summary.packed_files += 1;
            self.summary.packed_bytes_before += packed.bytes;
            self.summary.packed_bytes += packed.packed_bytes;
        }
        Ok(Packed { state, ..packed })
    }
}

/// The oldest file that ended and is old enough.
fn due(
    disk: &mut Disk,
    order: &PackingOrder,
    now: Clocks,
) -> Result<Option<FileFacts>, StoreError> {
    let mut files = disk.files()?;
    files.sort_by(|a, b| (a.serial, &a.name).cmp(&(b.serial, &b.name)));
    let born: Vec<_> = files.iter().map(|file| file.born).collect();
    let ages = ages_ns(&born, &now);
    // Later files of a lane come after the earlier ones.
    let named = files.iter().filter(|file| !file.is_spare);
    let newest: HashMap<_, _> = named.map(|file| (file.lane_of_run(), file.name.clone())).collect();
    for (file, age) in files.into_iter().zip(ages) {
        let is_old = u128::from(age) >= order.after.as_nanos();
        let is_due = is_old && !file.is_spare && !file.is_packed() && !file.is_unfinished();
        let draft = disk.dir.entry(spare_name(&packed_name(&file.name)));
        let is_worked_on = || draft.exists().unwrap_or(true);
        if !is_due || order.passed.contains(&file.name) || is_worked_on() {
            continue;
        }
        let is_last = newest.get(&file.lane_of_run()) == Some(&file.name);
        match disk.run_lock(&file.run)? {
            // A repair may have to write into it.
            LockState::Left => {}
            LockState::Held | LockState::Unknown if is_last => {}
            _ => return Ok(Some(file)),
        }
    }
    Ok(None)
}

/// Gives what was packed its name, and removes what it was made of; false, and nothing is changed,
/// if that is not what it was.
fn end(disk: &Disk, job: &PackingJob) -> io::Result<bool> {
    let (first, packed) = (disk.dir.entry(&job.name), disk.dir.entry(packed_name(&job.name)));
    if !first.is(&job.file) || !job.is_unchanged()? {
        return Ok(false);
    }
    if packed.exists()? {
        // A copy of ours, by one who was killed before it could go on: it is what we have made.
        let made = packed.open_regular(OFlags::RDONLY)?;
        let Some(mut made) = SeekableFile::open(&made)? else {
            return Err(io::Error::other("another file has the name that it would get"));
        };
        is_same(&job.file, &mut made, &|| true)?
            .then_some(())
            .ok_or_else(|| io::Error::other("another file has the name that it would get"))?;
    } else {
        job.draft.entry.rename(&packed)?;
    }
    // The new name is there before the old one goes, also after a power cut.
    disk.dir.sync()?;
    first.remove()?;
    Ok(true)
}

impl PackingJob {
    /// The name that the recorder gave the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Packs it, and reads back what came of it. `go_on` is asked for each ring block.
    ///
    /// # Errors
    /// It cannot be read, or what comes of it cannot be written, or is not the same.
    pub fn run(&self, go_on: &dyn Fn() -> bool) -> Result<Packed, StoreError> {
        let packed_bytes = self.pack(go_on).map_err(|error| self.failed(error))?;
        let bytes = self.found.len();
        let state = match packed_bytes {
            None => PackedState::Stopped,
            Some(packed) if packed > bytes - bytes / WORTH => PackedState::NotSmaller,
            Some(_) => PackedState::Packed,
        };
        let packed_bytes = packed_bytes.unwrap_or(0);
        Ok(Packed { name: self.name.clone(), state, bytes, packed_bytes })
    }

    fn failed(&self, error: io::Error) -> StoreError {
        let path = self.draft.entry.dir().path().join(&self.name);
        StoreError::io(format!("cannot compress {}", path.shown()), error)
    }

    /// Returns how large it became; `None` if it was ended.
    fn pack(&self, go_on: &dyn Fn() -> bool) -> io::Result<Option<u64>> {
        let header = read_stored_header(&self.file)?;
        let Some((header, _)) = header else { return Err(io::Error::other("it lost its header")) };
        let out = BufWriter::with_capacity(WRITE_BYTES, &self.draft.file);
        let mut writer = SeekableWriter::new(out)?;
        let mut buffer = vec![0; header.file.block_bytes.max(header.bytes)];
        let (mut at, bytes) = (0, self.found.len());
        while at < bytes {
            if !go_on() {
                return Ok(None);
            }
            let step = if at == 0 { header.bytes } else { header.file.block_bytes };
            let count = step.min(usize::try_from(bytes - at).unwrap_or(usize::MAX));
            self.file.read_exact_at(&mut buffer[..count], at)?;
            writer.frame(&buffer[..count])?;
            at += count as u64;
            if writer.bytes() > packed_bytes_max(bytes) {
                return Err(io::Error::other("it became larger than can be"));
            }
        }
        writer.finish()?;
        self.finish_draft()?;
        let file = &self.draft.file;
        let Some(mut packed) = SeekableFile::open(file)? else {
            return Err(io::Error::other("what was written is not what is read"));
        };
        match is_same(&self.file, &mut packed, go_on)? {
            true => Ok(Some(file.metadata()?.len())),
            false if !go_on() => Ok(None),
            false => Err(io::Error::other("what was written is not what is read")),
        }
    }

    /// Whose it is, who may read it, and when it was written last are as they were: an index of it
    /// stays good.
    fn finish_draft(&self) -> io::Result<()> {
        let (file, found) = (&self.draft.file, &self.found);
        // Another user's is ours then, and readable by no more than it was.
        let is_given = give(file, found);
        let mode = if is_given { found.mode() & 0o7777 } else { found.mode() & 0o700 };
        fs::fchmod(file, Mode::from_raw_mode(mode))?;
        let times =
            FileTimes::new().set_modified(found.modified()?).set_accessed(found.accessed()?);
        file.set_times(times)?;
        file.sync_all()
    }

    fn is_unchanged(&self) -> io::Result<bool> {
        let now = self.file.metadata()?;
        Ok((now.len(), now.modified()?) == (self.found.len(), self.found.modified()?))
    }
}

/// Gives a file to the owner of what was found; false if that is refused.
fn give(file: &File, found: &Metadata) -> bool {
    let is_theirs = |made: Metadata| (made.uid(), made.gid()) == (found.uid(), found.gid());
    let (user, group) = (fs::Uid::from_raw(found.uid()), fs::Gid::from_raw(found.gid()));
    file.metadata().is_ok_and(is_theirs) || fs::fchown(file, Some(user), Some(group)).is_ok()
}

/// True if a file holds what was packed; false too if `go_on` ended the look.
fn is_same(file: &File, packed: &mut SeekableFile, go_on: &dyn Fn() -> bool) -> io::Result<bool> {
    let bytes = file.metadata()?.len();
    if packed.content_bytes() != bytes {
        return Ok(false);
    }
    let mut buffers = [vec![0; WRITE_BYTES], vec![0; WRITE_BYTES]];
    let mut at = 0;
    while at < bytes {
        let count = WRITE_BYTES.min(usize::try_from(bytes - at).unwrap_or(usize::MAX));
        let [one, other] = &mut buffers;
        file.read_exact_at(&mut one[..count], at)?;
        packed.read_exact_at(&mut other[..count], at)?;
        if one[..count] != other[..count] || !go_on() {
            return Ok(false);
        }
        at += count as u64;
    }
    Ok(true)
}

const _: () = assert!(HEADER_BYTES_MAX <= 16 << 20, "the header is one frame");
