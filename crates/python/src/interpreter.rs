//! Calls from Python that take their time: without its lock, and ended by Ctrl-C.

use crate::error::{to_python as exception, warn};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use serde_json::Value;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long Python waits before its signals are looked at.
const ATTENTION: Duration = Duration::from_millis(100);

/// Whether there is more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Yes.
    More,
    /// No.
    Done,
}

/// Calls `work` until it is done, while other threads of Python run.
///
/// # Errors
/// `work` failed, or a signal came whose handler raised.
pub fn run(py: Python<'_>, mut work: impl FnMut() -> anyhow::Result<Turn> + Send) -> PyResult<()> {
    loop {
        let turn = py.detach(|| {
            let until = Instant::now() + ATTENTION;
            loop {
                match work() {
                    Ok(Turn::More) if Instant::now() < until => {}
                    turn => return turn,
                }
            }
        });
        if turn.map_err(|error| exception(&error))? == Turn::Done {
            return Ok(());
        }
        py.check_signals()?;
    }
}

/// The value, for which this thread may wait while others of Python run.
pub fn lock<'m, T>(py: Python<'_>, mutex: &'m Mutex<T>) -> MutexGuard<'m, T> {
    mutex.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
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
