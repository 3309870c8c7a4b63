//! SIGINT, SIGTERM and SIGHUP end a run cleanly; a second one ends it at once.

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit status after a second signal: could not finish.
pub const ABORT_STATUS: i32 = 2;

/// Set once the user asked to stop.
#[derive(Clone)]
pub struct StopSignal(Arc<AtomicBool>);

impl StopSignal {
    /// Catches the signals from now on.
    pub fn install() -> anyhow::Result<StopSignal> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in answered() {
            // In this order: the first signal finds the flag unset and sets it, the second exits.
            signal_hook::flag::register_conditional_shutdown(signal, ABORT_STATUS, flag.clone())
                .and_then(|_| signal_hook::flag::register(signal, flag.clone()))
                .context("catching signals")?;
        }
        Ok(StopSignal(flag))
    }

    /// Does nothing at the signals from now on: another process answers them, and this one is told.
    /// They are caught and not ignored, because a program that is started inherits the latter.
    pub fn left_to_the_keeper() -> anyhow::Result<StopSignal> {
        let unread = Arc::new(AtomicBool::new(false));
        for signal in answered() {
            signal_hook::flag::register(signal, unread.clone()).context("catching signals")?;
        }
        Ok(StopSignal(Arc::new(AtomicBool::new(false))))
    }

    /// Asks to stop.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// True once a signal came.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The signals as bytes of a socket, for a poll.
pub struct StopPipe(UnixStream);

impl StopPipe {
    /// Catches the signals from now on.
    pub fn install() -> anyhow::Result<StopPipe> {
        let (reader, writer) = UnixStream::pair().context("catching signals")?;
        reader.set_nonblocking(true).context("catching signals")?;
        for signal in answered() {
            let writer = writer.try_clone().context("catching signals")?;
            signal_hook::low_level::pipe::register(signal, writer).context("catching signals")?;
        }
        Ok(StopPipe(reader))
    }

    /// Readable once a signal came.
    pub fn reader(&self) -> &UnixStream {
        &self.0
    }

    /// Forgets the signals that came.
    pub fn clear(&mut self) {
        let mut bytes = [0; 64];
        while self.0.read(&mut bytes).is_ok_and(|count| count > 0) {}
    }
}

/// The signals that end a run. Who starts a program with one of them ignored (nohup, a shell's
/// background job) means it.
fn answered() -> impl Iterator<Item = i32> {
    let ignored = ignored_signals();
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(move |s| ignored >> (s - 1) & 1 == 0)
}

/// The signals that this process ignores, signal 1 in bit 0 (SigIgn of proc(5)).
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
