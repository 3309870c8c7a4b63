//! Observers see the same from a file, from its recording, from a ring of their own, next to a
//! recorder and in another process; what they miss is counted.

#[path = "../../examples/count_protocols/protocols.rs"]
mod protocols;

use crate::common::{Numbered, lanes};
use protocols::{Counts, Protocols};
use ringside_capture::backend::file::FileLane;
use ringside_capture::config::{DiskOptions, Output, Rotation, RunConfig};
use ringside_capture::run::{LaneSource, Run, RunReport};
use ringside_capture::share::ShareSocket;
use ringside_client::{Attachment, ReadOptions};
use ringside_core::limits::RING_BLOCK_BYTES_MIN;
use ringside_core::{
    Batch, Cause, InterfaceId, LaneId, LinkType, Source, SourceCounters, SourceError,
    SourceInterface, Timestamp,
};
use ringside_inspect::{DissectedFrame, Observer, Pump, Received};
use ringside_store::retention::Policy;
use ringside_testkit::{by_run, capture_files, project_root};
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// All that an observer gets.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Frame { bytes: u64, link: LinkType, stamp: Timestamp, wire_bytes: u32, captured: usize },
    Tick(Timestamp),
}

struct Trace {
    told: Vec<Told>,
    out: Sender<Vec<Told>>,
}

impl Observer for Trace {
    fn see(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) {
        let mut hasher = DefaultHasher::new();
        frame.bytes().hash(&mut hasher);
        assert_eq!(frame.link(), received.interface.link_type);
        self.told.push(Told::Frame {
            bytes: hasher.finish(),
            link: frame.link(),
            stamp: received.meta.timestamp,
            wire_bytes: received.meta.wire_bytes,
            captured: frame.bytes().len(),
        });
    }

    fn tick(&mut self, low_water: Timestamp) {
        self.told.push(Told::Tick(low_water));
    }

    fn finish(&mut self) {
        self.out.send(std::mem::take(&mut self.told)).unwrap();
    }
}

/// A model that notes everything, and the example, and what both say at the end.
struct Watch {
    traces: Receiver<Vec<Told>>,
    counts: Receiver<Counts>,
}

impl Watch {
    fn new() -> (Vec<Box<dyn Observer>>, Watch) {
        let ((out, traces), (found, counts)) = (channel(), channel());
        let trace = Trace { told: Vec::new(), out };
        (vec![Box::new(trace), Box::new(Protocols::new(found))], Watch { traces, counts })
    }

    fn found(self) -> (Vec<Told>, Counts) {
        (self.traces.recv().unwrap(), self.counts.recv().unwrap())
    }
}

/// What observers of stored frames get, and how many frames these were.
fn stored(path: &Path) -> Option<((Vec<Told>, Counts), u64)> {
    let mut source = ringside_store::open(&[path.to_owned()]).ok()?;
    let (observers, watch) = Watch::new();
    let report = Pump::new(observers).run(&mut *source, LaneId(0), &|| false);
    let lost = report.counters.dropped.values().sum::<u64>();
    assert_eq!(report.counters.received, Some(report.seen.frames + lost), "{}", path.display());
    Some((watch.found(), report.seen.frames))
}

/// A file that gives no frame before it may.
struct Gated {
    lane: FileLane,
    is_open: Arc<AtomicBool>,
}

impl Source for Gated {
    fn next_batch(&mut self, timeout: Duration) -> Result<Option<Batch<'_>>, SourceError> {
        if self.is_open.load(Ordering::Acquire) {
            return self.lane.next_batch(timeout);
        }
        std::thread::sleep(Duration::from_millis(1));
        Ok(None)
    }

    fn is_finished(&self) -> bool {
        self.is_open.load(Ordering::Acquire) && self.lane.is_finished()
    }

    fn interfaces(&self) -> &[SourceInterface] {
        self.lane.interfaces()
    }

    fn counters(&mut self) -> SourceCounters {
        self.lane.counters()
    }

    fn low_water(&self) -> Timestamp {
        match self.is_open.load(Ordering::Acquire) {
            true => self.lane.low_water(),
            false => Timestamp::default(),
        }
    }

    fn can_wait(&self) -> bool {
        true
    }

    fn detach(&mut self) -> Result<(), SourceError> {
        self.lane.detach()
    }
}

/// A run over a file, in a ring that holds all of it. Nothing comes before `is_open`.
fn start(path: &Path, is_open: &Arc<AtomicBool>, config: RunConfig) -> Option<Run> {
    let lane = FileLane::open(&[path.to_owned()]).ok()?;
    let interfaces = lane.interfaces().to_vec();
    let interface = interfaces.first()?.name.clone();
    let file_bytes = fs::metadata(path).unwrap().len() as usize;
    let source = Box::new(Gated { lane, is_open: is_open.clone() });
    let lane = LaneSource { interface, interface_id: InterfaceId(0), queue: 0, source };
    let ring_bytes = 4 * file_bytes + (8 << 20);
    Some(Run::start(vec![lane], interfaces, RunConfig { ring_bytes, ..config }).unwrap())
}

/// Ends a run of which all lanes come to their end.
fn finish(run: Run) -> RunReport {
    while run.is_running() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let report = run.finish();
    report.ledger.balance().unwrap();
    report
}

/// Without a trial of the disk.
fn directory(path: &Path) -> Output {
    let options =
        DiskOptions { write_blocks: Some(1), io_uring: false, direct: false, index: false };
    let (paths, rotation) = (vec![path.to_owned()], Rotation::default());
    Output::Directory { paths, rotation, options, retention: Policy::default() }
}

/// Observers as the run's only consumer, or next to a recorder; also the ledger.
fn of_run(path: &Path, output: Output) -> Option<((Vec<Told>, Counts), RunReport)> {
    let (observers, watch) = Watch::new();
    let config = RunConfig { output, observers, ..RunConfig::counting() };
    let report = finish(start(path, &Arc::new(true.into()), config)?);
    Some((watch.found(), report))
}

/// Observers that are attached to the ring of a run as another process is.
fn attached(path: &Path) -> (Vec<Told>, Counts) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("share");
    let share = ShareSocket::new(UnixListener::bind(&socket).unwrap(), ()).unwrap();
    let is_open = Arc::new(AtomicBool::new(false));
    let config = RunConfig { share: Some(share), ..RunConfig::counting() };
    let run = start(path, &is_open, config).unwrap();
    let attachment = Attachment::connect(&socket).unwrap();
    let mut source = attachment.sources(&ReadOptions::default()).remove(0);
    is_open.store(true, Ordering::Release);
    let (observers, watch) = Watch::new();
    let thread =
        std::thread::spawn(move || Pump::new(observers).run(&mut source, LaneId(0), &|| false));
    let taken = finish(run).ledger.taken;
    let report = thread.join().unwrap();
    assert_eq!((report.seen.frames, report.counters.received), (taken, Some(taken)));
    watch.found()
}

fn observers_line(report: &RunReport) -> &ringside_core::Consumer {
    let mut lines = report.ledger.consumers.iter();
    lines.find(|line| line.name == "observers").unwrap()
}

#[test]
fn observers_see_the_same_from_everywhere() {
    let files = capture_files("observers_see_the_same_from_everywhere");
    if files.is_empty() {
        return;
    }
    let (mut compared, mut frames_compared) = (0, 0);
    for path in files.iter().step_by(by_run(6, 1)) {
        let Some((expected, frames)) = stored(path) else { continue };
        let Some((alone, report)) = of_run(path, Output::Count) else { continue };
        if report.errors.iter().any(|error| error.contains("in the middle of the capture")) {
            continue;
        }
        let name = path.display();
        assert!(alone == expected, "{name}: observers alone");
        assert_eq!(observers_line(&report).delivered, frames, "{name}");
        let folder = tempfile::tempdir().unwrap();
        let (next_to_it, report) = of_run(path, directory(folder.path())).unwrap();
        assert!(next_to_it == expected, "{name}: next to a recorder");
        assert_eq!((report.ledger.taken, report.ledger.consumers.len()), (frames, 2), "{name}");
        let (recorded, _) = stored(folder.path()).unwrap();
        assert!(recorded == expected, "{name}: its recording");
        assert!(attached(path) == expected, "{name}: attached");
        (compared, frames_compared) = (compared + 1, frames_compared + frames);
    }
    println!("{frames_compared} frames of {compared} captures");
    assert!(compared > files.len() / by_run(6, 1) / 2, "{compared} of {}", files.len());
}

/// Waits at the first frame until it is let go.
struct Slow {
    go: Receiver<()>,
    seen: Sender<u64>,
    frames: u64,
}

impl Observer for Slow {
    fn see(&mut self, _: &DissectedFrame<'_>, _: &Received<'_>) {
        if self.frames == 0 {
            self.go.recv().unwrap();
        }
        self.frames += 1;
    }

    fn finish(&mut self) {
        self.seen.send(self.frames).unwrap();
    }
}

/// Frames that are not lost by waiting.
struct Patient(Numbered);

impl Source for Patient {
    fn next_batch(&mut self, timeout: Duration) -> Result<Option<Batch<'_>>, SourceError> {
        self.0.next_batch(timeout)
    }

    fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    fn interfaces(&self) -> &[SourceInterface] {
        self.0.interfaces()
    }

    fn counters(&mut self) -> SourceCounters {
        self.0.counters()
    }

    fn low_water(&self) -> Timestamp {
        self.0.low_water()
    }

    fn can_wait(&self) -> bool {
        true
    }

    fn detach(&mut self) -> Result<(), SourceError> {
        self.0.detach()
    }
}

/// A recorder is not held up, and every frame is seen or missed.
#[test]
fn an_observer_that_is_too_slow_costs_only_what_it_misses() {
    const FRAMES: u64 = 20_000;
    let (folder, (go, wait), (seen, counted)) =
        (tempfile::tempdir().unwrap(), channel(), channel());
    let slow = Slow { go: wait, seen, frames: 0 };
    let config = RunConfig {
        output: directory(folder.path()),
        observers: vec![Box::new(slow)],
        block_bytes: RING_BLOCK_BYTES_MIN,
        ring_bytes: 4 * RING_BLOCK_BYTES_MIN,
        ..RunConfig::counting()
    };
    let interfaces = vec![SourceInterface::ethernet("test0")];
    let source = Box::new(Patient(Numbered::new(0, FRAMES)));
    let interface = "test0".to_owned();
    let lane = LaneSource { interface, interface_id: InterfaceId(0), queue: 0, source };
    let run = Run::start(vec![lane], interfaces, config).unwrap();
    while run.is_running() {
        std::thread::sleep(Duration::from_millis(1));
    }
    go.send(()).unwrap();
    let report = finish(run);
    assert_eq!((report.ledger.taken, report.ledger.consumers[0].delivered), (FRAMES, FRAMES));
    let line = observers_line(&report);
    assert_eq!(counted.recv().unwrap(), line.delivered);
    let missed = line.missed[&Cause::Overtaken];
    assert_eq!(line.delivered + missed, FRAMES);
    assert!(missed > FRAMES / 2, "{missed} frames, of a ring that holds a sixth");
}

/// Frames of several lanes: interface, number and stamp of each.
struct Lanes(Vec<(LaneId, u64, Timestamp)>, Sender<Vec<(LaneId, u64, Timestamp)>>);

impl Observer for Lanes {
    fn see(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) {
        let number = u64::from_be_bytes(*frame.bytes()[4..].first_chunk().unwrap());
        assert_eq!(received.interface.name, format!("test{}", received.lane));
        self.0.push((received.lane, number, received.meta.timestamp));
    }

    fn finish(&mut self) {
        self.1.send(std::mem::take(&mut self.0)).unwrap();
    }
}

#[test]
fn lanes_are_one_stream_in_which_each_keeps_its_order() {
    let (out, seen) = channel();
    let observers: Vec<Box<dyn Observer>> = vec![Box::new(Lanes(Vec::new(), out))];
    let (lanes, interfaces) = lanes(vec![Numbered::new(0, 5_000), Numbered::new(1, 3_000)]);
    let config = RunConfig { observers, ..RunConfig::counting() };
    let report = finish(Run::start(lanes, interfaces, config).unwrap());
    let seen = seen.recv().unwrap();
    for (lane, frames) in [(0, 5_000), (1, 3_000)] {
        let of_lane = seen.iter().filter(|frame| frame.0 == LaneId(lane)).map(|frame| frame.1);
        assert!(of_lane.eq(0..frames), "lane {lane}");
    }
    let mut newest = Timestamp::default();
    let late = seen.iter().filter(|(_, _, stamp)| {
        newest = newest.max(*stamp);
        *stamp < newest
    });
    // How many are late depends on the machine; that they are reported does not.
    assert_eq!(report.ledger.consumers[0].late, late.count() as u64);
    assert_eq!((report.ledger.consumers.len(), observers_line(&report).delivered), (1, 8_000));
}

/// The how-to shows the code that is compiled and tested here.
#[test]
fn the_how_to_shows_the_example() {
    let text = |path: &str| fs::read_to_string(project_root().join(path)).unwrap();
    let howto = text("docs/howto/observer.md");
    let example = text("crates/capture/examples/count_protocols/protocols.rs")
        + &text("crates/capture/examples/count_protocols/main.rs");
    let blocks: Vec<&str> = howto.split("```rust\n").skip(1).collect();
    assert!(blocks.len() >= 3);
    for block in blocks {
        let code = block.split("```").next().unwrap();
        assert!(example.contains(code), "not in the example:\n{code}");
    }
}
