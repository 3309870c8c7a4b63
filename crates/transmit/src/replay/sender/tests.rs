use super::*;
use crate::interface::{EMSGSIZE, ENETDOWN, ENOBUFS, refusal};
use crate::replay::queue::ReadEnd;
use crate::sink::hand_over;
use ringside_core::{ChecksumRequest, SinkCounters, SinkFeatures};
use std::io;
use std::sync::atomic::AtomicBool;

/// A packet socket's sink, without the socket: it answers as it was set up to, and remembers what
/// it took.
#[derive(Default)]
struct Fake {
    /// How many frames each call takes, or the error it gives; when they are used up, all.
    answers: Vec<Result<usize, i32>>,
    taken: Vec<Vec<u8>>,
    calls: usize,
    counters: SinkCounters,
    /// Of the frames that were taken, this number turns out to be refused at the end.
    refused_late: u64,
}

impl Sink for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn features(&self) -> SinkFeatures {
        SinkFeatures::whole_frames(1518)
    }

    fn put(
        &mut self,
        _bytes: usize,
        _checksum: Option<ChecksumRequest>,
        _write: impl FnOnce(&mut [u8]),
    ) -> Result<bool, SinkError> {
        panic!("frames of a capture stay where they are")
    }

    fn send(&mut self, frames: &[&[u8]]) -> Result<Handed, SinkError> {
        let Fake { answers, taken, calls, counters, .. } = self;
        let hand = |frames: &[&[u8]]| {
            assert!(!frames.is_empty() && frames.len() <= SEND_FRAMES_MAX);
            let answer = answers.get(*calls).copied().unwrap_or(Ok(frames.len()));
            *calls += 1;
            let count = answer.map_err(io::Error::from_raw_os_error)?.min(frames.len());
            taken.extend(frames[..count].iter().map(|frame| frame.to_vec()));
            Ok(count)
        };
        hand_over(hand, frames, |_| false, counters).map_err(|source| {
            let (name, event) = ("x0".to_owned(), "was set down".to_owned());
            match refusal(&source) {
                Refusal::InterfaceGone => SinkError::InterfaceGone { name, event },
                _ => SinkError::Io { context: "x0".to_owned(), source },
            }
        })
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn counters(&mut self) -> SinkCounters {
        self.counters.clone()
    }

    fn drain(&mut self, _timeout: Duration) -> (SinkCounters, Option<SinkError>) {
        self.counters.accepted -= self.refused_late;
        self.counters.refuse(Refusal::NoRoom, self.refused_late);
        assert!(self.counters.is_balanced());
        (self.counters(), None)
    }
}

/// Frames of one byte, which is their number, due at these times.
fn chunk(due_ns: &[u64]) -> Chunk {
    let mut chunk = Chunk::default();
    for (number, &due_ns) in due_ns.iter().enumerate() {
        chunk.memory.push(number as u8);
        chunk.add(number, due_ns);
    }
    chunk.counts.read = due_ns.len() as u64;
    chunk
}

struct Case {
    due_ns: Vec<u64>,
    retries: bool,
    duration: Option<Duration>,
    stopped: bool,
}

impl Default for Case {
    fn default() -> Case {
        Case { due_ns: vec![0; 5], retries: false, duration: None, stopped: false }
    }
}

fn run(case: &Case, answers: Vec<Result<usize, i32>>) -> (Sent, Fake) {
    run_by(case, Fake { answers, ..Fake::default() })
}

fn run_by(case: &Case, mut fake: Fake) -> (Sent, Fake) {
    let (queue, progress) = (Queue::default(), Progress::default());
    assert!(queue.push(chunk(&case.due_ns)).is_some());
    queue.finish(ReadEnd::default());
    let stop = || case.stopped;
    let sender = Sender {
        queue: &queue,
        sink: &mut fake,
        is_timed: true,
        retries: case.retries,
        has_cpu: false,
        duration: case.duration,
        stop: &stop,
        progress: &progress,
    };
    let sent = sender.run();
    assert_eq!(sent.offered, sent.accepted + sent.refused.total());
    assert_eq!(sent.counts.read, sent.offered + sent.not_sent);
    assert_eq!((progress.accepted(), progress.refused()), (sent.accepted, sent.refused.total()));
    (sent, fake)
}

fn numbers(fake: &Fake) -> Vec<u8> {
    fake.taken.iter().map(|frame| frame[0]).collect()
}

#[test]
fn frames_leave_in_order_and_not_before_their_time() {
    let due_ns = vec![0, 0, 300_000, 300_000, 2_000_000];
    let (sent, fake) = run(&Case { due_ns, ..Case::default() }, vec![]);
    assert_eq!(numbers(&fake), [0, 1, 2, 3, 4]);
    assert_eq!((sent.accepted, sent.accepted_bytes, sent.ended), (5, 5, Ended::Done));
    // What is due later is not handed over with what is due now, however late that is.
    assert!(sent.elapsed_ns >= 2_000_000);
    assert_eq!(sent.errors.report().frames, 5);
}

#[test]
fn many_frames_that_are_due_together_go_in_few_calls() {
    let (sent, fake) = run(&Case { due_ns: vec![0; 200], ..Case::default() }, vec![]);
    assert_eq!((sent.accepted, fake.calls), (200, 200usize.div_ceil(SEND_FRAMES_MAX)));
}

#[test]
fn what_is_refused_is_counted_by_cause_and_left_behind() {
    let answers = vec![Ok(1), Err(ENOBUFS), Err(EMSGSIZE), Err(4), Ok(2)];
    let (sent, fake) = run(&Case::default(), answers);
    assert_eq!(numbers(&fake), [0, 3, 4]);
    let refused = Refused { no_room: 1, too_long: 1, ..Refused::default() };
    assert_eq!((sent.refused.clone(), sent.offered_again), (refused, 1));
    assert!(sent.failure.is_none());
}

#[test]
fn a_frame_that_was_refused_in_a_batch_and_then_taken_was_offered_again() {
    let (sent, fake) = run(&Case::default(), vec![Ok(3), Ok(2)]);
    assert_eq!(numbers(&fake), [0, 1, 2, 3, 4]);
    assert_eq!((sent.refused.total(), sent.offered_again), (0, 1));
}

#[test]
fn with_retry_a_frame_waits_for_room() {
    let case = Case { retries: true, ..Case::default() };
    let (sent, fake) = run(&case, vec![Err(ENOBUFS), Err(ENOBUFS), Ok(5)]);
    assert_eq!(numbers(&fake), [0, 1, 2, 3, 4]);
    assert_eq!((sent.refused.total(), sent.offered_again), (0, 2));
}

#[test]
fn what_a_sink_tells_at_its_end_only_is_in_the_account() {
    let fake = Fake { refused_late: 2, answers: vec![Ok(1), Err(ENOBUFS)], ..Fake::default() };
    let (sent, _) = run_by(&Case::default(), fake);
    assert_eq!((sent.offered, sent.accepted, sent.refused.no_room), (5, 2, 3));
    assert_eq!((sent.accepted_bytes, sent.ended), (2, Ended::Done));
}

#[test]
fn an_interface_that_is_gone_ends_the_replay() {
    let (sent, _) = run(&Case::default(), vec![Ok(2), Err(ENETDOWN)]);
    assert_eq!((sent.accepted, sent.refused.interface_down, sent.not_sent), (2, 1, 2));
    assert_eq!(sent.ended, Ended::Failed);
    assert!(sent.failure.unwrap().to_string().contains("no more frames"));
}

#[test]
fn limits_and_orders_end_it() {
    let due_ns = vec![0, 1_000_000, 60_000_000_000];
    let duration = Some(Duration::from_millis(20));
    let (sent, _) = run(&Case { due_ns, duration, ..Case::default() }, vec![]);
    assert_eq!((sent.ended, sent.not_sent), (Ended::Time, 3 - sent.accepted));
    assert!(sent.elapsed_ns < 30_000_000_000);
    let (sent, _) = run(&Case { stopped: true, ..Case::default() }, vec![]);
    assert_eq!((sent.ended, sent.accepted, sent.not_sent), (Ended::Stopped, 0, 5));
}

#[test]
fn what_is_read_too_late_is_overdue_for_want_of_input() {
    let (queue, progress, waits) = (Queue::default(), Progress::default(), AtomicBool::new(false));
    assert!(queue.push(chunk(&[0, 0, 0])).is_some());
    let mut fake = Fake::default();
    // Once all is sent that was read, this is asked by who waits for more.
    let stop = || {
        waits.fetch_or(progress.accepted() == 3, Ordering::Relaxed);
        false
    };
    let sender = Sender {
        queue: &queue,
        sink: &mut fake,
        is_timed: true,
        retries: false,
        has_cpu: false,
        duration: None,
        stop: &stop,
        progress: &progress,
    };
    let sent = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !waits.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_nanos(2 * OVERDUE_NS));
            queue.push(chunk(&[0, 0]));
            queue.finish(ReadEnd::default());
        });
        sender.run()
    });
    let errors = sent.errors.report();
    assert_eq!((sent.accepted, errors.input_stalls, errors.overdue_for_input), (5, 1, 2));
    assert!(errors.overdue >= 2 && errors.max_ns > OVERDUE_NS);
}

#[test]
fn a_time_limit_holds_while_nothing_comes() {
    let (queue, progress) = (Queue::default(), Progress::default());
    let sender = Sender {
        queue: &queue,
        sink: &mut Fake::default(),
        is_timed: true,
        retries: false,
        has_cpu: false,
        duration: Some(Duration::from_millis(5)),
        stop: &|| false,
        progress: &progress,
    };
    assert_eq!(sender.run().ended, Ended::Time);
}
