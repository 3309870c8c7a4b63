//! SIGINT and SIGTERM end a run cleanly; a second one ends it at once.

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit status after a second signal: could not finish.
const SECOND_SIGNAL_STATUS: i32 = 2;

/// Set once the user asked to stop.
#[derive(Clone)]
pub struct StopSignal(Arc<AtomicBool>);

impl StopSignal {
    /// Catches the signals from now on.
    pub fn install() -> anyhow::Result<StopSignal> {
        let flag = Arc::new(AtomicBool::new(false));
        let ignored = ignored_signals();
        // Who starts a program with a signal ignored (nohup, a shell's background job) means it.
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|s| ignored >> (s - 1) & 1 == 0)
        {
            // In this order: the first signal finds the flag unset and sets it, the second exits.
            signal_hook::flag::register_conditional_shutdown(
                signal,
                SECOND_SIGNAL_STATUS,
                flag.clone(),
            )
            .and_then(|_| signal_hook::flag::register(signal, flag.clone()))
            .context("catching signals")?;
        }
        Ok(StopSignal(flag))
    }

    /// True once a signal came.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The signals that this process ignores, signal 1 in bit 0 (SigIgn of proc(5)).
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
