//! Capture systems that are not installed where tests run, played by what is made here.

use crate::project_root;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A library that plays PF_RING's, compiled into `folder` under the name of the real one.
///
/// # Errors
/// There is no compiler, or it refuses.
pub fn pf_ring(folder: &Path) -> Result<PathBuf, String> {
    let library = folder.join("libpfring.so");
    let source = project_root().join("crates/pfring/fake/pfring.c");
    let mut compiler = Command::new("gcc");
    compiler.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]);
    let output = compiler.arg(&library).arg(source).output().map_err(|e| format!("gcc: {e}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(library) } else { Err(format!("gcc: {said}")) }
}
