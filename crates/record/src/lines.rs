//! Records as lines of text.

use crate::json::Places;
use crate::plain::plain;
use crate::{Column, Kind, Names, Record, Row, values};
use serde_json::Value;
use std::io::{self, Write};

/// How a record is a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFormat {
    /// A JSON object; what is absent is left out.
    Json,
    /// Comma-separated values (RFC 4180) under a line with the names; what is absent is empty.
    Csv,
    /// Zeek's own logs: values between tabs, under lines that say names and types; what is absent
    /// is `-`.
    Zeek,
}

/// Makes a line of each record. One for each kind of record and file: names stand above the first
/// line of a file.
#[derive(Clone, Debug)]
pub struct LineWriter {
    format: LineFormat,
    names: Names,
    is_begun: bool,
    /// Of the kind of record, once one was written as JSON.
    places: Option<Places>,
}

impl LineWriter {
    /// Lines of this format, with these names. Zeek's logs have Zeek's names, whatever was asked.
    pub fn new(format: LineFormat, names: Names) -> LineWriter {
        let names = if format == LineFormat::Zeek { Names::Zeek } else { names };
        LineWriter { format, names, is_begun: false, places: None }
    }

    /// Says whether a line stands before the next one in its file.
    pub fn set_begun(&mut self, is_begun: bool) {
        self.is_begun = is_begun;
    }

    /// Appends the line of a record to `out`, and before the first line what stands above all.
    ///
    /// # Errors
    /// A value cannot be written.
    pub fn write<R: Record>(&mut self, row: &Row<'_, R>, out: &mut Vec<u8>) -> io::Result<()> {
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        match self.format {
            LineFormat::Json => {
                let places = self.places.get_or_insert_with(|| Places::of::<R>(self.names));
                places.write(self.names, row, out)?;
                out.push(b'\n');
            }
            LineFormat::Csv => {
                let mut csv = csv::Writer::from_writer(out);
                if is_first {
                    csv.write_record(self.names.paths::<R>())?;
                }
                let values = values(self.names, *row);
                csv.write_record(values.map(|text| plain(&text, hex).into_owned()))?;
                csv.flush()?;
            }
            LineFormat::Zeek => {
                if is_first {
                    out.extend(zeek_head::<R>().as_bytes());
                }
                let columns = R::columns(Names::Zeek).iter();
                let cells = columns.map(|column| zeek_cell(column.value(row, Names::Zeek)));
                writeln!(out, "{}", cells.collect::<Vec<_>>().join("\t"))?;
            }
        }
        Ok(())
    }
}

/// The lines above those of a log, as Zeek's ASCII writer has them.
fn zeek_head<R: Record>() -> String {
    let columns = R::columns(Names::Zeek);
    let paths: Vec<_> = columns.iter().map(|column| column.path).collect();
    let types: Vec<_> = columns.iter().map(zeek_type).collect();
    format!(
        "#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n\
         #path\t{}\n#fields\t{}\n#types\t{}\n",
        R::LOG,
        paths.join("\t"),
        types.join("\t")
    )
}

fn zeek_type<R: 'static>(column: &Column<R>) -> &'static str {
    match column.field.kind {
        Kind::Text => "string",
        Kind::Bool => "bool",
        Kind::Count | Kind::Bytes => "count",
        Kind::Port => "port",
        Kind::Address => "addr",
        Kind::Time => "time",
        Kind::Duration => "interval",
        Kind::List => "set[string]",
    }
}

fn zeek_cell(value: Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::Bool(is_so) => if is_so { "T" } else { "F" }.into(),
        // What means "absent" is escaped where it is a value.
        Value::String(text) if text == "-" => "\\x2d".into(),
        Value::String(text) if text.is_empty() => "(empty)".into(),
        Value::String(text) => escape(&text),
        Value::Number(number) if number.is_f64() => {
            format!("{:.6}", number.as_f64().unwrap_or_default())
        }
        Value::Array(items) if items.is_empty() => "(empty)".into(),
        Value::Array(items) => {
            let texts = items.iter().map(|item| item.as_str().unwrap_or_default());
            texts.map(|text| escape(text).replace(',', "\\x2c")).collect::<Vec<_>>().join(",")
        }
        other => other.to_string(),
    }
}

/// Control bytes as `\xHH`, and the backslash twice.
fn escape(text: &str) -> String {
    plain(&text.replace('\\', "\\\\"), hex).into_owned()
}

/// The bytes of a character as `\xHH`.
fn hex(c: char) -> String {
    let mut bytes = [0; 4];
    c.encode_utf8(&mut bytes).bytes().map(|byte| format!("\\x{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
