//! What is behind the ring: the consumer of the run, and a printer and observers next to it.

use super::{LaneSource, RunError, Shared, spawn};
use crate::config::{Output, Print, RunConfig};
use crate::control::{ConsumerCounts, Control, PRINTER, WRITER};
use crate::merged::{LaneReader, MergedInput, MergedLanes, MergedWriter};
use crate::observe::RingObserver;
use crate::output::{FileList, Sink};
use crate::recorder::{IndexSummary, Recorder, RecorderConfig, RecorderThreads, RecordingFacts};
use crate::stream::StreamWriter;
use ringside_core::SourceInterface;
use ringside_inspect::{Observer, Pump};
use ringside_ring::{Board, CaptureRing, RingStart};
use ringside_store::retention;
use ringside_sys::bell::Bells;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Name of all observers together in the ledger of a run.
pub const OBSERVERS: &str = "observers";

/// What a thread behind the ring does until the lanes are finished; it gives the files it made.
type Body = Box<dyn FnOnce() -> FileList + Send>;

/// What is behind the ring, before its threads.
pub(super) enum Consumer {
    Meter(Meter),
    Recorder(Box<Recorder>),
    /// With its name in the ledger.
    Merged(&'static str, Body),
}

/// The threads behind the ring.
pub(super) enum ConsumerThreads {
    Meter(Meter),
    Recorder(RecorderThreads),
    Merged(&'static str, JoinHandle<FileList>),
}

impl Consumer {
    pub(super) fn bells(&self) -> Option<Arc<Bells>> {
        match self {
            Consumer::Recorder(recorder) => Some(recorder.bells()),
            Consumer::Meter(_) | Consumer::Merged(..) => None,
        }
    }

    /// The recording, if it is one in directories.
    pub(super) fn recording(&self) -> Option<RecordingFacts<'_>> {
        match self {
            Consumer::Recorder(recorder) => Some(recorder.facts()),
            Consumer::Meter(_) | Consumer::Merged(..) => None,
        }
    }

    /// What was chosen where it could choose.
    pub(super) fn notes(&self) -> &[String] {
        match self {
            Consumer::Recorder(recorder) => recorder.notes(),
            Consumer::Meter(_) | Consumer::Merged(..) => &[],
        }
    }

    pub(super) fn start(self) -> Result<ConsumerThreads, RunError> {
        Ok(match self {
            Consumer::Meter(meter) => ConsumerThreads::Meter(meter),
            Consumer::Recorder(recorder) => ConsumerThreads::Recorder(recorder.start()?),
            Consumer::Merged(name, body) => ConsumerThreads::Merged(name, spawn("merge", body)?),
        })
    }
}

impl ConsumerThreads {
    fn name(&self) -> &'static str {
        match self {
            ConsumerThreads::Meter(_) => "meter",
            ConsumerThreads::Recorder(_) => "recorder",
            ConsumerThreads::Merged(name, _) => name,
        }
    }

    /// Its line of the ledger, so far or at last.
    pub(super) fn line(&self, counts: &ConsumerCounts) -> ringside_core::Consumer {
        let mut line = counts.consumer(self.name());
        if let ConsumerThreads::Meter(Meter { ring: Some(ring) }) = self {
            line.delivered = (0..ring.layout().lanes).map(|lane| ring.frames(lane)).sum();
        }
        line
    }

    /// Waits for the threads.
    pub(super) fn finish(self, counts: &ConsumerCounts, control: &Control) -> Consumed {
        let name = self.name();
        let (mut kept, mut indexes) = (None, None);
        let files = match self {
            ConsumerThreads::Meter(_) => {
                let files = FileList::default();
                return Consumed { files, kept, indexes, line: self.line(counts) };
            }
            ConsumerThreads::Recorder(threads) => {
                let recorded = threads.finish(control);
                (kept, indexes) = (Some(recorded.kept), recorded.indexes);
                recorded.files
            }
            ConsumerThreads::Merged(name, thread) => thread.join().unwrap_or_else(|_| {
                control.fail(format!("the {name} died"));
                FileList::default()
            }),
        };
        Consumed { files, kept, indexes, line: counts.consumer(name) }
    }
}

/// Counts what is taken: with the workers, where the frames lie, or where other processes read the
/// ring, by what that was shown.
pub(super) struct Meter {
    ring: Option<Arc<CaptureRing>>,
}

/// What a consumer did.
pub(super) struct Consumed {
    /// Its line of the ledger.
    pub(super) line: ringside_core::Consumer,
    pub(super) files: FileList,
    pub(super) kept: Option<retention::Summary>,
    pub(super) indexes: Option<IndexSummary>,
}

/// Who reads the ring next to the consumer of the run and is overtaken where it is too slow: a
/// printer, and observers.
pub(super) struct CopyingConsumer {
    name: &'static str,
    body: Body,
    counts: Arc<ConsumerCounts>,
}

/// Its thread.
pub(super) struct CopyingThread {
    name: &'static str,
    thread: JoinHandle<FileList>,
    counts: Arc<ConsumerCounts>,
}

impl CopyingConsumer {
    pub(super) fn start(self) -> Result<CopyingThread, RunError> {
        let CopyingConsumer { name, body, counts } = self;
        Ok(CopyingThread { name, thread: spawn(name, body)?, counts })
    }
}

impl CopyingThread {
    /// Its line of the ledger, so far.
    pub(super) fn line(&self) -> ringside_core::Consumer {
        self.counts.consumer(self.name)
    }

    /// Waits for the thread; gives the line of the ledger.
    pub(super) fn finish(self, control: &Control) -> ringside_core::Consumer {
        let CopyingThread { name, thread, counts } = self;
        if thread.join().is_err() {
            control.fail(format!("the {name} died"));
        }
        counts.consumer(name)
    }
}

/// What of the configuration is put behind the ring.
pub(super) struct Behind {
    output: Output,
    print: Option<Print>,
    prints_alone: bool,
    observers: Vec<Box<dyn Observer>>,
    observes_alone: bool,
}

impl Behind {
    pub(super) fn of(config: &mut RunConfig) -> Behind {
        Behind {
            prints_alone: config.prints_alone(),
            observes_alone: config.observes_alone(),
            output: std::mem::replace(&mut config.output, Output::Count),
            print: config.print.take(),
            observers: std::mem::take(&mut config.observers),
        }
    }

    /// Those who read next to the consumer.
    pub(super) fn take_copying(
        &mut self,
        shared: &Shared,
        lanes: usize,
        interfaces: &[SourceInterface],
    ) -> Result<Vec<CopyingConsumer>, RunError> {
        let mut copying = Vec::new();
        if let Some(print) = self.print.take_if(|_| !self.prints_alone) {
            copying.push(shared.printer(print, lanes, interfaces.to_vec())?);
        }
        if !self.observes_alone && !self.observers.is_empty() {
            let observers = std::mem::take(&mut self.observers);
            copying.push(shared.observers(observers, lanes, interfaces.to_vec())?);
        }
        Ok(copying)
    }
}

impl Shared {
    pub(super) fn consumer(
        &self,
        behind: Behind,
        lanes: &[LaneSource],
        interfaces: Vec<SourceInterface>,
        worker_cpus: &[usize],
    ) -> Result<Consumer, RunError> {
        let Some(ring) = &self.recorded else {
            return Ok(Consumer::Meter(Meter { ring: None }));
        };
        let lossless = |lane| {
            let reader = ring.lossless_reader(lane, 0);
            LaneReader::Lossless(reader.expect("each lane's lossless reader is taken once"))
        };
        let (name, sink) = match behind.output {
            Output::Count => match behind.print {
                Some(print) => (PRINTER, Sink::print(print, self.control.clone(), interfaces)),
                None if !behind.observers.is_empty() => {
                    let merged = self.lanes(ring, lanes.len(), lossless);
                    let counts = self.counts.clone();
                    let body = observe(behind.observers, merged, interfaces, counts);
                    return Ok(Consumer::Merged(OBSERVERS, body));
                }
                None => return Ok(Consumer::Meter(Meter { ring: Some(ring.clone()) })),
            },
            Output::Directory { paths, rotation, options, retention } => {
                let recorder = Recorder::prepare(RecorderConfig {
                    directories: paths,
                    rotation,
                    options,
                    retention,
                    lanes: lanes.iter().map(|lane| lane.interface.clone()).collect(),
                    interfaces,
                    worker_cpus,
                    ring,
                    counts: self.counts.clone(),
                    control: self.control.clone(),
                })?;
                return Ok(Consumer::Recorder(Box::new(recorder)));
            }
            Output::File { path, format, rotation } => {
                (WRITER, Sink::file(path, format, rotation, interfaces)?)
            }
            Output::Stream { fd, format } => {
                let writer = StreamWriter::new(fd, self.control.clone());
                (WRITER, Sink::stream(writer, format, interfaces)?)
            }
        };
        let merged = self.lanes(ring, lanes.len(), lossless);
        let mut writer = self.writer(sink, merged, self.counts.clone());
        let board = ring.board_writer(0, Board::Recorder);
        writer.board = Some(board.expect("taken once, here"));
        Ok(Consumer::Merged(name, Box::new(move || writer.run())))
    }

    /// A printer of what the workers take, whatever else becomes of that.
    pub(super) fn printer(
        &self,
        print: Print,
        lanes: usize,
        interfaces: Vec<SourceInterface>,
    ) -> Result<CopyingConsumer, RunError> {
        let counts = Arc::new(ConsumerCounts::default());
        let sink = Sink::print(print, self.control.clone(), interfaces);
        let writer = self.writer(sink, self.copying_lanes(lanes)?, counts.clone());
        Ok(CopyingConsumer { name: PRINTER, body: Box::new(move || writer.run()), counts })
    }

    /// Observers of what the workers take, likewise.
    pub(super) fn observers(
        &self,
        observers: Vec<Box<dyn Observer>>,
        lanes: usize,
        interfaces: Vec<SourceInterface>,
    ) -> Result<CopyingConsumer, RunError> {
        let counts = Arc::new(ConsumerCounts::default());
        let body = observe(observers, self.copying_lanes(lanes)?, interfaces, counts.clone());
        Ok(CopyingConsumer { name: OBSERVERS, body, counts })
    }

    /// What the workers fill, for a reader that holds nothing up.
    fn copying_lanes(&self, lanes: usize) -> Result<MergedLanes, RunError> {
        let ring = self.ring.as_ref().expect("a run with readers has a ring");
        let view = ring.view()?;
        let reader = |lane| LaneReader::Copying(view.copy_reader(lane, RingStart::Oldest));
        Ok(self.lanes(ring, lanes, reader))
    }

    fn lanes(
        &self,
        ring: &Arc<CaptureRing>,
        lanes: usize,
        reader: impl Fn(usize) -> LaneReader,
    ) -> MergedLanes {
        let input = |lane| MergedInput::new(reader(lane), ring.clone(), lane);
        MergedLanes::new((0..lanes).map(input).collect(), self.block_timeout_ns)
    }

    fn writer(
        &self,
        sink: Sink,
        lanes: MergedLanes,
        counts: Arc<ConsumerCounts>,
    ) -> Box<MergedWriter> {
        Box::new(MergedWriter {
            lanes,
            sink,
            status: self.status.clone(),
            control: self.control.clone(),
            counts,
            board: None,
            published: None,
        })
    }
}

/// What the thread of observers does. They make no files of the run's.
fn observe(
    observers: Vec<Box<dyn Observer>>,
    lanes: MergedLanes,
    interfaces: Vec<SourceInterface>,
    counts: Arc<ConsumerCounts>,
) -> Body {
    let observer = RingObserver { lanes, pump: Pump::new(observers), interfaces, counts };
    Box::new(move || {
        observer.run();
        FileList::default()
    })
}
