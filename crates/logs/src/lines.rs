//! Formats of records that no other program has a format of its own for.

use crate::log::Format;
use ringside_record::{LineFormat, LineWriter, Names, Record, Row};

/// How a record is a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFormat {
    /// A line for people.
    Text,
    /// Zeek's own log.
    Zeek,
    /// A JSON object.
    Json,
    /// Comma-separated values.
    Csv,
}

impl RecordFormat {
    /// All formats.
    pub const ALL: [RecordFormat; 4] =
        [RecordFormat::Text, RecordFormat::Zeek, RecordFormat::Json, RecordFormat::Csv];

    /// The name, as `--log-format` takes it.
    pub fn name(self) -> &'static str {
        match self {
            RecordFormat::Text => "text",
            RecordFormat::Zeek => "zeek",
            RecordFormat::Json => "json",
            RecordFormat::Csv => "csv",
        }
    }

    /// True if its fields have names that can be chosen.
    pub fn has_names(self) -> bool {
        matches!(self, RecordFormat::Json | RecordFormat::Csv)
    }
}

/// Makes lines in one of these formats.
pub struct RecordLines<R> {
    format: RecordFormat,
    writer: LineWriter,
    text: fn(&R) -> String,
}

impl<R> RecordLines<R> {
    /// With these names of fields where the format has some; `text` is what people read of a
    /// record, without control characters.
    pub fn new(format: RecordFormat, names: Names, text: fn(&R) -> String) -> RecordLines<R> {
        let lines = match format {
            RecordFormat::Zeek => LineFormat::Zeek,
            RecordFormat::Csv => LineFormat::Csv,
            RecordFormat::Text | RecordFormat::Json => LineFormat::Json,
        };
        RecordLines { format, writer: LineWriter::new(lines, names), text }
    }
}

impl<R: Record> Format<R> for RecordLines<R> {
    fn write(&mut self, row: &Row<'_, R>, is_first: bool, out: &mut Vec<u8>) -> Option<()> {
        if self.format == RecordFormat::Text {
            out.extend((self.text)(row.record).as_bytes());
            out.push(b'\n');
            return Some(());
        }
        self.writer.set_begun(!is_first);
        self.writer.write(row, out).ok()
    }
}
