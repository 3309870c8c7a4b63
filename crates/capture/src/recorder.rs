//! The recorder: the ring's blocks to files in one or several directories, as they lie.
//!
//! ```text
//! lane ─ BlockReader ─┬─ writer ─ io_uring ─ files of directory 0 ─ housekeeper, supplier
//! lane ─ BlockReader ─┴─ writer ─ io_uring ─ files of directory 1 ─ housekeeper, supplier
//! ```
//!
//! Each directory, which should be a disk of its own, has a [`writer`] thread, a [`housekeeper`]
//! and a [`supplier`]. A writer takes closed blocks of any lane and holds them until they are in a
//! file; so the recorder is a lossless reader, and workers drop frames, counted as
//! `recorder_behind`, when the ring is full. On a quiet link a time limit governs writing: what is
//! published goes to the file within a second, and the same block is continued later, so that an
//! idle link costs no space. [`file`] says how files stay valid at every moment.
//!
//! An [`indexer`] thread makes the indexes of the files meanwhile, of blocks that are still in the
//! ring.
//!
//! A file that another program deletes while it is written is reported, and another one takes its
//! place. The first error (a full disk, a dead disk) stops the run. What is in the ring goes to the
//! directories that still work; without one it is missed under its cause.

mod begin;
mod buffer;
mod compressor;
mod file;
mod folder;
mod housekeeper;
mod indexer;
mod lane;
mod queue;
mod supplier;
mod tune;
mod writer;

use crate::config::{DiskOptions, Rotation};
use crate::control::{ConsumerCounts, Control};
use crate::output::FileList;
use crate::placement::writer_cpus;
use crate::start::{RunError, spawn};
pub use begin::MadeDirectories;
use begin::{Begun, Unstarted, begin};
use compressor::Compressor;
use file::LaneFile;
use folder::Folder;
use housekeeper::Housekeeper;
pub use indexer::IndexSummary;
use indexer::{IndexThread, Indexer, TURN_MAX};
use lane::Lane;
use queue::Queue;
use ringside_core::{LaneId, Shown, SourceInterface, Timestamp};
use ringside_ring::{Board, CaptureRing};
use ringside_store::StoreError;
use ringside_store::recording::{FileHeader, HEADER_PAGE_BYTES, RunLock};
use ringside_store::retention::{Policy, Shape, Summary};
use ringside_sys::bell::Bells;
use ringside_sys::uring::UringSetup;
use ringside_sys::{clock, numa, thread};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread::JoinHandle;
use supplier::Supplier;
use writer::WriterSetup;

/// What a recorder is asked to do.
pub(crate) struct RecorderConfig<'c> {
    pub(crate) directories: Vec<PathBuf>,
    pub(crate) rotation: Rotation,
    pub(crate) options: DiskOptions,
    /// For all directories together.
    pub(crate) retention: Policy,
    /// Names of the interfaces of the lanes, lane by lane.
    pub(crate) lanes: Vec<String>,
    pub(crate) interfaces: Vec<SourceInterface>,
    /// What the workers are pinned to; the writers keep off it.
    pub(crate) worker_cpus: &'c [usize],
    pub(crate) ring: &'c Arc<CaptureRing>,
    pub(crate) counts: Arc<ConsumerCounts>,
    pub(crate) control: Arc<Control>,
}

/// What all files of a recording have in common.
#[derive(Clone)]
struct Recording {
    /// Identifies the run in all its files.
    run: String,
    start: Timestamp,
    interfaces: Vec<SourceInterface>,
    block_bytes: usize,
    rotation: Rotation,
    /// For each directory.
    retention: Policy,
    /// The name of this boot; zeros if it is not to be had.
    boot_id: [u8; 16],
}

impl Recording {
    /// The same, of the run that begins at `start`.
    fn begun_at(&self, start: Timestamp) -> Recording {
        let run = format!("{}-{}", start.0, std::process::id());
        Recording { run, start, ..self.clone() }
    }

    /// Bytes of the header page(s).
    fn header_bytes(&self) -> Result<usize, StoreError> {
        self.header(LaneId(0), 0).page_bytes(&self.interfaces)
    }

    /// True if a file is followed by others.
    fn rotates(&self) -> bool {
        self.rotation != Rotation::default()
    }

    /// The header of a file to come, without its place and time.
    fn header(&self, lane: LaneId, sequence: u64) -> FileHeader {
        FileHeader {
            run: self.run.clone(),
            lane,
            sequence,
            block_bytes: self.block_bytes,
            bytes_max: self.rotation.bytes.unwrap_or(0),
            ..FileHeader::default()
        }
    }
}

/// What the threads of a recorder share.
struct Shared {
    recording: Arc<Recording>,
    lanes: Vec<Lane>,
    control: Arc<Control>,
    bells: Arc<Bells>,
    /// Writers that still write.
    writers: AtomicUsize,
    /// By directory: its writer has ended, in order or not.
    gone: Vec<AtomicBool>,
}

/// A recorder whose files and queues are open and whose threads do not run yet.
pub(crate) struct Recorder {
    writers: Vec<WriterSetup>,
    indexer: Option<Indexer>,
    shared: Arc<Shared>,
    notes: Vec<String>,
    unstarted: Unstarted,
}

/// A recording that is about to begin, as a process must know it that is to finish it.
#[derive(Clone, Debug)]
pub struct RecordingFacts<'r> {
    /// Identifies the run in all its files.
    pub run: &'r str,
    /// The lock of the run in each of its directories (`RunLock`): who holds a copy keeps the run
    /// alive.
    pub locks: Vec<BorrowedFd<'r>>,
    /// Largest size of a file.
    pub bytes_max: Option<u64>,
    /// What each of the directories may hold.
    pub retention: Policy,
}

/// How a writer's queue will be made, on its thread.
enum QueueSetup {
    Uring(Box<UringSetup>),
    Plain,
    #[cfg(test)]
    Failing(tests::FailingQueue),
}

impl QueueSetup {
    fn enable(self) -> Queue {
        match self {
            QueueSetup::Plain => Queue::Plain(VecDeque::new()),
            #[cfg(test)]
            QueueSetup::Failing(queue) => Queue::Failing(queue),
            QueueSetup::Uring(setup) => match setup.enable() {
                Ok(uring) => Queue::Uring(Box::new(uring)),
                Err(error) => {
                    tracing::warn!("{error}; plain writes instead");
                    Queue::Plain(VecDeque::new())
                }
            },
        }
    }
}

impl Recorder {
    /// Makes the directories and the first files, so that what cannot be written is found at the
    /// start.
    ///
    /// # Errors
    /// A directory or a file cannot be made, or is named twice.
    pub(crate) fn prepare(config: RecorderConfig<'_>) -> Result<Recorder, RunError> {
        let block_bytes = config.ring.layout().block_bytes;
        let directories = config.directories.len();
        let mut recording = Recording {
            run: String::new(),
            start: Timestamp::default(),
            interfaces: config.interfaces,
            block_bytes,
            rotation: config.rotation,
            retention: config.retention.for_each_of(directories),
            boot_id: clock::boot_id().unwrap_or_default(),
        };
        let header_bytes = recording.begun_at(Timestamp::MAX).header_bytes()?;
        let shape = Shape { lanes: config.lanes.len(), directories, block_bytes, header_bytes };
        let bytes = shape.file_bytes(&config.retention, config.rotation.bytes);
        recording.rotation.bytes = bytes.map_err(StoreError::from)?.map(in_pages);
        // After what can be refused without them.
        let made = MadeDirectories::make(&config.directories)?;
        let places = MadeDirectories::open(&config.directories)?;
        let mut notes = same_disks(&config.directories)?;
        let lane = |(index, interface): (usize, String)| {
            let reader = config.ring.block_reader(index, 0).expect("taken once, here");
            let board = config.ring.board_writer(index, Board::Recorder).expect("taken once, here");
            Lane::new(LaneId(index as u16), interface, reader, board, config.counts.clone())
        };
        let lanes: Vec<Lane> = config.lanes.into_iter().enumerate().map(lane).collect();
        let direct = config.options.direct;
        let Begun { recording, folders, mut unstarted } =
            begin(&recording, &lanes, &places, direct)?;
        unstarted.directories = made;
        let shared = Arc::new(Shared {
            recording,
            lanes,
            control: config.control,
            bells: Arc::new(Bells::new(directories)?),
            writers: AtomicUsize::new(directories),
            gone: (0..directories).map(|_| AtomicBool::new(false)).collect(),
        });
        let indexer = match config.options.index {
            true => Some(Indexer::new(shared.clone(), config.ring.view()?, config.worker_cpus)),
            false => None,
        };
        let mut writers = Vec::new();
        for (directory, (folder, files)) in folders.into_iter().enumerate() {
            let (writer, note) = writer(
                directory,
                folder,
                files,
                &shared,
                config.ring,
                config.options,
                config.worker_cpus,
            );
            notes.push(note);
            indexer.iter().for_each(|indexer| writer.folder.index_by(indexer.indexing()));
            writers.push(writer);
        }
        Ok(Recorder { writers, indexer, shared, notes, unstarted })
    }

    /// What a process must know that is to finish the recording if this one dies.
    pub(crate) fn facts(&self) -> RecordingFacts<'_> {
        RecordingFacts {
            run: &self.shared.recording.run,
            locks: self.unstarted.locks.iter().map(AsFd::as_fd).collect(),
            bytes_max: self.shared.recording.rotation.bytes,
            retention: self.shared.recording.retention,
        }
    }

    /// What was chosen, for people: a line for each directory.
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What the lanes' workers ring when a block is closed.
    pub(crate) fn bells(&self) -> Arc<Bells> {
        self.shared.bells.clone()
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn start(mut self) -> Result<RecorderThreads, RunError> {
        self.unstarted.files.clear();
        self.unstarted.directories.keep();
        let locks = std::mem::take(&mut self.unstarted.locks);
        let folders = self.writers.iter().map(|writer| writer.folder.clone()).collect();
        let (writers, keepers) = (Vec::new(), Vec::new());
        let indexer = self.indexer.map(IndexThread::start).transpose()?;
        let mut threads = RecorderThreads { writers, keepers, indexer, folders, locks };
        for writer in self.writers {
            let (folder, shared) = (writer.folder.clone(), self.shared.clone());
            let index = writer.directory;
            let supplier = Supplier { folder: folder.clone(), shared: shared.clone() };
            let keeper = Housekeeper { folder: folder.clone(), shared: shared.clone() };
            let compressor = Compressor::new(folder, shared);
            threads.keepers.push(spawn(&format!("keep {index}"), move || keeper.run())?);
            threads.keepers.push(spawn(&format!("supply {index}"), move || supplier.run())?);
            if let Some(compressor) = compressor {
                let name = format!("compress {index}");
                threads.keepers.push(spawn(&name, move || compressor.run())?);
            }
            threads.writers.push(spawn(&format!("write {index}"), move || writer.run())?);
        }
        Ok(threads)
    }
}

/// The running threads of a recorder.
pub(crate) struct RecorderThreads {
    writers: Vec<JoinHandle<Vec<FileList>>>,
    /// Housekeepers, suppliers and compressors.
    keepers: Vec<JoinHandle<()>>,
    indexer: Option<IndexThread>,
    folders: Vec<Arc<Folder>>,
    locks: Vec<RunLock>,
}

impl RecorderThreads {
    /// Waits until all lanes are in files, and these on the medium. Returns the files, lane by
    /// lane, what was deleted and is kept in all directories, and what was made of indexes.
    pub(crate) fn finish(self, control: &Control) -> Recorded {
        let mut lanes: Vec<FileList> = Vec::new();
        for writer in self.writers {
            let Ok(files) = writer.join() else {
                control.fail("a recorder died".into());
                continue;
            };
            lanes.resize_with(files.len().max(lanes.len()), FileList::default);
            for (lane, files) in lanes.iter_mut().zip(files) {
                lane.append(files);
            }
        }
        for keeper in self.keepers {
            // One that died has failed the run by itself.
            let _ = keeper.join();
        }
        let indexes = self.indexer.and_then(|thread| {
            let made = thread.finish(TURN_MAX);
            if made.is_none() {
                tracing::warn!("the index thread died; `ringside index` makes what is missing");
            }
            made
        });
        let mut kept = Summary::default();
        let places: Vec<_> = self.folders.iter().map(|folder| folder.dir.clone()).collect();
        for (lock, folder) in self.locks.into_iter().zip(self.folders) {
            kept.add(&folder.kept());
            // Without its holder, a lock that stays tells a repair to look at the run.
            if folder.is_finished()
                && let Err(error) = lock.remove()
            {
                control.fail(error.to_string());
            }
        }
        let mut all = FileList::default();
        for mut files in lanes {
            files.count_what_is_there(&places);
            all.append(files);
        }
        Recorded { files: all, kept, indexes }
    }
}

/// What a recorder did.
pub(crate) struct Recorded {
    pub(crate) files: FileList,
    pub(crate) kept: Summary,
    pub(crate) indexes: Option<IndexSummary>,
}

/// The largest size in whole pages, in which file systems allocate: the last page counts in full.
fn in_pages(bytes: u64) -> u64 {
    bytes - bytes % HEADER_PAGE_BYTES as u64
}

/// The writer of one directory, and what there is to say about it.
fn writer(
    directory: usize,
    folder: Folder,
    files: Vec<LaneFile>,
    shared: &Arc<Shared>,
    ring: &Arc<CaptureRing>,
    options: DiskOptions,
    worker_cpus: &[usize],
) -> (WriterSetup, String) {
    let path = folder.dir.path();
    let is_direct = files.iter().any(LaneFile::is_direct);
    let block_bytes = shared.recording.block_bytes;
    let tuned = match options.write_blocks {
        None if is_direct => tune::tune(&folder.dir, block_bytes),
        _ => None,
    };
    let blocks = tuned.map_or(tune::BLOCKS_DEFAULT, |tuned| tuned.blocks);
    let write_blocks = options.write_blocks.unwrap_or(blocks);
    let (queue, refusal) = queue(ring, is_direct && options.io_uring);
    let mut note = format!("{}: ", path.shown());
    note += if matches!(queue, QueueSetup::Uring(_)) { "io_uring, " } else { "plain writes, " };
    note += if is_direct { "O_DIRECT, " } else { "page cache, " };
    note += &format!("{} a write", mebibytes(write_blocks * block_bytes));
    if let Some(tuned) = tuned {
        note += &format!(" ({:.1} GB/s tried)", tuned.bytes_per_second / 1e9);
    }
    if let Some(refusal) = refusal {
        note += &format!("; {refusal}");
    }
    let allowed = thread::allowed_cpus().unwrap_or_default();
    let disk = numa::node_of_disk(path);
    let setup = WriterSetup {
        directory,
        shared: shared.clone(),
        folder: Arc::new(folder),
        write_blocks,
        files,
        queue,
        cpus: writer_cpus(&numa::nodes(), &allowed, disk, worker_cpus),
    };
    (setup, note)
}

/// io_uring where it is wanted and to be had; else why not.
fn queue(ring: &Arc<CaptureRing>, wanted: bool) -> (QueueSetup, Option<String>) {
    if !wanted {
        return (QueueSetup::Plain, None);
    }
    match UringSetup::new(ring.memory()) {
        Ok(setup) => {
            let note = "the ring's memory is not registered (see ulimit -l)".to_owned();
            let note = (!setup.is_registered()).then_some(note);
            (QueueSetup::Uring(Box::new(setup)), note)
        }
        Err(error) => (QueueSetup::Plain, Some(error.to_string())),
    }
}

fn mebibytes(bytes: usize) -> String {
    match (bytes >> 20, bytes & ((1 << 20) - 1)) {
        (mebibytes, 0) => format!("{mebibytes} MiB"),
        _ => format!("{} KiB", bytes >> 10),
    }
}

/// Refuses a directory that is named twice; tells of two that lie on one disk.
fn same_disks(directories: &[PathBuf]) -> Result<Vec<String>, RunError> {
    let identity = |path: &Path| std::fs::metadata(path).map(|data| (data.dev(), data.ino())).ok();
    let known: Vec<_> = directories.iter().map(|path| identity(path)).collect();
    let mut notes = Vec::new();
    for (index, path) in directories.iter().enumerate() {
        let Some((device, inode)) = known[index] else { continue };
        for (earlier, other) in known[..index].iter().zip(directories) {
            match *earlier {
                Some(same) if same == (device, inode) => {
                    return Err(RunError::DirectoryTwice { path: path.clone() });
                }
                Some((same, _)) if same == device => notes.push(format!(
                    "{} and {} are on the same disk: this is no faster than one of them",
                    other.shown(),
                    path.shown()
                )),
                _ => {}
            }
        }
    }
    Ok(notes)
}

#[cfg(test)]
mod simulated;

#[cfg(test)]
mod tests;
