//! How the outputs of flow records fare: collectors, and lines on standard output.

use ringside_export::{State, Watch};
use ringside_terminal::say;
use ringside_terminal::units::counted;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

/// The outputs, which are written in other threads than the one that ends the run.
#[derive(Default)]
pub struct Outputs {
    failure: Failure,
    watched: Vec<Watched>,
}

impl Outputs {
    /// Outlets that were just opened.
    pub fn new(watches: Vec<Watch>) -> Outputs {
        let watched = watches.into_iter().map(|watch| Watched { watch, state: State::Connecting });
        Outputs { failure: Failure::default(), watched: watched.collect() }
    }

    /// Standard output, whose first error of writing is known here.
    pub fn writer(&self, stdout: OwnedFd) -> impl Write + Send + use<> {
        Stdout { stdout: File::from(stdout), failure: self.failure.clone() }
    }

    /// Says what changed of collectors.
    ///
    /// # Errors
    /// Standard output cannot be written: what would come reaches no reader.
    pub fn look(&mut self) -> io::Result<()> {
        self.watched.iter_mut().for_each(Watched::look);
        self.failure.check()
    }

    /// After the end: says what did not get where it should; true if everything did.
    ///
    /// # Errors
    /// Standard output could not be written.
    pub fn finish(&self) -> io::Result<bool> {
        let lossy = self.watched.iter().filter(|watched| !watched.finish()).count();
        self.failure.check().map(|()| lossy == 0)
    }
}

/// Why records could not be written to standard output, by the system's number.
#[derive(Clone, Default)]
struct Failure(Arc<OnceLock<i32>>);

impl Failure {
    /// The first error of writing.
    fn check(&self) -> io::Result<()> {
        self.0.get().map_or(Ok(()), |&number| Err(io::Error::from_raw_os_error(number)))
    }
}

/// Standard output, with the first error of writing to it.
struct Stdout {
    stdout: File,
    failure: Failure,
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

/// An outlet that is looked at from outside.
struct Watched {
    watch: Watch,
    /// As it was said.
    state: State,
}

impl Watched {
    /// Says when the collector goes away, and when it is back.
    fn look(&mut self) {
        let status = self.watch.status();
        if status.state == self.state {
            return;
        }
        let before = std::mem::replace(&mut self.state, status.state);
        let to = &status.collector;
        match status.state {
            State::Away => {
                let why = status.error.unwrap_or_default();
                say::message(format_args!("ringside: {to} is away: {why}"));
            }
            State::Open if before == State::Away => {
                say::message(format_args!("ringside: {to} is back"));
            }
            _ => {}
        }
    }

    /// Says what the collector did not get; true if that is nothing.
    fn finish(&self) -> bool {
        let status = self.watch.status();
        let (to, counts) = (&status.collector, &status.counts);
        let why: Vec<_> = status.error.iter().chain(&status.spool_error).cloned().collect();
        let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join("; ")) };
        if status.spool_damaged_bytes > 0 {
            let bytes = counted(status.spool_damaged_bytes, "byte");
            say::message(format_args!("ringside: {to}: {bytes} of the spool could not be read"));
        }
        if counts.spooled.records > 0 {
            let records = counted(counts.spooled.records, "record");
            say::message(format_args!("ringside: {to}: {records} stay in the spool{why}"));
        }
        let lost = counts.lost().records;
        if lost > 0 {
            let records = counted(lost, "record");
            say::message(format_args!("ringside: {to}: {records} did not get there{why}"));
        }
        lost == 0
    }
}
