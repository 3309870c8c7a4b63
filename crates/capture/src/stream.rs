//! A stream to another program that may stop reading.

use crate::control::Control;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Bytes of a write that a pipe takes whole once it is ready (PIPE_BUF, pipe(7)). With larger
/// writes it would not be known how much of one had been taken when the reader stopped.
const PIPE_BUF: usize = 4096;
/// How often the order to stop is looked at while the other end does not read.
const POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// How long a terminal that has less room than it needs is left alone.
const NO_ROOM: Duration = Duration::from_millis(2);
/// How long a reader may take for the rest once the run is stopping. What it then has not read is
/// lost, counted as `pipe_stalled`.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// Writes to a pipe, socket, terminal or file and never hangs past the end of the run. One write
/// takes at most [`StreamWriter::WRITE_BYTES_MAX`].
pub struct StreamWriter {
    file: File,
    control: Arc<Control>,
    /// When the order to stop was first seen.
    stopping_since: Option<Instant>,
}

impl StreamWriter {
    /// Most bytes of one write: what a pipe takes whole.
    pub const WRITE_BYTES_MAX: usize = PIPE_BUF;

    pub(crate) fn new(fd: OwnedFd, control: Arc<Control>) -> StreamWriter {
        StreamWriter { file: File::from(fd), control, stopping_since: None }
    }

    /// Has `step` make one write of at most [`StreamWriter::WRITE_BYTES_MAX`] bytes, as soon as the
    /// other end takes some; again if it would have had to wait.
    ///
    /// # Errors
    /// Those of the write, or the run is ending and the other end has taken nothing for too long.
    pub fn write_by(
        &mut self,
        mut step: impl FnMut(&mut File) -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            self.wait()?;
            match step(&mut self.file) {
                // It is ready with the first byte of room, and shows some only whole.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(NO_ROOM),
                result => return result,
            }
        }
    }

    /// Waits until the other end takes bytes.
    fn wait(&mut self) -> io::Result<()> {
        loop {
            if self.control.is_stopping() {
                let since = *self.stopping_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= DRAIN_MAX {
                    let text = "the other end of the pipe does not read, or too slowly to end";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
            }
            let mut polled = [PollFd::new(&self.file, PollFlags::OUT)];
            match poll(&mut polled, Some(&POLL)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                // Also for an error or a hang-up: the write then says what it is.
                Ok(_) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl Write for StreamWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = &bytes[..bytes.len().min(PIPE_BUF)];
        self.write_by(|out| out.write(part))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
