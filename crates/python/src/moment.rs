//! Moments and spans of time, as Python programs write them.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use ringside_core::Timestamp;
use ringside_terminal::units::{self, When};
use std::time::Duration;

/// A moment: text as the command line takes it, a datetime, or seconds since 1970.
///
/// # Errors
/// It is none of these, or not in range.
pub fn when(value: &Bound<'_, PyAny>) -> PyResult<When> {
    if let Ok(text) = value.cast::<PyString>() {
        return units::when(text.to_str()?).map_err(PyValueError::new_err);
    }
    // A datetime without a zone is in the local one, as in Python.
    let is_datetime = value.hasattr("timestamp")?;
    let seconds = if is_datetime { value.call_method0("timestamp")? } else { value.clone() };
    let seconds: f64 = seconds
        .extract()
        .map_err(|_| PyTypeError::new_err("a moment is text, a datetime, or seconds since 1970"))?;
    let since = Duration::try_from_secs_f64(seconds);
    let since =
        since.map_err(|_| PyValueError::new_err("a moment is a number, and not before 1970"))?;
    // More digits than microseconds are the float's, not the moment's.
    let ns = u64::try_from((since.as_nanos() + 500) / 1_000 * 1_000);
    ns.map(|ns| When::At(Timestamp(ns))).map_err(|_| PyValueError::new_err("too late"))
}

/// 100 years of 366 days.
const SPAN_MAX_S: f64 = 100.0 * 366.0 * 86_400.0;

/// A span: text as `10m`, a timedelta, or seconds.
///
/// # Errors
/// It is none of these, 0 or negative, or longer than 100 years.
pub fn duration(value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    if let Ok(text) = value.cast::<PyString>() {
        return units::duration(text.to_str()?).map_err(PyValueError::new_err);
    }
    let is_delta = value.hasattr("total_seconds")?;
    let seconds = if is_delta { value.call_method0("total_seconds")? } else { value.clone() };
    let seconds: f64 = seconds
        .extract()
        .map_err(|_| PyTypeError::new_err("a span is text as \"10m\", a timedelta, or seconds"))?;
    // The same bounds as of text.
    let is_span = seconds > 0.0 && seconds <= SPAN_MAX_S;
    let text = "a span of time is longer than 0 and at most 100 years";
    is_span.then(|| Duration::from_secs_f64(seconds)).ok_or_else(|| PyValueError::new_err(text))
}
