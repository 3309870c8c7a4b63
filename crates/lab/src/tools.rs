//! Running iproute2 and ethtool, and work inside a namespace.

use crate::Error;
use ringside_sys::netns::Namespace;
use std::io::Write;
use std::process::{Command, Stdio};

/// Runs `line`, words parted by spaces; gives what it printed.
pub(crate) fn run(line: &str) -> Result<String, Error> {
    run_with_input(line, "")
}

/// As [`run`], with `input` on the standard input.
pub(crate) fn run_with_input(line: &str, input: &str) -> Result<String, Error> {
    let lost = |source| Error::NoTool { command: line.into(), source };
    let mut words = line.split_whitespace();
    let tool = words.next().unwrap_or_default();
    let mut command = Command::new(tool);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(lost)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A tool that does not read its input closes it; what it thinks of that it says itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(lost)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
    Err(Error::ToolFailed { command: line.into(), said })
}

/// Runs `work` on a thread of its own inside the namespace `name`; its children are there too.
pub(crate) fn inside<T: Send>(
    name: &str,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            Namespace::open(name)?.enter()?;
            work()
        });
        thread.join().unwrap_or(Err(Error::ThreadLost))
    })
}

/// Writes a setting of the kernel in the calling thread's namespace; false if it does not exist.
pub(crate) fn set(path: &str, value: &str) -> Result<bool, Error> {
    match std::fs::write(path, value) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(Error::file("write", path, source)),
    }
}
