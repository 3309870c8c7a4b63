//! A directory of the recording: how its files come to be, and which are open.

use super::Recording;
use super::file::{LaneFile, Next, OpenFile, Spare};
use super::indexer::Indexing;
use super::lane::Lane;
use ringside_core::Shown;
use ringside_store::StoreError;
use ringside_store::dir::{Dir, Entry, Whereabouts};
use ringside_store::recording::{FileHeader, MappedFiles, Reused, SeriesFile, file_name};
use ringside_store::retention::{Directory, Packed, PackingJob, PackingOrder, Summary, spare_name};
use ringside_sys::clock::Clocks;
use ringside_sys::disk;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::Thread;

/// Files that have ended and wait for the medium. Each holds two descriptors; a disk that is so far
/// behind gains nothing from more.
const ENDED_MAX: usize = 64;

/// One directory.
pub(super) struct Folder {
    pub(super) dir: Dir,
    pub(super) recording: Arc<Recording>,
    /// True if direct writes are wanted.
    pub(super) direct: bool,
    /// Makes room for new files.
    retention: Mutex<Directory>,
    /// Finished files that will be used again, in memory.
    mapped: Option<Arc<MappedFiles>>,
    files: Mutex<Vec<Arc<OpenFile>>>,
    closing: AtomicBool,
    /// That the directory was moved was reported.
    is_moved: AtomicBool,
    /// A file was not finished: a repair must look at the run.
    is_unfinished: AtomicBool,
    housekeeper: OnceLock<Thread>,
    supplier: OnceLock<Thread>,
    /// Who makes the files' indexes, if anybody does.
    indexing: OnceLock<Arc<Indexing>>,
    compressor: OnceLock<Thread>,
}

impl Folder {
    pub(super) fn new(
        dir: Dir,
        recording: Arc<Recording>,
        direct: bool,
    ) -> Result<Folder, StoreError> {
        let retention = Directory::open(&dir, &recording.run, recording.retention)?;
        let retention = retention.reusing(disk::is_in_memory(&dir));
        let mapped = retention.mapped_files();
        Ok(Folder {
            dir,
            recording,
            direct,
            retention: Mutex::new(retention),
            mapped,
            files: Mutex::new(Vec::new()),
            closing: AtomicBool::new(false),
            is_moved: AtomicBool::new(false),
            is_unfinished: AtomicBool::new(false),
            housekeeper: OnceLock::new(),
            supplier: OnceLock::new(),
            indexing: OnceLock::new(),
            compressor: OnceLock::new(),
        })
    }

    /// Creates the next file of a lane under its name.
    pub(super) fn create(&self, lane: &Lane) -> Result<SeriesFile, StoreError> {
        let sequence = lane.next_file();
        self.create_as(&self.name(lane, sequence), lane, sequence)
    }

    /// Creates the next file of a lane under a hidden name.
    pub(super) fn create_spare(&self, lane: &Lane) -> Result<Spare, StoreError> {
        let sequence = lane.next_file();
        let name = self.name(lane, sequence);
        let series = self.create_as(&spare_name(&name), lane, sequence)?;
        Ok(Spare { series, name: self.dir.entry(name) })
    }

    /// As [`create`](Folder::create), in time of need: only a file that is made under a hidden name
    /// may come of an old one.
    pub(super) fn create_at_once(&self, lane: &Lane) -> Result<SeriesFile, StoreError> {
        match self.name_spare(self.create_spare(lane)?) {
            Some(series) => Ok(series),
            None => self.create(lane),
        }
    }

    /// Makes room for a file and creates it.
    fn create_as(&self, name: &str, lane: &Lane, sequence: u64) -> Result<SeriesFile, StoreError> {
        let recording = &*self.recording;
        let mut header = recording.header(lane.id, sequence);
        // A lane has two files that are not finished, in use and ready; older ones must say that
        // they are, before room is made for another.
        for file in self.files().iter().filter(|file| file.has_ended()) {
            file.settle()?;
        }
        let now = Clocks::now(recording.boot_id);
        let mut retention = lock(&self.retention);
        let mut reservation = retention.reserve(name, header.bytes_max, now)?;
        header.serial = reservation.serial();
        header.created = now.wall;
        header.created_boot_ns = now.boot_ns;
        header.boot_id = now.boot_id;
        let entry = self.dir.entry(name);
        let reused = reservation.take_reused().and_then(|old| self.reuse(old, &entry, &header));
        let series = match reused {
            Some(series) => series,
            None => SeriesFile::create(entry, &header, &recording.interfaces)?,
        };
        // It counts now: others may make room, in this directory too, while the disk is waited for.
        drop(reservation);
        drop(retention);
        if self.direct
            && let Err(error) = series.write_out_header()
        {
            remove_unused(&series);
            return Err(error);
        }
        Ok(series)
    }

    /// Makes the file `entry` of an old one; `None`, and the old one is gone, if that fails.
    fn reuse(&self, old: Reused, entry: &Entry, header: &FileHeader) -> Option<SeriesFile> {
        let working = old.entry.clone();
        let made = SeriesFile::reuse(old, header, &self.recording.interfaces);
        let named = made.and_then(|mut series| series.rename(entry).map(|()| series));
        named
            .inspect_err(|error| {
                tracing::warn!("{error}; a new file takes its place");
                // Now, so that there is its space for another; the reservation's end tries again.
                let _ = working.remove();
            })
            .ok()
    }

    /// Reports, once, that the directory is not where it was: the recording follows it.
    pub(super) fn note_move(&self) {
        if let Whereabouts::Moved(to) = self.dir.whereabouts()
            && !self.is_moved.swap(true, Ordering::AcqRel)
        {
            let (from, to) = (self.dir.path().shown(), to.shown());
            tracing::warn!("{from} was moved to {to}: the recording goes on there");
        }
    }

    /// Deletes what is past its age, in times in which no file is begun.
    pub(super) fn sweep(&self) -> Result<(), StoreError> {
        lock(&self.retention).sweep(Clocks::now(self.recording.boot_id)).map(|_| ())
    }

    /// Chooses a file that is to be compressed, and makes room for that.
    pub(super) fn begin_packing(
        &self,
        order: &PackingOrder,
    ) -> Result<Option<PackingJob>, StoreError> {
        lock(&self.retention).begin_packing(order, Clocks::now(self.recording.boot_id))
    }

    /// Puts what was compressed in its place.
    pub(super) fn end_packing(
        &self,
        job: PackingJob,
        packed: Packed,
    ) -> Result<Packed, StoreError> {
        lock(&self.retention).end_packing(job, packed)
    }

    /// What was deleted, and what is kept.
    pub(super) fn kept(&self) -> Summary {
        lock(&self.retention).summary().clone()
    }

    fn name(&self, lane: &Lane, sequence: u64) -> String {
        file_name(self.recording.start, &lane.interface, lane.id, sequence)
    }

    /// Opens a file that was created for its writer; the housekeeper looks after it from now on.
    pub(super) fn open(&self, series: SeriesFile, lane: usize) -> Result<LaneFile, StoreError> {
        let file = LaneFile::new(series, lane, self.recording.rotation.bytes, self.direct)?;
        self.lock().push(file.shared.clone());
        self.indexing.get().into_iter().for_each(|indexing| indexing.begin(&file.shared));
        Ok(file)
    }

    /// Gives a file that was made ready its name; `None` if that name was taken meanwhile.
    pub(super) fn name_spare(&self, spare: Spare) -> Option<SeriesFile> {
        let Spare { mut series, name } = spare;
        match series.rename(&name) {
            Ok(()) => Some(series),
            Err(error) => {
                tracing::warn!("{error}; another file is begun");
                remove_unused(&series);
                None
            }
        }
    }

    /// `file` gets nothing more: the housekeeper is to finish it. Returns the file that was made
    /// ready to follow it.
    pub(super) fn end(&self, file: LaneFile) -> Option<Spare> {
        let next = std::mem::replace(&mut *lock(&file.shared.next), Next::Taken);
        file.end();
        self.make_room();
        self.wake();
        match next {
            Next::Ready(spare) => Some(*spare),
            Next::None | Next::Taken => None,
        }
    }

    /// If the disk is far behind, the oldest file that ended is finished here: the writer waits for
    /// the medium instead of heaping up files.
    fn make_room(&self) {
        let mut files = self.lock();
        if files.iter().filter(|file| file.has_ended()).count() > ENDED_MAX
            && let Some(at) = files.iter().position(|file| file.has_ended())
        {
            let file = files.remove(at);
            drop(files);
            if let Err(error) = self.finish(&file) {
                tracing::warn!("{error}");
                self.leave_unfinished();
            }
        }
    }

    /// Ends a file of which nothing more is written: cut to its end, on the medium, its blocks
    /// counted. In memory it stays mapped if it will be used again.
    pub(super) fn finish(&self, file: &OpenFile) -> Result<(), StoreError> {
        let kept = &mut *lock(&file.kept);
        // The housekeeper and a writer may come to the same file: it may be in use again by now.
        if kept.is_finished {
            return Ok(());
        }
        file.finish(kept)?;
        kept.is_finished = true;
        file.feed.finish();
        self.wake_indexer();
        if let (Some(mapped), Some(bytes)) = (&self.mapped, file.bytes_max)
            && (bytes / 2..=bytes).contains(&file.end())
            && !self.is_closing()
        {
            file.series.keep_mapped(mapped, bytes);
        }
        Ok(())
    }

    /// What others deleted is not kept open.
    pub(super) fn sweep_mapped(&self) {
        self.mapped.iter().for_each(|mapped| mapped.sweep());
    }

    /// The indexes of the files, of those that are open too, are made through `indexing`.
    pub(super) fn index_by(&self, indexing: Arc<Indexing>) {
        self.lock().iter().for_each(|file| indexing.begin(file));
        let _ = self.indexing.set(indexing);
    }

    /// There is something to do for the index thread.
    pub(super) fn wake_indexer(&self) {
        self.indexing.get().into_iter().for_each(|indexing| indexing.wake());
    }

    /// `file` is left as it is, for a repair.
    pub(super) fn abandon(&self, file: LaneFile) {
        self.leave_unfinished();
        file.shared.feed.leave();
        self.forget(&file.shared);
    }

    /// A file could not be finished.
    pub(super) fn leave_unfinished(&self) {
        self.is_unfinished.store(true, Ordering::Release);
    }

    /// True if all files of the run are as they should be.
    pub(super) fn is_finished(&self) -> bool {
        self.lock().is_empty() && !self.is_unfinished.load(Ordering::Acquire)
    }

    /// The files that are open or not finished.
    pub(super) fn files(&self) -> Vec<Arc<OpenFile>> {
        self.lock().clone()
    }

    /// Forgets a file that was finished.
    pub(super) fn forget(&self, file: &Arc<OpenFile>) {
        self.lock().retain(|other| !Arc::ptr_eq(file, other));
    }

    /// Registers the calling thread as the housekeeper that is woken.
    pub(super) fn keep_house(&self) {
        let _ = self.housekeeper.set(std::thread::current());
    }

    /// Registers the calling thread as the supplier that is woken.
    pub(super) fn supply(&self) {
        let _ = self.supplier.set(std::thread::current());
    }

    /// Registers the calling thread as the compressor, which is woken at the end.
    pub(super) fn compress(&self) {
        let _ = self.compressor.set(std::thread::current());
    }

    /// There is something to do for the housekeeper or the supplier.
    pub(super) fn wake(&self) {
        for thread in [&self.housekeeper, &self.supplier].into_iter().filter_map(OnceLock::get) {
            thread.unpark();
        }
    }

    /// No file is opened any more.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.wake();
        self.compressor.get().into_iter().for_each(Thread::unpark);
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<OpenFile>>> {
        lock(&self.files)
    }
}

/// Removes a file that was made ready and is not needed: no writer has used it, and none will.
pub(super) fn remove_unused(series: &SeriesFile) {
    if let Err(error) = series.entry().remove() {
        tracing::warn!("cannot remove {}: {error}", series.path().shown());
    }
}

/// Locks, also behind a thread that died: what is locked here is whole between any two statements.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
