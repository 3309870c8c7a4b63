//! Records as lines of text.

use crate::Record;
use crate::sink::{RecordSink, SinkCounts};
use ringside_core::Timestamp;
use ringside_record::{LineFormat, LineWriter, Names, Row};
use std::io::{self, Write};

/// Writes a line for each record. After an error nothing is written any more: a torn line is not
/// followed by others.
pub struct Lines<W: Write + Send> {
    output: W,
    writer: LineWriter,
    error: Option<io::Error>,
    counts: SinkCounts,
    line: Vec<u8>,
}

impl<W: Write + Send> Lines<W> {
    /// To `output`, which should have a buffer.
    pub fn new(output: W, format: LineFormat, names: Names) -> Lines<W> {
        let (counts, line) = (SinkCounts::default(), Vec::new());
        Lines { output, writer: LineWriter::new(format, names), error: None, counts, line }
    }

    /// Why nothing is written any more.
    pub fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// The output, with what was written so far.
    pub fn into_output(self) -> W {
        self.output
    }

    fn write(&mut self, record: &Record, interface: &str) -> io::Result<()> {
        self.line.clear();
        self.writer.write(&Row { record, interface }, &mut self.line)?;
        self.output.write_all(&self.line)
    }

    fn note(&mut self, outcome: io::Result<()>) -> bool {
        if let Err(error) = outcome {
            self.error.get_or_insert(error);
        }
        self.error.is_none()
    }
}

impl<W: Write + Send> RecordSink for Lines<W> {
    fn put(&mut self, record: &Record, interface: &str, _now: Timestamp) {
        let is_written = self.error.is_none() && {
            let outcome = self.write(record, interface);
            self.note(outcome)
        };
        match is_written {
            true => self.counts.waiting.add(record),
            false => self.counts.write_failed.add(record),
        }
    }

    fn tick(&mut self, _now: Timestamp) {
        if self.counts.waiting.records == 0 {
            return;
        }
        let outcome = self.output.flush();
        match self.note(outcome) {
            true => self.counts.delivered.take(&mut self.counts.waiting),
            false => self.counts.write_failed.take(&mut self.counts.waiting),
        }
    }

    fn finish(&mut self, now: Timestamp) {
        self.tick(now);
    }

    fn counts(&self) -> SinkCounts {
        self.counts
    }
}
