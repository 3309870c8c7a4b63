//! Replay: frames of captures, in their order and at their times, out of one interface.
//!
//! ```text
//! reader thread                                      sending thread (a CPU of its own if asked)
//! files ─▶ range, filter ─▶ changed, timed ─▶ queue (32 MiB) ─▶ sleep, look at the clock ─▶ sink
//! ```
//!
//! Nothing is held but the queue, so that captures of any size are replayed.

mod feed;
mod port;
mod prepare;
mod queue;
mod report;
mod schedule;
mod sender;

pub use self::prepare::CutFrames;
pub use self::report::{
    Ended, InterfaceCounts, OVERDUE_NS, ReadCounts, Refused, ReplayReport, TimingErrors, Unsendable,
};
pub use self::schedule::{Speed, Timing};
pub use self::sender::Progress;

use self::feed::{Feed, Step};
use self::port::Port;
use self::prepare::Preparer;
use self::queue::{Chunk, Queue};
use self::schedule::Schedule;
use self::sender::{Sender, Sent};
use crate::sink::{self, SinkConfig, SinkKind};
use crate::{Error, Rate, Rewrite};
use ringside_core::{Frame, LinkType, Shown, Sink, TimeRange};
use ringside_store::Query;
use ringside_sys::thread::{
    allowed_cpus, pin_to_cpu, pin_to_cpus, prefer_short_turns, use_precise_timers,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How often the caller of a replay gets how far it is.
const TELL: Duration = Duration::from_millis(100);

/// Turns of the sending thread, in microseconds: the shortest that the scheduler gives, so that it
/// runs soon after it wakes up.
const TURN_US: u32 = 100;

/// Chooses frames as they were recorded; an error ends the replay.
pub type Filter = Box<dyn FnMut(&Frame<'_>, LinkType) -> Result<bool, String> + Send>;

/// How fast frames are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tempo {
    /// As recorded.
    Recorded {
        /// This number of times as fast.
        speed: Speed,
        /// Longest wait between two frames, as sent.
        gap_max: Option<Duration>,
    },
    /// At an even rate.
    Rate(Rate),
    /// One after the other.
    Fast,
}

/// A replay to be done.
#[derive(Clone, Debug)]
pub struct Replay {
    /// Files, directories of recordings, or `-`; several are merged by time.
    pub inputs: Vec<PathBuf>,
    /// Interface of the calling thread's namespace.
    pub interface: String,
    /// How frames leave.
    pub sink: SinkKind,
    /// How fast.
    pub tempo: Tempo,
    /// How often, at least once.
    pub loops: u64,
    /// Which frames, by their stamps.
    pub range: TimeRange,
    /// Ends after this many frames.
    pub count: Option<u64>,
    /// Ends after this time.
    pub duration: Option<Duration>,
    /// What is changed.
    pub rewrite: Rewrite,
    /// What becomes of frames that were cut.
    pub cut: CutFrames,
    /// Frames that cannot be sent are left out; else a replay with one is refused.
    pub skip_unsendable: bool,
    /// Look for such frames before the first is sent. A stream cannot be looked through before.
    pub scan: bool,
    /// A frame for which the driver has no room is offered until it has.
    pub retry: bool,
    /// CPU of the sending thread.
    pub cpu: Option<usize>,
}

/// Does a replay, to its end or until `stop` says so; `tell` is called now and then, with the
/// frames that are to be sent if they were counted.
///
/// # Errors
/// The interface or the captures cannot be used, or hold what cannot be sent: then nothing was
/// sent. What ends a replay that has begun is in its report.
pub fn replay(
    job: &Replay,
    filter: Filter,
    stop: &(dyn Fn() -> bool + Sync),
    tell: &mut dyn FnMut(&Progress, Option<u64>),
) -> Result<ReplayReport, Error> {
    check(job)?;
    let port = Port::open(&job.interface)?;
    let timing = match job.tempo {
        Tempo::Recorded { speed, gap_max } => Timing::Recorded { speed, gap_max },
        Tempo::Rate(rate) => Timing::Paced(port.pace(rate)?),
        Tempo::Fast => Timing::Fast,
    };
    let mut feed = feed(job, &port, timing, filter);
    let mut planned = None;
    if job.scan && !is_stream(job) {
        let (frames, filter) = scan(job, &port, feed, stop)?;
        planned = Some(frames.saturating_mul(job.loops).min(job.count.unwrap_or(u64::MAX)));
        feed = self::feed(job, &port, timing, filter);
    }
    let mut opened = sink::open(Some(job.sink), &SinkConfig::new(&job.interface))?;
    let told = &mut |progress: &Progress| tell(progress, planned);
    let mut sent = send(job, feed, &mut opened.sink, stop, told)?;
    sent.notices.splice(0..0, opened.notes);
    Ok(account(sent, &port, timing != Timing::Fast))
}

fn check(job: &Replay) -> Result<(), Error> {
    if job.loops == 0 {
        let limit = "at least 1: a replay ends (a million rounds take long enough)".into();
        return Err(Error::Limit { what: "the number of rounds", value: 0, limit });
    }
    if is_stream(job) && job.loops > 1 {
        return Err(Error::LoopedStream { loops: job.loops });
    }
    Ok(())
}

/// True if an input can be read but once.
fn is_stream(job: &Replay) -> bool {
    let is_pipe = |path: &PathBuf| {
        path.as_os_str() == "-" || path.metadata().is_ok_and(|at| !at.is_file() && !at.is_dir())
    };
    job.inputs.iter().any(is_pipe)
}

fn feed(job: &Replay, port: &Port, timing: Timing, filter: Filter) -> Feed {
    let limit = port.size_limit();
    Feed {
        query: Query { inputs: job.inputs.clone(), range: job.range },
        outside_before: 0,
        filter,
        preparer: Preparer { rewrite: job.rewrite.clone(), cut: job.cut, limit },
        schedule: Schedule::new(timing),
        rounds_left: job.loops,
        frames_left: job.count.unwrap_or(u64::MAX),
        skips: job.skip_unsendable,
        interface: port.name().into(),
        source: None,
        notices: Vec::new(),
    }
}

/// Reads what will be sent once and refuses what cannot be; gives how many frames a round has, and
/// the filter back. What cannot be read is reported when the replay comes to it.
fn scan(
    job: &Replay,
    port: &Port,
    feed: Feed,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(u64, Filter), Error> {
    let (found, frames, mut filter) = look_through(feed, job.inputs.clone(), stop)?;
    if found.total() == 0 || job.skip_unsendable {
        return Ok((frames, filter));
    }
    let mut files = Vec::new();
    for input in &job.inputs {
        let feed = self::feed(job, port, Timing::Fast, filter);
        let (found, _, back) = look_through(feed, vec![input.clone()], stop)?;
        filter = back;
        if found.total() > 0 {
            files.push((input.shown().to_string(), found));
        }
    }
    Err(Error::Unsendable { files, interface: job.interface.clone() })
}

/// One round of the inputs, of which nothing is kept.
fn look_through(
    mut feed: Feed,
    inputs: Vec<PathBuf>,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(Unsendable, u64, Filter), Error> {
    (feed.query.inputs, feed.rounds_left, feed.skips) = (inputs, 1, true);
    let (mut counts, mut frames, mut chunk) = (ReadCounts::default(), 0, Chunk::default());
    loop {
        let step = feed.step(&mut chunk);
        counts.add(&chunk.counts);
        frames += chunk.slots.len() as u64;
        chunk.clear();
        match step {
            Ok(Step::More) if !stop() => {}
            // A capture that cannot be opened is no capture; a damaged one is one up to there.
            Err(error @ (Error::Store(_) | Error::Filter { .. })) => return Err(error),
            _ => return Ok((counts.skipped, frames, feed.filter)),
        }
    }
}

/// Reads and sends, side by side.
fn send<K: Sink>(
    job: &Replay,
    feed: Feed,
    sink: &mut K,
    stop: &(dyn Fn() -> bool + Sync),
    tell: &mut dyn FnMut(&Progress),
) -> Result<Sent, Error> {
    let queue = Arc::new(Queue::default());
    let progress = Progress::default();
    let filled = Arc::clone(&queue);
    // It is not waited for: a read of a pipe whose writer is silent cannot be ended.
    let cpu = job.cpu;
    std::thread::spawn(move || {
        if let Some(cpu) = cpu {
            keep_off(cpu);
        }
        feed.run(&filled);
    });
    let sender = Sender {
        queue: &queue,
        sink,
        is_timed: job.tempo != Tempo::Fast,
        retries: job.retry,
        has_cpu: cpu.is_some(),
        duration: job.duration,
        stop,
        progress: &progress,
    };
    let waiting = std::thread::current();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let pinned = cpu.map_or(Ok(()), pin_to_cpu);
            use_precise_timers();
            // An older kernel has no such option; then it wakes up when it wakes up.
            let _ = prefer_short_turns(TURN_US);
            let sent = pinned.map(|()| sender.run());
            queue.close();
            waiting.unpark();
            Ok(sent?)
        });
        while !thread.is_finished() {
            tell(&progress);
            std::thread::park_timeout(TELL);
        }
        thread.join().unwrap_or(Err(Error::ThreadLost))
    })
}

/// Leaves the sending thread's CPU to it. Where there is no other they share it.
fn keep_off(cpu: usize) {
    let Ok(mut cpus) = allowed_cpus() else { return };
    cpus.retain(|&other| other != cpu);
    if !cpus.is_empty() {
        // Reading is possible anywhere; times are worse then.
        let _ = pin_to_cpus(&cpus);
    }
}

fn account(sent: Sent, port: &Port, is_timed: bool) -> ReplayReport {
    ReplayReport {
        interface: port.counts(sent.accepted),
        timing: is_timed.then(|| sent.errors.report()),
        counts: sent.counts,
        not_sent: sent.not_sent,
        offered: sent.offered,
        accepted: sent.accepted,
        accepted_bytes: sent.accepted_bytes,
        refused: sent.refused,
        offered_again: sent.offered_again,
        elapsed_ns: sent.elapsed_ns,
        ended: sent.ended,
        failure: sent.failure.map(|error| error.to_string()),
        notices: sent.notices,
    }
}

#[cfg(test)]
mod tests;
