//! Standard output that is written in another thread than the one that ends the run.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

/// Why standard output could not be written, by the system's number.
#[derive(Clone, Debug, Default)]
pub struct WatchedStdout(Arc<OnceLock<i32>>);

impl WatchedStdout {
    /// Standard output, whose first error of writing is known here.
    pub fn writer(&self, stdout: OwnedFd) -> impl Write + Send + use<> {
        Stdout { stdout: File::from(stdout), failure: self.clone() }
    }

    /// The first error of writing.
    ///
    /// # Errors
    /// There was one.
    pub fn check(&self) -> io::Result<()> {
        self.0.get().map_or(Ok(()), |&number| Err(io::Error::from_raw_os_error(number)))
    }
}

/// Standard output, with the first error of writing to it.
struct Stdout {
    stdout: File,
    failure: WatchedStdout,
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stdout.write(bytes).inspect_err(|error| {
            // An interrupted write is made again.
            if let Some(number) = error.raw_os_error()
                && error.kind() != io::ErrorKind::Interrupted
            {
                self.failure.0.get_or_init(|| number);
            }
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }
}
