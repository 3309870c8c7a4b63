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
        for signal in [SIGINT, SIGTERM, SIGHUP] {
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
