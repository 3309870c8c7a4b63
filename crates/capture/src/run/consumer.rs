//! What is behind the ring: the consumer of the run, and a printer next to it.

use super::{LaneSource, RunError, Shared, spawn};
use crate::config::{Output, Print};
use crate::control::{ConsumerCounts, Control};
use crate::merged::{LaneReader, MergedInput, MergedWriter};
use crate::output::{FileList, Sink};
use crate::recorder::{Recorder, RecorderConfig, RecorderThreads, RecordingFacts};
use crate::stream::StreamWriter;
use ringside_core::SourceInterface;
use ringside_store::retention;
use ringside_sys::bell::Bells;
use ringside_sys::ring::{Board, CaptureRing, RingStart};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Name of a printer in the ledger.
pub(crate) const PRINTER: &str = "printer";
/// Name of a merging writer in the ledger.
pub(crate) const WRITER: &str = "writer";

/// What is behind the ring, before its threads.
pub(super) enum Consumer {
    Meter(Meter),
    Recorder(Box<Recorder>),
    /// With its name in the ledger.
    Merged(&'static str, Box<MergedWriter>),
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
            Consumer::Merged(name, writer) => {
                ConsumerThreads::Merged(name, spawn("merge", move || writer.run())?)
            }
        })
    }
}

impl ConsumerThreads {
    pub(super) fn name(&self) -> &'static str {
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
        let (files, kept) = match self {
            ConsumerThreads::Meter(_) => {
                let (files, kept) = (FileList::default(), None);
                return Consumed { files, kept, line: self.line(counts) };
            }
            ConsumerThreads::Recorder(threads) => {
                let (files, kept) = threads.finish(control);
                (files, Some(kept))
            }
            ConsumerThreads::Merged(name, thread) => {
                let files = thread.join().unwrap_or_else(|_| {
                    control.fail(format!("the {name} died"));
                    FileList::default()
                });
                (files, None)
            }
        };
        Consumed { files, kept, line: counts.consumer(name) }
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
}

/// A printer next to another consumer, or where other processes read the ring.
pub(super) struct Printer {
    writer: Box<MergedWriter>,
    counts: Arc<ConsumerCounts>,
}

/// Its thread.
pub(super) struct PrinterThread {
    thread: JoinHandle<FileList>,
    counts: Arc<ConsumerCounts>,
}

impl Printer {
    pub(super) fn start(self) -> Result<PrinterThread, RunError> {
        let writer = self.writer;
        let thread = spawn("print", move || writer.run())?;
        Ok(PrinterThread { thread, counts: self.counts })
    }
}

impl PrinterThread {
    /// Its line of the ledger, so far.
    pub(super) fn consumer(&self) -> ringside_core::Consumer {
        self.counts.consumer(PRINTER)
    }

    /// Waits for the thread; gives the line of the ledger.
    pub(super) fn finish(self, control: &Control) -> ringside_core::Consumer {
        if self.thread.join().is_err() {
            control.fail("the printer died".into());
        }
        self.counts.consumer(PRINTER)
    }
}

impl Shared {
    pub(super) fn consumer(
        &self,
        output: Output,
        print: Option<Print>,
        lanes: &[LaneSource],
        interfaces: Vec<SourceInterface>,
        worker_cpus: &[usize],
    ) -> Result<Consumer, RunError> {
        let Some(ring) = &self.recorded else {
            return Ok(Consumer::Meter(Meter { ring: None }));
        };
        let (name, sink) = match output {
            Output::Count => match print {
                Some(print) => (PRINTER, Sink::print(print, self.control.clone(), interfaces)),
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
        let reader = |lane| {
            let reader = ring.lossless_reader(lane, 0);
            LaneReader::Lossless(reader.expect("each lane's lossless reader is taken once"))
        };
        let mut writer = self.merged(sink, ring, lanes.len(), reader, self.counts.clone());
        let board = ring.board_writer(0, Board::Recorder);
        writer.board = Some(board.expect("taken once, here"));
        Ok(Consumer::Merged(name, writer))
    }

    /// A printer of what the workers take, whatever else becomes of that.
    pub(super) fn printer(
        &self,
        print: Print,
        lanes: usize,
        interfaces: Vec<SourceInterface>,
    ) -> Result<Printer, RunError> {
        let ring = self.ring.as_ref().expect("a run that prints has a ring");
        let counts = Arc::new(ConsumerCounts::default());
        let sink = Sink::print(print, self.control.clone(), interfaces);
        let view = ring.view()?;
        let reader = |lane| LaneReader::Copying(view.copy_reader(lane, RingStart::Oldest));
        let writer = self.merged(sink, ring, lanes, reader, counts.clone());
        Ok(Printer { writer, counts })
    }

    fn merged(
        &self,
        sink: Sink,
        ring: &Arc<CaptureRing>,
        lanes: usize,
        reader: impl Fn(usize) -> LaneReader,
        counts: Arc<ConsumerCounts>,
    ) -> Box<MergedWriter> {
        let input = |lane| MergedInput::new(reader(lane), ring.clone(), lane);
        Box::new(MergedWriter {
            inputs: (0..lanes).map(input).collect(),
            sink,
            status: self.status.clone(),
            control: self.control.clone(),
            counts,
            board: None,
            published: None,
            block_timeout_ns: self.block_timeout_ns,
        })
    }
}
