//! Records as lines of text.

use crate::sink::{RecordSink, SinkCounts};
use crate::{Names, Record};
use ringside_core::Timestamp;
use std::io::{self, Write};

/// How a record is a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFormat {
    /// A JSON object; what is absent is left out.
    Json,
    /// Comma-separated values (RFC 4180) under a line with the names; what is absent is empty.
    Csv,
}

/// Writes a line for each record. After an error nothing is written any more: a torn line is not
/// followed by others.
pub struct Lines<W: Write + Send> {
    output: W,
    format: LineFormat,
    names: Names,
    is_begun: bool,
    error: Option<io::Error>,
    counts: SinkCounts,
    line: Vec<u8>,
}

impl<W: Write + Send> Lines<W> {
    /// To `output`, which should have a buffer.
    pub fn new(output: W, format: LineFormat, names: Names) -> Lines<W> {
        let (counts, line) = (SinkCounts::default(), Vec::new());
        Lines { output, format, names, is_begun: false, error: None, counts, line }
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
        match self.format {
            LineFormat::Json => {
                serde_json::to_writer(&mut self.line, &self.names.object(record, interface))?;
                self.line.push(b'\n');
            }
            LineFormat::Csv => {
                let mut csv = csv::Writer::from_writer(&mut self.line);
                if !self.is_begun {
                    csv.write_record(self.names.paths())?;
                }
                csv.write_record(self.names.values(record, interface))?;
                csv.flush()?;
            }
        }
        self.is_begun = true;
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
