//! Errors, as Python has them.

use pyo3::exceptions::{
    PyException, PyFileNotFoundError, PyPermissionError, PyUserWarning, PyValueError,
};
use pyo3::prelude::*;
use pyo3::{PyErr, create_exception};
use ringside_filter::FilterError;
use std::ffi::CString;
use std::io::{self, ErrorKind};

create_exception!(
    ringside,
    RingsideError,
    PyException,
    "What was asked for cannot be read: an input is damaged, or no capture runs there."
);
create_exception!(
    ringside,
    RingsideWarning,
    PyUserWarning,
    "Something is missing in what was read: packets that were lost, or the end of a file."
);

/// The exception that a Python program expects for this error.
pub fn to_python(error: &anyhow::Error) -> PyErr {
    let text = format!("{error:#}");
    if error.chain().any(|cause| cause.downcast_ref::<FilterError>().is_some_and(is_the_askers)) {
        return PyValueError::new_err(text);
    }
    match error.chain().find_map(io_kind) {
        Some(ErrorKind::NotFound) => PyFileNotFoundError::new_err(text),
        Some(ErrorKind::PermissionDenied) => PyPermissionError::new_err(text),
        _ => RingsideError::new_err(text),
    }
}

/// The kind of a system's error, wherever it lies.
fn io_kind(cause: &(dyn std::error::Error + 'static)) -> Option<ErrorKind> {
    cause.downcast_ref::<io::Error>().map(io::Error::kind)
}

/// True if another filter would be none.
fn is_the_askers(error: &FilterError) -> bool {
    !matches!(error, FilterError::Compiler { .. } | FilterError::OutOfMemory { .. })
}

/// Warns as Python does, which may be an exception if the program wants that.
pub fn warn(py: Python<'_>, text: &str) -> PyResult<()> {
    let text = CString::new(text.replace('\0', " "))?;
    PyErr::warn(py, &py.get_type::<RingsideWarning>(), &text, 1)
}
