//! What a worker does while its ring is empty.
//!
//! The queue's NAPI may run on the worker's own CPU. There a worker that spins keeps the kernel
//! from receiving: of 10 million frames a second offered, such tools got 0.2. One that asks to be
//! woken is woken for every 64 frames, and the wake-ups cost more than the frames. One that sleeps
//! for a while whenever it has emptied the ring lets the kernel work in peace, and then finds a
//! thousand frames.

mod trial;

use ringside_sys::{SysError, thread};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};
use trial::Trial;

/// What is waited for.
pub(super) trait Port {
    /// True if nothing is there now.
    fn is_empty(&mut self) -> bool;
    /// Waits at most `left` for something; it may come back early.
    fn wait(&self, left: Duration) -> Result<(), SysError>;
    /// Polls the interface's queue, if it can be.
    fn kick(&self) {}
    /// From now on no thread calls `kick` any more.
    fn stop_busy_poll(&self) -> Result<(), SysError> {
        Ok(())
    }
}

/// Shortest sleep: less is mostly the way to sleep and back.
const SLEEP_MIN: Duration = Duration::from_micros(50);
/// The first sleep.
const SLEEP_START: Duration = Duration::from_micros(100);
/// Longest sleep while frames come: what 10 million frames a second bring fits into the memory.
const SLEEP_MAX: Duration = Duration::from_micros(500);
/// Frames between two sleeps: fewer are not worth going to sleep for, more should not wait.
pub(super) type Sweep = RangeInclusive<u32>;
/// Empty sweeps in a row after which a sleeper asks to be woken instead.
const IDLE_SWEEPS: u32 = 2;
/// The scheduler's turn of a thread that sleeps and works by turns, in microseconds: the shortest.
const TURN_US: u32 = 100;
/// Looks at the ring between two looks at the clock.
const SPINS: u32 = 256;

/// How to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Look again at once: for a CPU of the worker's own.
    Spin,
    /// Sleep for 50 to 500 µs while frames come, as the traffic is; ask to be woken when none do.
    Sleep,
    /// Ask to be woken by the next frame.
    Poll,
    /// Have the kernel poll the queue from the worker (SO_BUSY_POLL), if a trial in the first half
    /// second of traffic shows that it helps; else as `Sleep`.
    BusyPoll,
}

impl Waiting {
    /// Readies the calling thread, which will wait so.
    pub(super) fn ready_thread(self) {
        if matches!(self, Waiting::Sleep | Waiting::BusyPoll) {
            thread::use_precise_timers();
            // With long turns of the kernel's polling on the same CPU, memory for frames runs out
            // before it is this thread's turn. Refused, that may happen.
            if let Err(error) = thread::prefer_short_turns(TURN_US) {
                tracing::debug!("{error}");
            }
        }
    }
}

/// The waiting of one lane.
#[derive(Debug)]
pub(super) struct Waiter {
    waiting: Waiting,
    sleep: Duration,
    sweeps: Sweep,
    /// Of busy polling.
    trial: Option<Trial>,
    /// Frames since the last wait.
    sweep: u32,
    idle_sweeps: u32,
    /// Waits that found nothing afterwards.
    pub(super) empty_polls: u64,
}

impl Waiter {
    /// That of a lane for which sweeps of some length are best.
    pub(super) fn new(waiting: Waiting, sweeps: Sweep) -> Waiter {
        let trial = (waiting == Waiting::BusyPoll).then(|| Trial::new(Instant::now()));
        let sleep = SLEEP_START;
        Waiter { waiting, sleep, sweeps, trial, sweep: 0, idle_sweeps: 0, empty_polls: 0 }
    }

    /// How it waits now, for people.
    pub(super) fn name(&self) -> &'static str {
        match (self.waiting, &self.trial) {
            (Waiting::BusyPoll, Some(_)) => "busy-poll (on trial)",
            (Waiting::BusyPoll, None) => "busy-poll",
            (Waiting::Spin, _) => "spin",
            (Waiting::Sleep, _) => "sleep",
            (Waiting::Poll, _) => "poll",
        }
    }

    /// Notes that `frames` frames came.
    #[inline]
    pub(super) fn note_frames(&mut self, frames: u32) {
        self.sweep = self.sweep.saturating_add(frames);
        if let Some(trial) = &mut self.trial {
            trial.note_frames(frames);
        }
    }

    /// Waits for frames, at most `left`; the port is empty. It may come back early.
    pub(super) fn wait<P: Port>(&mut self, port: &mut P, left: Duration) -> Result<(), SysError> {
        let sweep = std::mem::take(&mut self.sweep);
        self.empty_polls += u64::from(sweep == 0);
        let sleeps_in_trial = self.trial.as_ref().is_some_and(|trial| !trial.is_busy_turn());
        self.note_time(port)?;
        match self.waiting {
            Waiting::BusyPoll if sleeps_in_trial => std::thread::sleep(SLEEP_START.min(left)),
            Waiting::Spin => spin(port, left),
            Waiting::Poll => port.wait(left)?,
            Waiting::BusyPoll => port.kick(),
            Waiting::Sleep => {
                self.adapt(sweep);
                if self.idle_sweeps < IDLE_SWEEPS {
                    std::thread::sleep(self.sleep.min(left));
                } else {
                    port.wait(left)?;
                }
            }
        }
        Ok(())
    }

    /// Ends the trial when its time has come.
    fn note_time(&mut self, port: &impl Port) -> Result<(), SysError> {
        let Some(trial) = &mut self.trial else { return Ok(()) };
        let Some(kept) = trial.note_time(Instant::now()) else { return Ok(()) };
        self.trial = None;
        if !kept {
            self.waiting = Waiting::Sleep;
            port.stop_busy_poll()?;
        }
        Ok(())
    }

    /// Sleeps longer where few frames come in the time, and less where many do.
    fn adapt(&mut self, sweep: u32) {
        self.idle_sweeps = if sweep == 0 { self.idle_sweeps.saturating_add(1) } else { 0 };
        if sweep > *self.sweeps.end() {
            self.sleep = (self.sleep / 2).max(SLEEP_MIN);
        } else if sweep < *self.sweeps.start() {
            self.sleep = (self.sleep + self.sleep / 4).min(SLEEP_MAX);
        }
    }
}

fn spin(port: &mut impl Port, left: Duration) {
    let start = Instant::now();
    while start.elapsed() < left {
        for _ in 0..SPINS {
            if !port.is_empty() {
                return;
            }
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_follows_the_traffic_within_its_bounds() {
        let mut waiter = Waiter::new(Waiting::Sleep, 256..=1024);
        for _ in 0..100 {
            waiter.adapt(10);
        }
        assert_eq!((waiter.sleep, waiter.idle_sweeps), (SLEEP_MAX, 0));
        for _ in 0..100 {
            waiter.adapt(500);
        }
        assert_eq!(waiter.sleep, SLEEP_MAX, "between the bounds it stays");
        for _ in 0..100 {
            waiter.adapt(100_000);
        }
        assert_eq!(waiter.sleep, SLEEP_MIN);
        for _ in 0..IDLE_SWEEPS {
            waiter.adapt(0);
        }
        assert_eq!(waiter.idle_sweeps, IDLE_SWEEPS);
        waiter.adapt(1);
        assert_eq!(waiter.idle_sweeps, 0);
    }
}
