//! A run: sources in, consumers out, one ledger.
//!
//! ```text
//! source ─ worker ─ meter                                   (Output::Count)
//! source ─ worker ─ capture ring ─ recorder ─ series        (Output::Directory)
//!                    … ring ─ trigger ─ ring ─ recorder     (and a trigger)
//! source ─┐
//! source ─┴ workers ─ capture ring ─ merging writer ─ file  (Output::File, Output::Stream)
//!                               … ─ printer ─ lines         (and RunConfig::print)
//!                               … ─ observers               (and RunConfig::observers)
//! ```

mod consumer;
mod workers;

use crate::config::{Ahead, RunConfig};
use crate::control::{ConsumerCounts, Control};
use crate::keep::{DigestQueue, DigestWriter, Patience, RulesReport, Selection, Selector};
use crate::lane::LaneStatus;
use crate::output::FileList;
pub use crate::recorder::{IndexSummary, MadeDirectories, RecordingFacts};
use crate::share::{Share, ShareSocket};
pub use crate::start::RunError;
use crate::start::spawn;
use crate::trigger::{Trigger, TriggerConfig, TriggerLane, TriggerSummary};
pub use consumer::OBSERVERS;
use consumer::{Behind, Consumed, Consumer, ConsumerThreads, CopyingConsumer, CopyingThread};
use ringside_core::limits::LANE_THREADS_MAX;
use ringside_core::profile::LaneProfile;
use ringside_core::share::{Hello, HelloLane, SHARE_VERSION};
use ringside_core::{InterfaceId, LaneCounters, Ledger, QueueId, Source, SourceInterface};
use ringside_ring::{CaptureRing, HugePages};
use ringside_rules::engine::BuildError;
use ringside_store::retention;
use std::sync::Arc;
use std::thread::JoinHandle;
use workers::{Settings, packer};

/// One lane to capture from.
pub struct LaneSource {
    /// Where the frames come from.
    pub source: Box<dyn Source>,
    /// Name of the interface, for the ledger and file names.
    pub interface: String,
    /// Its id in the run.
    pub interface_id: InterfaceId,
    /// Queue or fanout member.
    pub queue: u16,
}

impl LaneSource {
    /// The sources of all threads but the first.
    fn other_handles(&mut self, threads: usize) -> Result<Vec<Box<dyn Source>>, RunError> {
        let handles = (1..threads).map(|_| self.source.another_handle());
        handles.collect::<Option<_>>().ok_or_else(|| {
            let interface = self.interface.clone();
            RunError::OneThread { interface, threads }
        })
    }
}

/// What a run did.
#[derive(Debug)]
pub struct RunReport {
    /// The final ledger.
    pub ledger: Ledger,
    /// Files that were written, in order, lane by lane.
    pub files: FileList,
    /// Of a recording in directories: what was deleted to keep to the limits, and what is there.
    pub kept: Option<retention::Summary>,
    /// Of a recording in directories: what was made of the files' indexes, if that was wanted.
    pub indexes: Option<IndexSummary>,
    /// What failed on the way; the ledger includes its losses.
    pub errors: Vec<String>,
    /// What the trigger did, if there was one.
    pub trigger: Option<TriggerSummary>,
    /// How the lanes were worked on, of those whose backends count that.
    pub profiles: Vec<LaneProfile>,
    /// What the rules counted, if there were some.
    pub rules: Option<RulesReport>,
}

/// A run with everything opened (sources, memory, files) and nothing started: what needs
/// privileges is done, and they can be dropped.
pub struct Prepared {
    lanes: Vec<LaneSource>,
    /// For each lane, those of its threads after the first.
    handles: Vec<Vec<Box<dyn Source>>>,
    /// For each lane, those of its threads; none if all frames are taken as they are.
    selectors: Vec<Vec<Selector>>,
    selection: Option<Selection>,
    digests: Option<DigestWriter>,
    ahead: Option<Arc<dyn Ahead>>,
    shared: Shared,
    consumer: Consumer,
    copying: Vec<CopyingConsumer>,
    settings: Settings,
    trigger: Option<Trigger>,
    share: Option<(ShareSocket, Hello)>,
}

/// A run in progress.
pub struct Run {
    control: Arc<Control>,
    status: Vec<Arc<LaneStatus>>,
    workers: Vec<JoinHandle<LaneCounters>>,
    consumer: ConsumerThreads,
    copying: Vec<CopyingThread>,
    counts: Arc<ConsumerCounts>,
    trigger: Option<JoinHandle<TriggerSummary>>,
    share: Option<Share>,
    selection: Option<Selection>,
    digests: Option<JoinHandle<()>>,
    ahead: Option<Arc<dyn Ahead>>,
}

impl Prepared {
    /// The ring that the consumer reads; `None` for a run that only counts.
    pub fn ring(&self) -> Option<&Arc<CaptureRing>> {
        self.shared.recorded.as_ref()
    }

    /// The memory in which the workers publish their counters: the ring that they fill, or one
    /// that has nothing else.
    pub fn boards(&self) -> &Arc<CaptureRing> {
        &self.shared.boards
    }

    /// The recording, if the run writes one to directories.
    pub fn recording(&self) -> Option<RecordingFacts<'_>> {
        self.consumer.recording()
    }

    /// The ring that the workers fill: with a trigger, the memory that a hit reaches back to.
    pub fn memory(&self) -> Option<&Arc<CaptureRing>> {
        self.shared.ring.as_ref()
    }

    /// What was chosen where the run could choose, for people: a line each.
    pub fn notes(&self) -> &[String] {
        self.consumer.notes()
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// A source could not begin, or there is no thread to be had.
    pub fn start(mut self) -> Result<Run, RunError> {
        // The supply, all lanes as close together as possible, and only then the threads: what
        // comes meanwhile waits in the kernel's rings, and a source that cannot start leaves
        // nothing behind.
        if let Some(ahead) = &self.ahead {
            ahead.start().map_err(RunError::Ahead)?;
        }
        for lane in &mut self.lanes {
            lane.source.start()?;
        }
        let consumer = self.consumer.start()?;
        let copying =
            self.copying.into_iter().map(CopyingConsumer::start).collect::<Result<_, _>>()?;
        let trigger = self.trigger.map(|trigger| spawn("trigger", move || trigger.run()));
        let trigger = trigger.transpose()?;
        let digests = self.digests.map(|writer| spawn("digests", move || writer.run()));
        let digests = digests.transpose()?;
        let share = match (self.share, &self.shared.ring) {
            (Some((socket, hello)), Some(ring)) => Some(socket.serve(ring.clone(), &hello)?),
            _ => None,
        };
        let handles = self.handles.into_iter().zip(self.selectors);
        let lanes = self.lanes.into_iter().zip(handles);
        let workers = self.shared.workers(lanes, &self.settings)?;
        let Shared { control, counts, status, .. } = self.shared;
        let (selection, ahead) = (self.selection, self.ahead);
        Ok(Run {
            control,
            status,
            workers,
            consumer,
            copying,
            counts,
            trigger,
            share,
            selection,
            digests,
            ahead,
        })
    }
}

impl Run {
    /// Opens and allocates all that the run needs. `interfaces` are those of the run, by interface
    /// id.
    ///
    /// # Errors
    /// There is no source, no memory for the ring, or the output cannot be created.
    pub fn prepare(
        mut lanes: Vec<LaneSource>,
        interfaces: Vec<SourceInterface>,
        mut config: RunConfig,
    ) -> Result<Prepared, RunError> {
        let handles = handles(&mut lanes, config.threads)?;
        let control = Arc::new(Control::new(config.frames_max));
        let counts = Arc::new(ConsumerCounts::default());
        let [ring, recorded] = rings(&config, lanes.len())?;
        let mut behind = Behind::of(&mut config);
        let share = match (config.share, &ring) {
            (Some(socket), Some(ring)) => {
                // Readers of other processes get memory that no process can write or take away.
                ring.seal()?;
                Some((socket, hello(&lanes, &interfaces, config.block_timeout_ns)))
            }
            _ => None,
        };
        let status: Vec<_> = lanes.iter().map(|_| Arc::new(LaneStatus::default())).collect();
        let block_timeout_ns = config.block_timeout_ns;
        let boards = match &ring {
            Some(ring) => ring.clone(),
            None => CaptureRing::create_for_boards(lanes.len())?,
        };
        let shared = Shared { ring, recorded, boards, control, counts, status, block_timeout_ns };
        // An output that cannot be created must not cost a frame.
        let selection = config.selection.as_mut();
        let digests = selection.map(|some| some.open_digests(&interfaces, &shared.control));
        let (digests, queue) = digests.transpose()?.flatten().unzip();
        let copying = behind.take_copying(&shared, lanes.len(), &interfaces)?;
        let consumer = shared.consumer(behind, &lanes, interfaces, &config.cpus)?;
        let settings = Settings {
            snaplen: config.snaplen,
            block_bytes: config.block_bytes,
            threads: config.threads,
            turns_away: config.selection.as_ref().is_some_and(Selection::turns_away),
            cpus: config.cpus,
            bells: consumer.bells(),
        };
        let selectors =
            selectors(&lanes, config.selection.as_ref(), &settings, &shared, queue.as_ref())?;
        let trigger = config.trigger.map(|trigger| shared.trigger(trigger, &lanes, &settings));
        let (selection, ahead) = (config.selection, config.ahead);
        Ok(Prepared {
            lanes,
            handles,
            selectors,
            selection,
            digests,
            ahead,
            shared,
            consumer,
            copying,
            settings,
            trigger,
            share,
        })
    }

    /// [`prepare`](Self::prepare) and [`start`](Prepared::start) in one.
    ///
    /// # Errors
    /// As these two.
    pub fn start(
        lanes: Vec<LaneSource>,
        interfaces: Vec<SourceInterface>,
        config: RunConfig,
    ) -> Result<Run, RunError> {
        Run::prepare(lanes, interfaces, config)?.start()
    }

    /// The ledger as it was last read, at most 100 ms and one batch ago.
    pub fn status(&self) -> Ledger {
        let mut lanes: Vec<_> = self.status.iter().map(|status| status.get()).collect();
        lanes.extend(self.ahead.iter().flat_map(|ahead| ahead.counters()));
        let mut ledger = Ledger::from_lanes(lanes);
        ledger.consumers.push(self.consumer.line(&self.counts));
        ledger.consumers.extend(self.copying.iter().map(CopyingThread::line));
        ledger
    }

    /// How the lanes are worked on, of those whose backends count that, at most 100 ms ago.
    pub fn profiles(&self) -> Vec<LaneProfile> {
        LaneStatus::profiles(&self.status)
    }

    /// True until the run was ordered to stop, stopped by itself, or every source has ended.
    pub fn is_running(&self) -> bool {
        !self.control.is_stopping() && self.workers.iter().any(|worker| !worker.is_finished())
    }

    /// Readers of other processes that are attached now; `None` for a ring that is not shared.
    pub fn attached(&self) -> Option<usize> {
        self.share.as_ref().map(Share::attached)
    }

    /// Orders the run to stop; [`finish`](Self::finish) waits for it.
    pub fn stop(&self) {
        self.control.stop();
    }

    /// Begins the next files of a timed rotation.
    pub fn rotate(&self) {
        self.control.rotate();
    }

    /// Stops (detaches the sources, drains them and the ring, closes the files) and reports.
    pub fn finish(self) -> RunReport {
        self.control.stop();
        let mut lanes = Vec::new();
        for (worker, status) in self.workers.into_iter().zip(&self.status) {
            lanes.push(worker.join().unwrap_or_else(|_| {
                self.control.fail("a worker died; its last reading stands in the ledger".into());
                status.get()
            }));
        }
        // The workers have handed over what they had.
        if self.digests.is_some_and(|thread| thread.join().is_err()) {
            self.control.fail("the writer of digests died".into());
        }
        if let Some(ahead) = &self.ahead {
            ahead.stop().unwrap_or_else(|error| self.control.fail(error));
            lanes.extend(ahead.counters());
        }
        let mut ledger = Ledger::from_lanes(lanes);
        let trigger = self.trigger.and_then(|thread| thread.join().ok());
        let Consumed { files, kept, indexes, line } =
            self.consumer.finish(&self.counts, &self.control);
        ledger.consumers.push(line);
        let copying = self.copying.into_iter().map(|thread| thread.finish(&self.control));
        ledger.consumers.extend(copying);
        if let Some(why) = ringside_sys::bpf::approximate_because() {
            tracing::warn!("the kernel's counts of the last moment are approximate: {why}");
        }
        if let Err(imbalance) = ledger.balance() {
            self.control.fail(imbalance.to_string());
        }
        let profiles = LaneStatus::profiles(&self.status);
        let rules = self.selection.as_ref().and_then(Selection::rules_report);
        let errors = self.control.errors();
        RunReport { ledger, files, kept, indexes, errors, trigger, profiles, rules }
    }
}

/// What the threads of a run are made from.
struct Shared {
    /// What the workers fill.
    ring: Option<Arc<CaptureRing>>,
    /// What the consumer reads: the same, or the one behind the trigger.
    recorded: Option<Arc<CaptureRing>>,
    /// Where workers publish their counters: the first ring, if there is one.
    boards: Arc<CaptureRing>,
    control: Arc<Control>,
    counts: Arc<ConsumerCounts>,
    status: Vec<Arc<LaneStatus>>,
    block_timeout_ns: u64,
}

impl Shared {
    /// The trigger between the two rings.
    fn trigger(&self, config: TriggerConfig, lanes: &[LaneSource], settings: &Settings) -> Trigger {
        let (Some(ring), Some(recorded)) = (&self.ring, &self.recorded) else {
            unreachable!("a run with a trigger has both rings");
        };
        let lane = |(index, lane): (usize, &LaneSource)| {
            let reader = ring.block_reader(index, 0).expect("taken once, here");
            let packer = packer(recorded, index, lane, settings);
            TriggerLane::new(index, ring.clone(), reader, packer, self.status[index].clone())
        };
        let lanes = lanes.iter().enumerate().map(lane).collect();
        let (counts, control) = (self.counts.clone(), self.control.clone());
        Trigger { lanes, config, counts, control }
    }
}

/// What the workers fill, and what the consumer reads: the same, or one behind the trigger.
fn rings(config: &RunConfig, lanes: usize) -> Result<[Option<Arc<CaptureRing>>; 2], RunError> {
    let create = |layout| CaptureRing::create(layout, HugePages::Try);
    let ring = config.ring_layout(lanes).map(create).transpose()?;
    let recorded = match config.trigger {
        Some(_) => Some(create(config.recorded_layout(lanes))?),
        None => ring.clone(),
    };
    Ok([ring, recorded])
}

/// For each lane the sources of its threads after the first.
fn handles(
    lanes: &mut [LaneSource],
    threads: usize,
) -> Result<Vec<Vec<Box<dyn Source>>>, RunError> {
    if lanes.is_empty() {
        return Err(RunError::NoSource);
    }
    if !(1..=LANE_THREADS_MAX).contains(&threads) {
        return Err(RunError::Threads(threads));
    }
    lanes.iter_mut().map(|lane| lane.other_handles(threads)).collect()
}

/// What chooses the frames of each thread of each lane.
fn selectors(
    lanes: &[LaneSource],
    selection: Option<&Selection>,
    settings: &Settings,
    shared: &Shared,
    digests: Option<&DigestQueue>,
) -> Result<Vec<Vec<Selector>>, BuildError> {
    let Some(selection) = selection else {
        return Ok(lanes.iter().map(|_| Vec::new()).collect());
    };
    let of_lane = |(index, lane): (usize, &LaneSource)| {
        let ring = shared.ring.as_ref().map(|ring| (ring, index));
        let interfaces = lane.source.interfaces();
        let patience = if lane.source.can_wait() { Patience::Some } else { Patience::None };
        let one = |_| {
            let digests = digests.map(|queue| queue.with(patience));
            selection.selector(interfaces, settings.snaplen, settings.threads, ring, digests)
        };
        (0..settings.threads).map(one).collect()
    };
    lanes.iter().enumerate().map(of_lane).collect()
}

/// The first message to a reader of another process.
fn hello(lanes: &[LaneSource], interfaces: &[SourceInterface], block_timeout_ns: u64) -> Hello {
    let lane = |lane: &LaneSource| HelloLane {
        interface: lane.interface.clone(),
        interface_id: lane.interface_id,
        queue: QueueId(lane.queue),
    };
    Hello {
        version: SHARE_VERSION,
        owner: concat!("Ringside ", env!("CARGO_PKG_VERSION")).to_owned(),
        pid: std::process::id(),
        interfaces: interfaces.to_vec(),
        lanes: lanes.iter().map(lane).collect(),
        block_timeout_ns,
    }
}
