//! One tool under one load: what was sent, what it got, what it cost.

use super::load::{self, FrameSizes, LoadSpec};
use super::place::{self, Workspace};
use super::process::CpuTime;
use super::receiver::{Received, Receiver};
use super::tools::{Options, Target, Tool};
use anyhow::Context;
use ringside_lab::Lab;
use ringside_terminal::signals::StopSignal;
use ringside_transmit::Report;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Files of at most this many frames are read again to check what the tool says: about a second.
const VERIFIED_FRAMES_MAX: u64 = 4_000_000;
/// Rate at which files are filled before a load: what all tools write to memory that the host must
/// give first.
const FILL_BYTES_PER_SEC: f64 = 250e6;
/// The same of short frames.
const FILL_FRAMES_PER_SEC_MAX: f64 = 1e6;
/// What a file takes for a frame at least in addition to its bytes, a pcap record's header: files
/// of other formats are full the sooner.
const RECORD_BYTES: f64 = 16.0;
/// Between that and the load: the tools catch up, and the host does not yet take back what the
/// oldest files had (free page reporting waits 2 s).
const FILL_PAUSE: Duration = Duration::from_millis(200);
/// Longest wait for a batch of a file.
const READ_WAIT: Duration = Duration::from_secs(10);

/// Where frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Destination {
    /// Received and forgotten.
    Nowhere,
    /// A new file on tmpfs.
    Memory,
    /// A new file on a disk.
    Disk,
    /// One file on tmpfs, with lanes merged; for other tools the same as [`Destination::Memory`].
    MergedFile,
}

impl Destination {
    /// As it stands in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Destination::Nowhere => "discard",
            Destination::Memory => "tmpfs",
            Destination::Disk => "disk",
            Destination::MergedFile => "merged file",
        }
    }
}

/// What is measured: a tool, and where it writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Setup {
    /// The tool that receives.
    pub(super) tool: Tool,
    /// Where it writes to.
    pub(super) destination: Destination,
    /// Bytes kept of each frame; whole frames if none.
    pub(super) snaplen: Option<u32>,
}

/// One setup under one load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Frames that were sent, those with them that the interface's ring had no room for.
    pub(super) offered: u64,
    /// Frames that the interface was handed.
    pub(super) handed: u64,
    /// Frames that the tool delivered.
    pub(super) received: u64,
    /// Frames that filled the files before the load.
    pub(super) before: u64,
    /// Frames that the tool knows it lost.
    pub(super) named_lost: Option<u64>,
    /// Length of the load, in seconds.
    pub(super) load_seconds: f64,
    /// CPU time of the tool.
    pub(super) cpu: CpuTime,
    /// Bytes of the files; `None` if some were not kept.
    pub(super) stored_bytes: Option<u64>,
    /// From the last frame until everything was written and, on a disk, synced, in seconds.
    pub(super) drain_seconds: f64,
}

impl Sample {
    /// Of a tool that stores nothing.
    pub(super) fn unstored(report: &Report, received: &Received) -> Sample {
        Sample {
            offered: report.offered,
            handed: report.handed,
            received: received.summary.frames,
            before: 0,
            named_lost: received.summary.lost,
            load_seconds: report.elapsed_ns as f64 / 1e9,
            cpu: received.cpu,
            stored_bytes: None,
            drain_seconds: received.drain.as_secs_f64(),
        }
    }

    /// Million frames a second that were sent, refused ones with them.
    pub(super) fn offered_mps(&self) -> f64 {
        self.offered as f64 / self.load_seconds / 1e6
    }

    /// Million frames a second that the interface was handed.
    pub(super) fn handed_mps(&self) -> f64 {
        self.handed as f64 / self.load_seconds / 1e6
    }

    /// Million frames a second that the tool got.
    pub(super) fn received_mps(&self) -> f64 {
        self.received as f64 / self.load_seconds / 1e6
    }

    /// Frames that the tool did not get.
    pub(super) fn lost(&self) -> u64 {
        self.handed.saturating_sub(self.received)
    }

    /// The same as a share.
    pub(super) fn lost_percent(&self) -> f64 {
        100.0 * self.lost() as f64 / self.handed.max(1) as f64
    }

    /// Share of the frames that the tool says it lost.
    pub(super) fn named_lost_percent(&self) -> f64 {
        self.named_lost.map_or(f64::NAN, |lost| 100.0 * lost as f64 / self.handed.max(1) as f64)
    }

    /// CPU time for a received frame, in nanoseconds.
    pub(super) fn cpu_ns(&self) -> f64 {
        self.cpu_user_ns() + self.cpu_system_ns()
    }

    /// The tool's own part of it.
    pub(super) fn cpu_user_ns(&self) -> f64 {
        self.cpu.user_seconds() * 1e9 / (self.before + self.received).max(1) as f64
    }

    /// The kernel's part of it, in calls of the tool.
    pub(super) fn cpu_system_ns(&self) -> f64 {
        self.cpu.system_seconds() * 1e9 / (self.before + self.received).max(1) as f64
    }

    /// Bytes stored a second, in millions, until the last was there.
    pub(super) fn stored_mb_per_s(&self) -> f64 {
        let bytes = self.stored_bytes.map_or(f64::NAN, |bytes| bytes as f64);
        bytes / (self.load_seconds + self.drain_seconds) / 1e6
    }
}

/// The network, the places, and the order to stop: what every measurement needs.
pub(super) struct Bench<'a> {
    pub(super) lab: &'a Lab,
    pub(super) memory: Option<&'a Workspace>,
    pub(super) disk: Option<&'a Workspace>,
    pub(super) stop: &'a StopSignal,
    /// Memory for frames of each tool.
    pub(super) memory_bytes: u64,
    /// What a recording may come to take; if none, all is kept.
    pub(super) limit_bytes: Option<u64>,
    /// The files are filled up to that limit before each load.
    pub(super) filled: bool,
}

impl Bench<'_> {
    /// Runs `setup` under one load. With `verify` the frames in the files are counted.
    ///
    /// # Errors
    /// The tool failed, a place is missing, the files hold another number of frames than the tool
    /// says, or a signal came.
    pub(super) fn measure(
        &self,
        setup: Setup,
        sizes: &FrameSizes,
        rate_per_sec: Option<u64>,
        duration: Duration,
        verify: bool,
    ) -> anyhow::Result<Sample> {
        load::check(self.stop)?;
        let workspace = self.workspace(setup.destination)?;
        let run = workspace.map(Workspace::fresh).transpose()?;
        let frames_max = match workspace.filter(|_| self.limit_bytes.is_none()) {
            Some(workspace) => workspace.frames_max(sizes.mean_bytes())?,
            None => u64::MAX,
        };
        let load = LoadSpec { sizes, flows: load::FLOWS, rate_per_sec, duration, frames_max };
        let sample = self.run(setup, run.as_deref(), load, verify);
        // Also after an error, so that nothing large stays while the user reads it.
        if let Some(run) = &run {
            std::fs::remove_dir_all(run)?;
        }
        sample
    }

    fn run(
        &self,
        setup: Setup,
        run: Option<&Path>,
        load: LoadSpec<'_>,
        verify: bool,
    ) -> anyhow::Result<Sample> {
        if let Some(run) = run {
            setup.tool.prepare(run)?;
        }
        let target = match run {
            None => Target::Nowhere,
            Some(run) if setup.destination == Destination::MergedFile => Target::PcapngFile(run),
            Some(run) => Target::Recording(run),
        };
        let options = Options {
            memory_bytes: self.memory_bytes,
            snaplen: setup.snaplen,
            limit_bytes: self.limit_bytes,
            ..Options::default()
        };
        let namespace = &self.lab.status().receiver_namespace;
        let program = setup.tool.program(target, options);
        let receiver = Receiver::start(namespace, program, &[], self.stop)?;
        self.prefault(setup, load)?;
        let before = self.fill(setup, load)?;
        let report = load::send(self.lab, load, self.stop)?;
        let received = receiver.finish(Instant::now())?;
        let (stored_bytes, sync) = run.map(place::sync_files).transpose()?.unwrap_or_default();
        let sample = Sample {
            offered: report.offered,
            handed: report.handed,
            // What was lost before counts as lost under the load.
            received: received.summary.frames.saturating_sub(before),
            before,
            named_lost: received.summary.lost,
            load_seconds: report.elapsed_ns as f64 / 1e9,
            cpu: received.cpu,
            stored_bytes: Some(stored_bytes).filter(|_| self.limit_bytes.is_none()),
            drain_seconds: (received.drain + sync).as_secs_f64(),
        };
        anyhow::ensure!(
            sample.received <= sample.handed,
            "{} says that it got {} frames of {}",
            setup.tool.name(),
            sample.received,
            sample.handed
        );
        match run {
            // What went with the oldest files cannot be counted.
            Some(run)
                if verify
                    && self.limit_bytes.is_none()
                    && sample.received <= VERIFIED_FRAMES_MAX =>
            {
                check_files(setup.tool, run, sample.received)?;
            }
            _ => {}
        }
        Ok(sample)
    }

    /// Fills the recording up to its limit and a little beyond. Returns the frames that this took.
    fn fill(&self, setup: Setup, load: LoadSpec<'_>) -> anyhow::Result<u64> {
        let limit =
            self.limit_bytes.filter(|_| self.filled && setup.destination != Destination::Nowhere);
        let Some(limit) = limit else { return Ok(0) };
        let fill = LoadSpec {
            rate_per_sec: Some(fill_frames_per_sec(load.sizes) as u64),
            duration: fill_duration(limit, load.sizes),
            frames_max: u64::MAX,
            ..load
        };
        let report = load::send(self.lab, fill, self.stop)?;
        std::thread::sleep(FILL_PAUSE);
        Ok(report.handed)
    }

    /// Lets the host give the memory that the files or their page cache will take, so that no tool
    /// pays for it.
    fn prefault(&self, setup: Setup, load: LoadSpec<'_>) -> anyhow::Result<()> {
        let Some(memory) = self.memory.filter(|memory| memory.is_memory()) else { return Ok(()) };
        if setup.destination == Destination::Nowhere
            || setup.destination == Destination::Disk && setup.tool.writes_past_the_page_cache()
        {
            return Ok(());
        }
        let most = setup.tool.frames_per_sec_max();
        let frames_per_sec = load.rate_per_sec.map_or(most, |rate| rate as f64);
        let kept_bytes = match setup.snaplen {
            Some(most) => load.sizes.mean_bytes().min(most.into()),
            None => load.sizes.mean_bytes(),
        };
        let bytes = place::recording_bytes(frames_per_sec, kept_bytes, load.duration);
        // A ring of files takes a file more while the oldest goes.
        let bytes = self.limit_bytes.map_or(bytes, |limit| bytes.min(limit as f64 * 1.25));
        place::prefault(memory, bytes, self.stop)
    }

    fn workspace(&self, destination: Destination) -> anyhow::Result<Option<&Workspace>> {
        match destination {
            Destination::Nowhere => Ok(None),
            Destination::Memory | Destination::MergedFile => {
                Ok(Some(self.memory.context("no place on tmpfs")?))
            }
            Destination::Disk => Ok(Some(self.disk.context("no place on a disk")?)),
        }
    }
}

/// How long it takes to fill a recording up to `limit_bytes`, and a file more.
pub(super) fn fill_duration(limit_bytes: u64, sizes: &FrameSizes) -> Duration {
    let frame_bytes = sizes.mean_bytes() + RECORD_BYTES;
    let bytes_per_sec = fill_frames_per_sec(sizes) * frame_bytes;
    Duration::from_secs_f64(limit_bytes as f64 * 1.25 / bytes_per_sec)
}

fn fill_frames_per_sec(sizes: &FrameSizes) -> f64 {
    let frame_bytes = sizes.mean_bytes() + RECORD_BYTES;
    (FILL_BYTES_PER_SEC / frame_bytes).min(FILL_FRAMES_PER_SEC_MAX)
}

/// The files must hold what the tool says that it delivered. Stenotype's count comes from its files
/// already, in a format of its own.
fn check_files(tool: Tool, run: &Path, said: u64) -> anyhow::Result<()> {
    if tool == Tool::Stenotype {
        return Ok(());
    }
    let paths: Vec<PathBuf> =
        std::fs::read_dir(run)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    let mut source = ringside_store::open(&paths)?;
    let mut found = 0;
    while !source.is_finished() {
        if let Some(batch) = source.next_batch(READ_WAIT)? {
            found += batch.iter().len() as u64;
        }
    }
    anyhow::ensure!(
        found == said,
        "{} says that it recorded {said} frames; its files hold {found}",
        tool.name()
    );
    Ok(())
}
