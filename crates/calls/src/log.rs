//! Calls as lines.

use crate::observer::CallSink;
use crate::{Call, text};
use ringside_record::{LineFormat, LineWriter, Names, Row};
use std::io::{self, Write};

/// How a call is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFormat {
    /// For people: a line for the call, and one for each of its streams.
    Text,
    /// A JSON object a line.
    Json,
    /// Comma-separated values; the streams are JSON in one of them.
    Csv,
    /// Zeek's sip.log.
    Zeek,
}

impl CallFormat {
    /// All formats.
    pub const ALL: [CallFormat; 4] =
        [CallFormat::Text, CallFormat::Json, CallFormat::Csv, CallFormat::Zeek];

    /// The name, as `--log-format` takes it.
    pub fn name(self) -> &'static str {
        match self {
            CallFormat::Text => "text",
            CallFormat::Json => "json",
            CallFormat::Csv => "csv",
            CallFormat::Zeek => "zeek",
        }
    }
}

/// Writes calls. After an error nothing is written any more.
pub struct CallLog<W> {
    output: W,
    /// None of text.
    writer: Option<LineWriter>,
    line: Vec<u8>,
    delivered: u64,
    error: Option<io::Error>,
}

impl<W: Write + Send> CallLog<W> {
    /// To an output, which should have a buffer, with these names of fields where it has some.
    pub fn new(output: W, format: CallFormat, names: Names) -> CallLog<W> {
        let writer = match format {
            CallFormat::Text => None,
            CallFormat::Json => Some(LineWriter::new(LineFormat::Json, names)),
            CallFormat::Csv => Some(LineWriter::new(LineFormat::Csv, names)),
            CallFormat::Zeek => Some(LineWriter::new(LineFormat::Zeek, names)),
        };
        CallLog { output, writer, line: Vec::new(), delivered: 0, error: None }
    }

    fn write(&mut self, call: &Call, interface: &str) -> io::Result<()> {
        self.line.clear();
        match &mut self.writer {
            Some(writer) => writer.write(&Row { record: call, interface }, &mut self.line)?,
            None => self.line.extend(text::of_call(call).bytes()),
        }
        self.output.write_all(&self.line)
    }
}

impl<W: Write + Send> CallSink for CallLog<W> {
    fn put(&mut self, call: &Call, interface: &str) {
        if self.error.is_some() {
            return;
        }
        match self.write(call, interface) {
            Ok(()) => self.delivered += 1,
            Err(error) => self.error = Some(error),
        }
    }

    fn tick(&mut self) {
        if self.error.is_none()
            && let Err(error) = self.output.flush()
        {
            self.error = Some(error);
        }
    }

    fn delivered(&self) -> u64 {
        self.delivered
    }

    fn error(&self) -> Option<String> {
        self.error.as_ref().map(ToString::to_string)
    }
}
