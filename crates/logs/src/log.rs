//! Records as lines of a log.

use crate::counts::LogCounts;
use ringside_core::{InterfaceId, Timestamp};
use ringside_record::{Record, Row};
use std::io::{self, Write};

/// A record that is written once it is over.
pub trait Logged: Record {
    /// When it was over.
    fn end(&self) -> Timestamp;

    /// The interface that received its packets.
    fn interface(&self) -> InterfaceId;
}

/// Takes records.
pub trait RecordSink<R>: Send {
    /// The next record, from the interface of this name.
    fn put(&mut self, record: &R, interface: &str);

    /// Time has passed: what waits for company need not wait any more.
    fn tick(&mut self) {}

    /// No record will come again.
    fn finish(&mut self) {
        self.tick();
    }

    /// What became of the records.
    fn counts(&self) -> LogCounts;

    /// Why nothing is written any more.
    fn error(&self) -> Option<String> {
        None
    }
}

/// How a record is a line.
pub trait Format<R>: Send {
    /// Appends the line of a record, and before the first of a file what stands above all. None if
    /// the format has no way to say it.
    fn write(&mut self, row: &Row<'_, R>, is_first: bool, out: &mut Vec<u8>) -> Option<()>;
}

/// Where lines go.
pub trait LogOutput: Send {
    /// A line comes, at this time of the packets. True if it is the first of its file.
    ///
    /// # Errors
    /// Another file cannot be begun.
    fn ready(&mut self, now: Timestamp) -> io::Result<bool>;

    /// Writes a line.
    ///
    /// # Errors
    /// It cannot be written.
    fn write(&mut self, line: &[u8]) -> io::Result<()>;

    /// Hands what was written to the system.
    ///
    /// # Errors
    /// It cannot be written.
    fn flush(&mut self) -> io::Result<()>;
}

/// One stream without end.
struct Stream<W>(W, bool);

impl<W: Write + Send> LogOutput for Stream<W> {
    fn ready(&mut self, _now: Timestamp) -> io::Result<bool> {
        Ok(!std::mem::replace(&mut self.1, true))
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.0.write_all(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes a line for each record. After an error nothing is written any more: a torn line is not
/// followed by others.
pub struct Log<'o, R> {
    output: Box<dyn LogOutput + 'o>,
    format: Box<dyn Format<R> + 'o>,
    error: Option<io::Error>,
    counts: LogCounts,
    line: Vec<u8>,
}

impl<'o, R: Logged> Log<'o, R> {
    /// To an output, in a format.
    pub fn new(output: Box<dyn LogOutput + 'o>, format: Box<dyn Format<R> + 'o>) -> Log<'o, R> {
        let (error, counts, line) = (None, LogCounts::default(), Vec::new());
        Log { output, format, error, counts, line }
    }

    /// To a stream, which should have a buffer.
    pub fn to_stream(
        output: impl Write + Send + 'o,
        format: Box<dyn Format<R> + 'o>,
    ) -> Log<'o, R> {
        Log::new(Box::new(Stream(output, false)), format)
    }

    fn write(&mut self, record: &R, interface: &str) -> io::Result<bool> {
        let row = Row { record, interface };
        self.line.clear();
        if self.format.write(&row, false, &mut self.line).is_none() {
            return Ok(false);
        }
        if self.output.ready(record.end())? {
            // The names stand above the first line of each file.
            self.line.clear();
            let _ = self.format.write(&row, true, &mut self.line);
        }
        self.output.write(&self.line)?;
        Ok(true)
    }
}

impl<R: Logged> RecordSink<R> for Log<'_, R> {
    fn put(&mut self, record: &R, interface: &str) {
        let outcome = match self.error {
            Some(_) => None,
            None => Some(self.write(record, interface)),
        };
        match outcome {
            Some(Ok(true)) => self.counts.waiting += 1,
            Some(Ok(false)) => self.counts.inexpressible += 1,
            Some(Err(error)) => {
                self.error = Some(error);
                self.counts.write_failed += 1;
            }
            None => self.counts.write_failed += 1,
        }
    }

    fn tick(&mut self) {
        if self.counts.waiting == 0 {
            return;
        }
        if self.error.is_none()
            && let Err(error) = self.output.flush()
        {
            self.error = Some(error);
        }
        let waiting = std::mem::take(&mut self.counts.waiting);
        match self.error {
            None => self.counts.delivered += waiting,
            Some(_) => self.counts.write_failed += waiting,
        }
    }

    fn counts(&self) -> LogCounts {
        self.counts
    }

    fn error(&self) -> Option<String> {
        self.error.as_ref().map(ToString::to_string)
    }
}
