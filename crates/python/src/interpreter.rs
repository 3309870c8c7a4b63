//! Work for Python that takes its time: without its lock, and ended by Ctrl-C.

use crate::error::{to_python as exception, warn};
use pyo3::prelude::*;
use serde_json::Value;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long Python waits before its signals are looked at, and before others have their turn.
const ATTENTION: Duration = Duration::from_millis(100);

/// Has `work` look at `state` until it gives something, while other threads of Python run. Whatever
/// Python does meanwhile (handlers of signals, other threads) may ask for the same state.
///
/// # Errors
/// `work` failed, or a signal came whose handler raised.
pub fn run<S: Send, T: Send>(
    py: Python<'_>,
    state: &Mutex<S>,
    mut work: impl FnMut(&mut S) -> anyhow::Result<Option<T>> + Send,
) -> PyResult<T> {
    loop {
        let done = py.detach(|| {
            let until = Instant::now() + ATTENTION;
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                match work(&mut state) {
                    Ok(None) if Instant::now() < until => {}
                    done => return done,
                }
            }
        });
        if let Some(done) = done.map_err(|error| exception(&error))? {
            return Ok(done);
        }
        py.check_signals()?;
    }
}

/// What `read` says of the state, for which this thread may wait while others of Python run.
pub fn ask<S: Send, T: Send>(
    py: Python<'_>,
    state: &Mutex<S>,
    read: impl FnOnce(MutexGuard<'_, S>) -> T + Send,
) -> T {
    py.detach(|| read(state.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// JSON as Python's own objects.
///
/// # Errors
/// Python has no memory.
pub fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (value.to_string(),))
}

/// Warns of each.
///
/// # Errors
/// The program wants warnings to be exceptions.
pub fn warn_all(py: Python<'_>, texts: &[String]) -> PyResult<()> {
    texts.iter().try_for_each(|text| warn(py, text))
}
