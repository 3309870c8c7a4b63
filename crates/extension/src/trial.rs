//! An eBPF object is tried in a child process before it is loaded in this one.
//!
//! libbpf reads an object without limits: a file of a megabyte may have it compare long names for
//! an hour, or make room for gigabytes. A child that does the same as this process is about to do
//! has limits of both; what it got through, this process gets through too.

use crate::guest::is_object;
use crate::limits::{FILE_BYTES_MAX, TRIAL_CPU_SECONDS, TRIAL_MEMORY_BYTES, TRIAL_TIME_MAX};
use crate::{ExtensionError, object};
use ringside_filter::bounded::{BoundedChild, limit_this_process};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Instant;

/// An answer begins with it; a refusal's text follows.
const MAGIC: &[u8] = b"RSO1";
/// Bytes of a refusal: the verifier's reasons have some hundred lines.
const REFUSAL_BYTES_MAX: usize = 256 << 10;

/// Runs the child's side: limits this process, reads an object from `stdin`, loads it, and writes
/// to `stdout` why not, or nothing. Returns the exit status: 0 if an answer was written.
///
/// It limits the processor time and memory of the whole process, so nothing else must run in it.
pub fn child_main(stdin: impl Read, mut stdout: impl Write) -> i32 {
    limit_this_process(TRIAL_CPU_SECONDS, TRIAL_MEMORY_BYTES);
    let mut elf = Vec::new();
    if stdin.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut elf).is_err() {
        return 2;
    }
    let mut answer = MAGIC.to_vec();
    if let Err(error) = object::load(&elf) {
        answer.extend(error.to_string().into_bytes().into_iter().take(REFUSAL_BYTES_MAX));
    }
    match stdout.write_all(&answer).and_then(|()| stdout.flush()) {
        Ok(()) => 0,
        Err(_) => 2,
    }
}

/// Tries `file` in a child, if it is an eBPF object: `exe` with `args`, which calls
/// [`child_main`] on its standard input and output.
///
/// # Errors
/// The child refuses it, or does not come to an end within its limits.
pub fn try_in_child(file: &[u8], exe: &Path, args: &[OsString]) -> Result<(), ExtensionError> {
    if !is_object(file) {
        return Ok(());
    }
    let answer_bytes_max = MAGIC.len() + REFUSAL_BYTES_MAX;
    let failed = |detail: String| Err(ExtensionError::Trial(detail));
    let not_asked = |error: io::Error| ExtensionError::Trial(error.to_string());
    let child = BoundedChild::start(exe, args, file.to_vec(), answer_bytes_max);
    let mut child = child.map_err(not_asked)?;
    let answer = child.wait_until(Instant::now() + TRIAL_TIME_MAX).map_err(not_asked)?;
    let Some(answer) = answer else { return failed("no end".into()) };
    match answer.strip_prefix(MAGIC) {
        Some([]) => Ok(()),
        Some(text) => Err(ExtensionError::Refused(String::from_utf8_lossy(text).into_owned())),
        None => failed(child.status().map_or("no answer".into(), |status| status.to_string())),
    }
}
