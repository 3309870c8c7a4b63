//! How the outputs of flow records fare: collectors, and lines on standard output.

use crate::stdout::WatchedStdout;
use ringside_export::{State, Watch};
use ringside_terminal::say;
use ringside_terminal::units::counted;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

/// The outputs, which are written in other threads than the one that ends the run.
#[derive(Default)]
pub struct Outputs {
    stdout: WatchedStdout,
    watched: Vec<Watched>,
}

impl Outputs {
    /// Outlets that were just opened.
    pub fn new(watches: Vec<Watch>) -> Outputs {
        let watched = watches.into_iter().map(|watch| Watched { watch, state: State::Connecting });
        Outputs { stdout: WatchedStdout::default(), watched: watched.collect() }
    }

    /// Standard output, whose first error of writing is known here.
    pub fn writer(&self, stdout: OwnedFd) -> impl Write + Send + use<> {
        self.stdout.writer(stdout)
    }

    /// Says what changed of collectors.
    ///
    /// # Errors
    /// Standard output cannot be written: what would come reaches no reader.
    pub fn look(&mut self) -> io::Result<()> {
        self.watched.iter_mut().for_each(Watched::look);
        self.stdout.check()
    }

    /// After the end: says what did not get where it should; true if everything did.
    ///
    /// # Errors
    /// Standard output could not be written.
    pub fn finish(&self) -> io::Result<bool> {
        let lossy = self.watched.iter().filter(|watched| !watched.finish()).count();
        self.stdout.check().map(|()| lossy == 0)
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
