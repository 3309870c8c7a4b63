//! The sending side: each frame is handed over when it is due.
//!
//! Times are reckoned from the start, so that no error adds up. The thread sleeps until shortly
//! before the time and looks at the clock from there. Frames that are due together, also those
//! that are overdue together, go in one call.

use crate::Error;
use crate::replay::queue::{Chunk, Popped, Queue, Slot};
use crate::replay::report::{Ended, ErrorCounts, OVERDUE_NS, ReadCounts, Refused};
use crate::wait::DRAIN;
use ringside_core::{Handed, Refusal, Sink, SinkError};
use ringside_sys::clock::{monotonic_ns, sleep_until_monotonic};
use ringside_sys::packet_tx::SEND_FRAMES_MAX;
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

/// How far the sending has come, for another thread to read.
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
pub(crate) struct Sender<'s, K> {
    pub queue: &'s Queue,
    /// Nothing was sent through it before.
    pub sink: &'s mut K,
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
struct ActiveSender<'s, K> {
    sender: Sender<'s, K>,
    sent: Sent,
    /// Frames that the sink took, as far as it was known at once, and their bytes.
    taken: u64,
    taken_bytes: u64,
    /// Refusals in the sink's account that stand for no frame: it was offered again.
    taken_back: u64,
    /// Frames in the sink's account.
    put: u64,
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

impl<K: Sink> Sender<'_, K> {
    /// Sends what the queue gives, to its end or until a limit, an order or an error.
    pub fn run(self) -> Sent {
        let look_ns_min = if self.has_cpu { LOOK_NS_OWN_CPU } else { LOOK_NS_MIN };
        let mut active = ActiveSender {
            sender: self,
            sent: Sent::new(),
            taken: 0,
            taken_bytes: 0,
            taken_back: 0,
            put: 0,
            begun_ns: monotonic_ns(),
            start_ns: 0,
            starved_until_ns: 0,
            look_ns: look_ns_min,
            look_ns_min,
        };
        let ended = active.all();
        if active.start_ns > 0 {
            active.sent.elapsed_ns = monotonic_ns() - active.start_ns;
        }
        active.settle();
        let mut sent = active.sent;
        sent.ended = if sent.failure.is_some() { Ended::Failed } else { ended };
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

impl<K: Sink> ActiveSender<'_, K> {
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
            let count = rest.iter().take(SEND_FRAMES_MAX);
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
        let mut frames: [&[u8]; SEND_FRAMES_MAX] = [&[]; SEND_FRAMES_MAX];
        for (frame, slot) in frames.iter_mut().zip(due) {
            *frame = chunk.frame(slot);
        }
        let mut rest = &frames[..due.len()];
        // The first frame was refused before, and it is not known why.
        let mut was_refused = false;
        while !rest.is_empty() {
            let done = match self.sender.sink.send(rest) {
                Ok(handed) => self.handed(rest, handed, &mut was_refused)?,
                Err(error) => {
                    was_refused = false;
                    self.failed(rest, error)?
                }
            };
            rest = &rest[done..];
        }
        Ok(())
    }

    /// Counts what the sink said of `frames`; returns how many are done with.
    fn handed(
        &mut self,
        frames: &[&[u8]],
        Handed { taken, refused }: Handed,
        was_refused: &mut bool,
    ) -> Result<usize, Ended> {
        self.take(&frames[..taken]);
        self.put += u64::from(refused.is_some());
        let is_told = std::mem::take(was_refused) && refused != Some(Refusal::TooLong);
        self.sent.offered_again += u64::from(is_told);
        match refused {
            None if taken > 0 => Ok(taken),
            None => self.no_room(false),
            Some(Refusal::NoRoom) if taken > 0 => {
                // The next call tells whether it was so.
                self.taken_back += 1;
                *was_refused = true;
                Ok(taken)
            }
            Some(Refusal::NoRoom) => self.no_room(true),
            Some(_) => {
                self.refuse(None);
                Ok(taken + 1)
            }
        }
    }

    fn take(&mut self, frames: &[&[u8]]) {
        let (count, bytes) = (frames.len() as u64, frames.iter().map(|f| f.len() as u64).sum());
        self.put += count;
        self.taken += count;
        self.taken_bytes += bytes;
        self.sent.offered += count;
        self.sender.progress.accepted.fetch_add(count, Ordering::Relaxed);
        self.sender.progress.accepted_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A frame was refused: by the sink, which has it in its account, or else for this cause.
    fn refuse(&mut self, own: Option<Refusal>) {
        self.sent.offered += 1;
        self.sender.progress.refused.fetch_add(1, Ordering::Relaxed);
        if let Some(cause) = own {
            self.sent.refused.add(cause, 1);
        }
    }

    /// There was no room for the first frame: after a pause it is offered again, or it is done
    /// with. Says which, as the number of frames.
    fn no_room(&mut self, is_in_account: bool) -> Result<usize, Ended> {
        let now = monotonic_ns();
        if self.sender.retries && self.limits(now).is_ok() {
            self.sent.offered_again += 1;
            self.taken_back += u64::from(is_in_account);
            sleep_until_monotonic(now + ROOM_NS);
            return Ok(0);
        }
        self.refuse((!is_in_account).then_some(Refusal::NoRoom));
        self.limits(now).map(|()| 1)
    }

    /// The sink refused one of `frames` for another cause than room; most causes end the replay.
    fn failed(&mut self, frames: &[&[u8]], error: SinkError) -> Result<usize, Ended> {
        let put = self.sender.sink.counters().offered;
        let offered = (put.saturating_sub(self.put) as usize).min(frames.len());
        self.put = put;
        // What became of these the account will say.
        self.sent.offered += offered as u64;
        let is_too_long = matches!(error, SinkError::Limit { .. });
        if offered < frames.len() && (is_too_long || offered == 0) {
            self.refuse(Some(error.refusal()));
        }
        if is_too_long {
            return Ok((offered + 1).min(frames.len()));
        }
        self.sent.failure = Some(Error::Sending { source: error });
        Err(Ended::Failed)
    }

    /// Ends the sink, whose account says what became of the frames that it was given.
    fn settle(&mut self) {
        let (account, failure) = self.sender.sink.drain(DRAIN);
        let sent = &mut self.sent;
        for (&cause, &frames) in &account.refused {
            let taken_back = if cause == Refusal::NoRoom { self.taken_back } else { 0 };
            sent.refused.add(cause, frames.saturating_sub(taken_back));
        }
        sent.accepted = account.accepted;
        let bytes = u128::from(self.taken_bytes) * u128::from(account.accepted);
        sent.accepted_bytes = (bytes / u128::from(self.taken.max(1))) as u64;
        if let (None, Some(source)) = (&sent.failure, failure) {
            sent.failure = Some(Error::Sending { source });
        }
        let progress = self.sender.progress;
        progress.accepted.store(sent.accepted, Ordering::Relaxed);
        progress.accepted_bytes.store(sent.accepted_bytes, Ordering::Relaxed);
        progress.refused.store(sent.refused.total(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
