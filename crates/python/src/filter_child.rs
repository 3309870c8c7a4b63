//! The child that compiles a filter: Python again, with nothing but this module.

use pyo3::prelude::*;
use ringside_filter::Compiler;
use std::ffi::OsString;

/// Loads the module that lies at the first argument, and has it be the child: without the
/// environment and the packages of the program, so that it starts in some milliseconds.
const PROGRAM: &str = "import sys, importlib.util as u\n\
    s = u.spec_from_file_location('_ringside', sys.argv[1])\n\
    m = u.module_from_spec(s)\n\
    s.loader.exec_module(m)\n\
    sys.exit(m.filter_child())";

/// Compiles one filter from standard input to standard output, within limits that end with this
/// process; the status to exit with. For the child alone: nothing else must run in this process.
#[pyfunction]
pub fn filter_child() -> i32 {
    ringside_filter::child_main(std::io::stdin().lock(), std::io::stdout().lock())
}

/// Where libpcap compiles: in a bounded child, or here if no Python can be started.
///
/// # Errors
/// Python does not know its own modules.
pub fn compiler(py: Python<'_>) -> PyResult<Compiler> {
    let executable = py.import("sys")?.getattr("executable")?.extract::<Option<OsString>>()?;
    let module: OsString = py.import("ringside._ringside")?.getattr("__file__")?.extract()?;
    Ok(match executable.filter(|path| !path.is_empty()) {
        // A program that has Python in it.
        None => Compiler::InProcess { optimise: true },
        Some(exe) => {
            let args = ["-I", "-S", "-c", PROGRAM].map(OsString::from);
            Compiler::Child { exe: exe.into(), args: [&args[..], &[module]].concat() }
        }
    })
}
