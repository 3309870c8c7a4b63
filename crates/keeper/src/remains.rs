//! What the worker leaves with its keeper, so that the keeper can finish if the worker dies:
//! descriptors of its memory, sockets, counters and locks, and what they are.

use super::link::Link;
use super::message::ToKeeper;
use super::part::{Asked, Destination, Part};
use crate::repair_progress;
use anyhow::{Context, bail};
use ringside_capture::backend::KernelSide;
use ringside_capture::config::{FileFormat, Output, Rotation, RunConfig};
use ringside_capture::finish::{Finished, LaneRemains, OutputRemains, RecordingRemains, Remains};
use ringside_capture::run::{LaneSource, Prepared};
use ringside_core::InterfaceId;
use ringside_core::limits::LANES_MAX;
use ringside_store::dir::Dir;
use ringside_store::recording::RunLock;
use ringside_store::retention::Policy;
use ringside_terminal::{ledger_text, say};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest look at what the dead left, before a capture begins. An unfinished terabyte takes a
/// second, because only its ends are read; what takes longer no recorder made.
const REPAIR_MAX: Duration = Duration::from_secs(60);

/// Directories of one recording: each is a disk.
const FOLDERS_MAX: usize = 1_024;

/// Things of a subcommand's own: each belongs to an interface.
const KEPT_MAX: usize = LANES_MAX;

/// Something of a subcommand's own that its dead worker left.
#[derive(Debug)]
pub struct Kept {
    /// What the worker said of it ([`Link::keep`]).
    pub facts: String,
    /// Its descriptors, in the order in which they were given.
    pub descriptors: Vec<OwnedFd>,
}

/// What can be said of a run before it is prepared.
pub struct Leaving {
    lanes: Vec<(Part, Option<Box<dyn KernelSide>>)>,
    destination: Destination,
}

impl Leaving {
    /// Of these lanes, in a run of these settings. `handles` say for each of the first lanes what
    /// the kernel holds of it, if it can be asked.
    pub fn new(
        lanes: &[LaneSource],
        handles: Vec<Option<Box<dyn KernelSide>>>,
        config: &RunConfig,
    ) -> Leaving {
        let mut handles = handles.into_iter();
        let lanes = lanes.iter().map(|lane| {
            let kernel = handles.next().flatten();
            let part = Part::Lane {
                interface: lane.interface.clone(),
                interface_id: lane.interface_id.0,
                queue: lane.queue,
                kernel: kernel.as_deref().map(Asked::of),
            };
            (part, kernel)
        });
        Leaving { lanes: lanes.collect(), destination: Destination::of(config) }
    }

    /// Sends everything, now that it is made.
    pub fn send(self, link: &Link, prepared: &Prepared) {
        for (part, kernel) in self.lanes {
            let fds = kernel.as_ref().map(|side| side.descriptors()).unwrap_or_default();
            link.send(&ToKeeper::Leave(part), &fds);
        }
        let boards = prepared.boards();
        let mut memory = vec![boards.fd()];
        if let Some(ring) = prepared.ring().filter(|ring| !Arc::ptr_eq(ring, boards)) {
            memory.push(ring.fd());
        }
        link.send(&ToKeeper::Leave(Part::Memory), &memory);
        let Some(recording) = prepared.recording() else {
            return link.send(&ToKeeper::Leave(Part::Output(self.destination)), &[]);
        };
        let Policy { limit_bytes, limit_age, min_free, .. } = recording.retention;
        let (run, bytes_max) = (recording.run.to_owned(), recording.bytes_max);
        let destination =
            Destination::Recording { run, bytes_max, limit_bytes, limit_age, min_free };
        link.send(&ToKeeper::Leave(Part::Output(destination)), &[]);
        for lock in recording.locks {
            link.send(&ToKeeper::Leave(Part::Folder), &[lock]);
        }
    }
}

impl Destination {
    fn of(config: &RunConfig) -> Destination {
        match &config.output {
            Output::Count if config.prints_alone() => Destination::Print,
            // A recording says more of itself once it is prepared.
            Output::Count | Output::Directory { .. } => Destination::Count,
            Output::File { path, format, rotation } => Destination::File {
                path: path.as_os_str().as_bytes().to_vec(),
                is_pcap: *format == FileFormat::Pcap,
                rotates: *rotation != Rotation::default(),
            },
            Output::Stream { .. } => Destination::Stream,
        }
    }
}

/// What has been left so far, at the keeper.
#[derive(Debug, Default)]
pub struct Left {
    lanes: Vec<LaneRemains>,
    memory: Option<(OwnedFd, Option<OwnedFd>)>,
    destination: Option<Destination>,
    locks: Vec<RunLock>,
    kept: Vec<Kept>,
}

impl Left {
    /// The memory in which the worker's lanes publish.
    pub fn memory(&self) -> Option<&OwnedFd> {
        self.memory.as_ref().map(|(boards, _)| boards)
    }

    /// The directories of the recording.
    pub fn directories(&self) -> impl Iterator<Item = &Dir> {
        self.locks.iter().map(RunLock::dir)
    }

    /// Takes a part.
    ///
    /// # Errors
    /// It contradicts itself, or there is too much of it.
    pub fn take(&mut self, part: Part, fds: Vec<OwnedFd>) -> anyhow::Result<()> {
        let mut fds = fds.into_iter();
        match part {
            Part::Lane { interface, interface_id, queue, kernel } => {
                let kernel = kernel.and_then(|asked| asked.with(fds.collect()));
                if self.lanes.len() == LANES_MAX {
                    bail!("more than {LANES_MAX} lanes");
                }
                let interface_id = InterfaceId(interface_id);
                self.lanes.push(LaneRemains { interface, interface_id, queue, kernel });
            }
            Part::Memory => {
                let boards = fds.next().context("memory without a descriptor")?;
                self.memory = Some((boards, fds.next()));
            }
            Part::Output(destination) => self.destination = Some(destination),
            Part::Folder => {
                let lock = RunLock::adopt(fds.next().context("a lock without a descriptor")?)?;
                if self.locks.len() == FOLDERS_MAX {
                    bail!("more than {FOLDERS_MAX} directories");
                }
                self.locks.push(lock);
            }
            Part::Kept(facts) => {
                if self.kept.len() == KEPT_MAX {
                    bail!("more than {KEPT_MAX} things are kept");
                }
                self.kept.push(Kept { facts, descriptors: fds.collect() });
            }
        }
        Ok(())
    }

    /// What the subcommand finishes with itself.
    pub fn into_kept(self) -> Vec<Kept> {
        self.kept
    }

    /// Finishes for the worker, which is gone.
    ///
    /// # Errors
    /// It had not left enough.
    pub fn finish(self) -> anyhow::Result<Finished> {
        let (boards, recorded) = self.memory.context("the worker left no memory")?;
        let output = match self.destination.context("the worker left no word of its output")? {
            Destination::Count => OutputRemains::Count,
            Destination::Stream => OutputRemains::Stream,
            Destination::Print => OutputRemains::Print,
            Destination::File { path, is_pcap, rotates } => OutputRemains::File {
                path: PathBuf::from(OsString::from_vec(path)),
                format: if is_pcap { FileFormat::Pcap } else { FileFormat::Pcapng },
                rotates,
            },
            Destination::Recording { run, bytes_max, limit_bytes, limit_age, min_free } => {
                OutputRemains::Recording(RecordingRemains {
                    run,
                    locks: self.locks,
                    bytes_max,
                    retention: Policy { limit_bytes, limit_age, min_free, ..Policy::default() },
                })
            }
        };
        Ok(Remains { boards, recorded, lanes: self.lanes, output }.finish()?)
    }
}

/// Tells what was finished, as a run tells it that ends itself.
///
/// # Errors
/// Standard output is closed, or the disk behind it is full.
pub fn tell(finished: &Finished, reason: &str, json: bool) -> io::Result<()> {
    for unknown in &finished.unknown {
        say::message(format_args!("ringside: not known: {unknown}"));
    }
    for error in &finished.errors {
        say::message(format_args!("ringside: {error}"));
    }
    say::message(ledger_text::text(&finished.ledger).trim_end());
    if finished.blocks_written > 0 {
        let blocks = finished.blocks_written;
        say::message(format_args!("{blocks} ring blocks were written after the worker's end"));
    }
    if json {
        let mut line = ledger_text::json(&finished.ledger);
        line["closed_by"] = "keeper".into();
        line["reason"] = reason.into();
        say::data(line)?;
    }
    Ok(())
}

/// Fixes unfinished recordings, as far as a dead process can have left them torn; a line for each
/// on standard error.
pub fn repair_of_the_dead(directories: &[PathBuf]) {
    use ringside_store::repair::{Options, RunState};
    let directories: Vec<PathBuf> =
        directories.iter().filter(|path| Path::is_dir(path)).cloned().collect();
    if directories.is_empty() {
        return;
    }
    let deadline = Instant::now() + REPAIR_MAX;
    let repaired = repair_progress::repair(&directories, &Options::AT_START, Some(deadline));
    let report = match repaired {
        Ok(report) => report,
        Err(error) => return say::message(format_args!("ringside: {error}")),
    };
    for run in &report.runs {
        let state = match run.state {
            RunState::Clean | RunState::Live => continue,
            RunState::Broken | RunState::Failed => "could not be repaired",
            RunState::Repaired => "was repaired",
        };
        let changed = run.files.iter().filter(|file| !file.changes.is_empty()).count();
        say::message(format_args!(
            "ringside: recording {} was not ended: it {state} ({changed} files changed); what was \
             in memory at its end is not known",
            run.run
        ));
        for error in run.files.iter().filter_map(|file| file.error.as_ref()) {
            say::message(format_args!("ringside: {error}"));
        }
    }
}
