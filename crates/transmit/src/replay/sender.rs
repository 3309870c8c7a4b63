//! The sending side: each frame is handed over when it is due.
//!
//! Times are reckoned from the start, so that no error adds up. The thread sleeps until shortly
//! before the time and looks at the clock from there. Frames that are due together, also those
//! that are overdue together, go in one call.

use crate::Error;
use crate::interface::refusal;
use crate::replay::outlet::{OUTLET_FRAMES_MAX, Outlet};
use crate::replay::queue::{Chunk, Popped, Queue, Slot};
use crate::replay::report::{Ended, ErrorCounts, OVERDUE_NS, ReadCounts, Refused};
use ringside_core::Refusal;
use ringside_sys::clock::{monotonic_ns, sleep_until_monotonic};
use std::io::ErrorKind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long before its time a frame is waited for by looking at the clock, at least: what it takes
/// to wake up. Longer would keep the CPU for nothing.
const LOOK_NS_MIN: u64 = 60_000;

/// The same at most, where waking up was seen to take long, as on a virtual machine whose CPU was
/// lent to others meanwhile.
const LOOK_NS_MAX: u64 = 500_000;

/// The same on a CPU that the replay was given, at least: it need not sleep between frames that
/// follow each other closely. A CPU that slept has other work when it wakes up, for longer than
/// waking up takes.
const LOOK_NS_OWN_CPU: u64 = 20_000_000;

/// Longest sleep, so that an order to stop is seen soon.
const SLEEP_NS_MAX: u64 = 50_000_000;

/// How long a frame waits that is offered again because there was no room: some frames' time.
const ROOM_NS: u64 = 5_000;

/// How far the sending has come, for whoever looks at it from another thread.
#[derive(Debug, Default)]
pub struct Progress {
    accepted: AtomicU64,
    accepted_bytes: AtomicU64,
    refused: AtomicU64,
}

impl Progress {
    /// Frames that the interface took.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Their bytes.
    pub fn accepted_bytes(&self) -> u64 {
        self.accepted_bytes.load(Ordering::Relaxed)
    }

    /// Frames that it did not take.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// What was sent.
pub(crate) struct Sent {
    pub counts: ReadCounts,
    pub not_sent: u64,
    pub offered: u64,
    pub accepted: u64,
    pub accepted_bytes: u64,
    pub refused: Refused,
    pub offered_again: u64,
    pub errors: ErrorCounts,
    pub elapsed_ns: u64,
    pub ended: Ended,
    pub failure: Option<Error>,
    pub notices: Vec<String>,
}

/// How to send.
pub(crate) struct Sender<'s> {
    pub queue: &'s Queue,
    pub outlet: &'s mut dyn Outlet,
    /// Frames have times.
    pub is_timed: bool,
    /// A frame for which there is no room is offered until there is.
    pub retries: bool,
    /// The thread has a CPU that it was given.
    pub has_cpu: bool,
    pub duration: Option<Duration>,
    pub stop: &'s (dyn Fn() -> bool + Sync),
    pub progress: &'s Progress,
}

/// A sender at work.
struct Run<'s> {
    sender: Sender<'s>,
    sent: Sent,
    /// When the replay began to wait for its first frame.
    begun_ns: u64,
    /// When that was sent; 0 until then.
    start_ns: u64,
    /// Until then nothing had been read, since the start.
    starved_until_ns: u64,
    /// How long before its time the next frame is waited for, and how long at least.
    look_ns: u64,
    look_ns_min: u64,
}

impl Sender<'_> {
    /// Sends what the queue gives, to its end or until a limit, an order or an error.
    pub fn run(self) -> Sent {
        let look_ns_min = if self.has_cpu { LOOK_NS_OWN_CPU } else { LOOK_NS_MIN };
        let mut run = Run {
            sender: self,
            sent: Sent::new(),
            begun_ns: monotonic_ns(),
            start_ns: 0,
            starved_until_ns: 0,
            look_ns: look_ns_min,
            look_ns_min,
        };
        let ended = run.all();
        let mut sent = run.sent;
        sent.ended = if sent.failure.is_some() { Ended::Failed } else { ended };
        if run.start_ns > 0 {
            sent.elapsed_ns = monotonic_ns() - run.start_ns;
        }
        sent
    }
}

impl Sent {
    fn new() -> Sent {
        Sent {
            counts: ReadCounts::default(),
            not_sent: 0,
            offered: 0,
            accepted: 0,
            accepted_bytes: 0,
            refused: Refused::default(),
            offered_again: 0,
            errors: ErrorCounts::new(),
            elapsed_ns: 0,
            ended: Ended::Done,
            failure: None,
            notices: Vec::new(),
        }
    }
}

impl Run<'_> {
    fn all(&mut self) -> Ended {
        let mut spent = None;
        loop {
            let chunk = match self.next_chunk(&mut spent) {
                Ok(chunk) => chunk,
                Err(ended) => return ended,
            };
            self.sent.counts.add(&chunk.counts);
            let offered_before = self.sent.offered;
            let ended = self.chunk(&chunk);
            let offered = self.sent.offered - offered_before;
            self.sent.not_sent += chunk.slots.len() as u64 - offered;
            if let Err(ended) = ended {
                return ended;
            }
            spent = Some(chunk);
        }
    }

    /// Waits for what is read; says how it ended if nothing comes any more.
    fn next_chunk(&mut self, spent: &mut Option<Chunk>) -> Result<Chunk, Ended> {
        let mut wait = Duration::ZERO;
        loop {
            match self.sender.queue.pop(spent, wait) {
                Popped::Chunk(chunk) => {
                    let now = monotonic_ns();
                    if self.start_ns == 0 {
                        self.start_ns = now;
                    } else if !wait.is_zero() {
                        self.sent.errors.input_stalls += 1;
                        self.starved_until_ns = now;
                    }
                    return Ok(chunk);
                }
                Popped::End(end) => {
                    self.sent.failure = end.failure;
                    self.sent.notices = end.notices;
                    return Err(Ended::Done);
                }
                Popped::Empty => {
                    let now = monotonic_ns();
                    self.limits(now)?;
                    wait = Duration::from_nanos(SLEEP_NS_MAX);
                    if let Some(end_ns) = self.end_ns() {
                        // A time of zero would not be a wait.
                        wait = wait.min(Duration::from_nanos(end_ns.saturating_sub(now).max(1)));
                    }
                }
            }
        }
    }

    /// When the time is over that was asked for.
    fn end_ns(&self) -> Option<u64> {
        let from_ns = if self.start_ns > 0 { self.start_ns } else { self.begun_ns };
        Some(from_ns.saturating_add(self.sender.duration?.as_nanos() as u64))
    }

    fn limits(&self, now_ns: u64) -> Result<(), Ended> {
        if (self.sender.stop)() {
            return Err(Ended::Stopped);
        }
        if self.end_ns().is_some_and(|end| now_ns >= end) {
            return Err(Ended::Time);
        }
        Ok(())
    }

    fn chunk(&mut self, chunk: &Chunk) -> Result<(), Ended> {
        let mut rest = &chunk.slots[..];
        while let Some(first) = rest.first() {
            let now = self.wait_for(self.start_ns.saturating_add(first.due_ns))?;
            let due_by = now - self.start_ns;
            // What is due at one moment lies side by side, because due times never go back.
            let count = rest.iter().take(OUTLET_FRAMES_MAX);
            let count = count.take_while(|slot| slot.due_ns <= due_by).count();
            let (due, later) = rest.split_at(count);
            self.note_times(due, now);
            self.offer(chunk, due)?;
            rest = later;
        }
        Ok(())
    }

    /// Waits until `due_ns`; gives the time then.
    fn wait_for(&mut self, due_ns: u64) -> Result<u64, Ended> {
        if self.end_ns().is_some_and(|end| due_ns >= end) {
            return Err(Ended::Time);
        }
        loop {
            let now = monotonic_ns();
            self.limits(now)?;
            if now >= due_ns {
                return Ok(now);
            }
            if due_ns - now > self.look_ns {
                self.sleep((due_ns - self.look_ns).min(now + SLEEP_NS_MAX));
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Sleeps, and learns how late it wakes up: soon when that grows, slowly when it shrinks.
    fn sleep(&mut self, until_ns: u64) {
        sleep_until_monotonic(until_ns);
        let overslept_ns = monotonic_ns().saturating_sub(until_ns);
        let learned_ns = (2 * overslept_ns).max(self.look_ns - self.look_ns / 64);
        self.look_ns = learned_ns.clamp(self.look_ns_min, LOOK_NS_MAX.max(self.look_ns_min));
    }

    fn note_times(&mut self, due: &[Slot], now_ns: u64) {
        if !self.sender.is_timed {
            return;
        }
        let errors = &mut self.sent.errors;
        for slot in due {
            let due_ns = self.start_ns + slot.due_ns;
            errors.note(now_ns - due_ns);
            let is_overdue = now_ns - due_ns > OVERDUE_NS;
            errors.overdue_for_input += u64::from(is_overdue && due_ns < self.starved_until_ns);
        }
    }

    /// Offers each frame once, or until there is room.
    fn offer(&mut self, chunk: &Chunk, due: &[Slot]) -> Result<(), Ended> {
        let mut frames: [&[u8]; OUTLET_FRAMES_MAX] = [&[]; OUTLET_FRAMES_MAX];
        for (frame, slot) in frames.iter_mut().zip(due) {
            *frame = chunk.frame(slot);
        }
        let mut rest = &frames[..due.len()];
        // The first frame was refused before, and it is not known why.
        let mut was_refused = false;
        while !rest.is_empty() {
            let done = match self.sender.outlet.send(rest) {
                Ok(count) => {
                    self.accept(&rest[..count]);
                    self.sent.offered_again += u64::from(was_refused && count > 0);
                    was_refused = count < rest.len();
                    count
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => 0,
                Err(error) if refusal(&error) == Refusal::NoRoom => {
                    self.sent.offered_again += u64::from(was_refused);
                    was_refused = false;
                    usize::from(!self.again()?)
                }
                Err(error) => {
                    was_refused = false;
                    self.refuse(error)?;
                    1
                }
            };
            rest = &rest[done..];
        }
        Ok(())
    }

    fn accept(&mut self, frames: &[&[u8]]) {
        let (count, bytes) = (frames.len() as u64, frames.iter().map(|f| f.len() as u64).sum());
        self.sent.offered += count;
        self.sent.accepted += count;
        self.sent.accepted_bytes += bytes;
        self.sender.progress.accepted.fetch_add(count, Ordering::Relaxed);
        self.sender.progress.accepted_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// There was no room: true if the frame is to be offered again, after a pause.
    fn again(&mut self) -> Result<bool, Ended> {
        let now = monotonic_ns();
        if self.sender.retries && self.limits(now).is_ok() {
            self.sent.offered_again += 1;
            sleep_until_monotonic(now + ROOM_NS);
            return Ok(true);
        }
        self.sent.offered += 1;
        self.sent.refused.no_room += 1;
        self.sender.progress.refused.fetch_add(1, Ordering::Relaxed);
        self.limits(now).map(|()| false)
    }

    /// A frame was refused for another cause than room; some of them end the replay.
    fn refuse(&mut self, error: std::io::Error) -> Result<(), Ended> {
        self.sent.offered += 1;
        self.sender.progress.refused.fetch_add(1, Ordering::Relaxed);
        match refusal(&error) {
            Refusal::TooLong => {
                self.sent.refused.too_long += 1;
                return Ok(());
            }
            Refusal::InterfaceGone => self.sent.refused.interface_down += 1,
            _ => self.sent.refused.other += 1,
        }
        self.sent.failure = Some(Error::Sending { source: error });
        Err(Ended::Failed)
    }
}

#[cfg(test)]
mod tests;
