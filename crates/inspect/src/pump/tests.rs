use super::*;
use ringside_core::{Cause, FrameMeta, FrameSlot, LinkType};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};

/// What a source does when it is asked for frames.
enum Step {
    /// Lends frames with these stamps.
    Frames(Vec<u64>),
    /// Has none, and promises that none is older.
    Idle(u64),
    Fail,
}

/// Plays a source by its steps.
struct Script {
    steps: VecDeque<Step>,
    interfaces: Vec<SourceInterface>,
    slots: Vec<FrameSlot>,
    low_water: u64,
    lent: u64,
    is_detached: bool,
}

/// The bytes of all its frames.
const BYTES: [u8; 60] = [7; 60];

impl Script {
    fn new(steps: impl IntoIterator<Item = Step>) -> Script {
        Script {
            steps: steps.into_iter().collect(),
            interfaces: vec![SourceInterface::ethernet("test0")],
            slots: Vec::new(),
            low_water: 0,
            lent: 0,
            is_detached: false,
        }
    }
}

impl Source for Script {
    fn next_batch(&mut self, _timeout: Duration) -> Result<Option<Batch<'_>>, SourceError> {
        let stamps = match self.steps.pop_front() {
            Some(Step::Frames(stamps)) => stamps,
            Some(Step::Idle(low_water)) => {
                self.low_water = low_water;
                return Ok(None);
            }
            Some(Step::Fail) => {
                self.steps.clear();
                return Err(SourceError::Damaged("torn".into()));
            }
            None => return Ok(None),
        };
        let meta = |stamp| FrameMeta { timestamp: Timestamp(stamp), ..FrameMeta::default() };
        self.slots = stamps.iter().map(|&stamp| FrameSlot::new(0, 60, meta(stamp))).collect();
        self.lent += stamps.len() as u64;
        Ok(Some(Batch::new(&BYTES, &self.slots)))
    }

    fn is_finished(&self) -> bool {
        self.steps.is_empty()
    }

    fn interfaces(&self) -> &[SourceInterface] {
        &self.interfaces
    }

    fn counters(&mut self) -> SourceCounters {
        SourceCounters {
            received: Some(self.lent + 3),
            dropped: BTreeMap::from([(Cause::Overtaken, 3)]),
            ..SourceCounters::default()
        }
    }

    fn low_water(&self) -> Timestamp {
        Timestamp(self.low_water)
    }

    fn detach(&mut self) -> Result<(), SourceError> {
        self.is_detached = true;
        Ok(())
    }
}

/// A call of an observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Frame(u64),
    Tick(u64),
    End,
}

#[derive(Default)]
struct Notes {
    events: Vec<Event>,
    /// Of each frame: its headers had not been read before.
    first: Vec<bool>,
    /// Stamps of frames that were shown ahead and not seen yet.
    ahead: VecDeque<u64>,
}

impl Observer for Notes {
    fn see(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) {
        assert_eq!(received.lane, LaneId(4));
        assert_eq!((received.interface.name.as_str(), frame.bytes()), ("test0", &BYTES[..]));
        assert_eq!((frame.link(), received.meta.wire_bytes), (LinkType::ETHERNET, 60));
        assert_eq!(self.ahead.pop_front(), Some(received.meta.timestamp.0));
        self.first.push(format!("{frame:?}").contains("layers: OnceCell(<uninit>)"));
        frame.layers();
        self.events.push(Event::Frame(received.meta.timestamp.0));
    }

    fn look_ahead(&mut self, frames: &Ahead<'_>) {
        assert!(self.ahead.is_empty());
        frames.for_each(|frame, received| {
            assert_eq!((frame.bytes, received.lane), (&BYTES[..], LaneId(4)));
            self.ahead.push_back(received.meta.timestamp.0);
        });
        assert!((1..=Ahead::FRAMES_MAX).contains(&self.ahead.len()));
    }

    fn tick(&mut self, low_water: Timestamp) {
        self.events.push(Event::Tick(low_water.0));
    }

    fn finish(&mut self) {
        self.events.push(Event::End);
    }
}

fn run(source: &mut Script) -> (Notes, Report) {
    let mut notes = Notes::default();
    let pump = Pump::new(vec![Box::new(&mut notes)]);
    let report = pump.run(source, LaneId(4), &|| false);
    (notes, report)
}

const T: u64 = TICK_NS;

#[test]
fn time_comes_between_frames_however_they_come_in_batches() {
    let stamps = [0, 5 * T + 1, 5 * T + 2, 6 * T - 1, 6 * T, 9 * T + 7, 6 * T + 1, 9 * T + 8];
    let expected = [
        Event::Frame(0),
        Event::Tick(5 * T),
        Event::Frame(5 * T + 1),
        Event::Frame(5 * T + 2),
        Event::Frame(6 * T - 1),
        Event::Tick(6 * T),
        Event::Frame(6 * T),
        Event::Tick(9 * T),
        Event::Frame(9 * T + 7),
        Event::Frame(6 * T + 1),
        Event::Frame(9 * T + 8),
        Event::End,
    ];
    for batch in 1..=stamps.len() {
        let batches = stamps.chunks(batch).map(|stamps| Step::Frames(stamps.to_vec()));
        let (notes, report) = run(&mut Script::new(batches));
        assert_eq!(notes.events, expected, "batches of {batch}");
        assert_eq!(report.seen, Seen { frames: 8, late: 1 });
    }
}

#[test]
fn each_frame_at_hand_is_shown_ahead_in_small_groups() {
    let stamps: Vec<u64> = (1..=Ahead::FRAMES_MAX as u64 * 2 + 1).collect();
    let (notes, _) = run(&mut Script::new([Step::Frames(stamps.clone()), Step::Frames(stamps)]));
    assert!(notes.ahead.is_empty());
    assert_eq!(notes.first.len(), Ahead::FRAMES_MAX * 4 + 2);
}

#[test]
fn a_quiet_source_moves_time_on_its_grid_and_never_back() {
    let steps = [
        Step::Frames(vec![T]),
        Step::Idle(2 * T + 5),
        Step::Idle(2 * T + 9),
        Step::Idle(T),
        Step::Idle(u64::MAX),
        Step::Frames(vec![3 * T]),
    ];
    let (notes, _) = run(&mut Script::new(steps));
    let frame = |stamp| [Event::Tick(stamp), Event::Frame(stamp)];
    let expected = [&frame(T)[..], &[Event::Tick(2 * T)], &frame(3 * T), &[Event::End]].concat();
    assert_eq!(notes.events, expected);
}

#[test]
fn a_source_that_fails_ends_with_what_was_seen_and_lost() {
    let steps = [Step::Frames(vec![1, 2]), Step::Fail, Step::Frames(vec![3])];
    let (notes, report) = run(&mut Script::new(steps));
    assert_eq!(notes.events, [Event::Frame(1), Event::Frame(2), Event::End]);
    assert_eq!(report.failure.unwrap().to_string(), "torn");
    let lost: u64 = report.counters.dropped.values().sum();
    assert_eq!(report.counters.received, Some(report.seen.frames + lost));
}

#[test]
fn the_order_to_stop_detaches_and_shows_the_rest() {
    let mut source = Script::new([Step::Frames(vec![1]), Step::Idle(1), Step::Frames(vec![2])]);
    let (mut notes, asked) = (Notes::default(), Cell::new(0));
    let is_stopped = || asked.replace(asked.get() + 1) > 0;
    let report = Pump::new(vec![Box::new(&mut notes)]).run(&mut source, LaneId(4), &is_stopped);
    assert!(source.is_detached && report.seen.frames == 2);
}

#[test]
fn a_frame_is_dissected_once_for_all_observers() {
    let mut notes = [Notes::default(), Notes::default()];
    let [first, second] = &mut notes;
    let pump = Pump::new(vec![Box::new(first), Box::new(second)]);
    pump.run(&mut Script::new([Step::Frames(vec![1])]), LaneId(4), &|| false);
    assert_eq!((notes[0].first[0], notes[1].first[0]), (true, false));
    assert_eq!(notes[0].events, notes[1].events);
}

/// A frame of an interface that the source does not know.
#[test]
fn a_source_that_does_not_know_its_interfaces_ends_no_observer() {
    struct Names(Vec<(String, LinkType)>);
    impl Observer for Names {
        fn see(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) {
            self.0.push((received.interface.name.clone(), frame.link()));
        }
    }
    let mut source = Script::new([Step::Frames(vec![1])]);
    source.interfaces.clear();
    let mut names = Names(Vec::new());
    Pump::new(vec![Box::new(&mut names)]).run(&mut source, LaneId(0), &|| false);
    assert_eq!(names.0, [(String::new(), LinkType::UNKNOWN)], "nobody said that it is Ethernet");
}
