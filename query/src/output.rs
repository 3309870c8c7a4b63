//! Rows on standard output.

use crate::question::{Format, Question};
use crate::table::Table;
use anyhow::Context;
use datafusion::arrow::array::{Array, RecordBatch, StringArray};
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::LineDelimitedWriter;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use std::io::{BufWriter, ErrorKind, Stdout, Write, stdout};
use std::sync::Arc;

/// Takes rows until there are enough.
pub(crate) struct Output {
    rows_left: Option<u64>,
    is_cut: bool,
    rows: Rows,
}

enum Rows {
    Table(Table),
    Json(LineDelimitedWriter<Plain>),
    Csv(Box<csv::Writer<Plain>>),
}

impl Output {
    pub fn new(question: &Question, schema: &SchemaRef) -> Output {
        let out = Plain::new();
        let rows = match question.format {
            Format::Table => Rows::Table(Table::new(schema)),
            Format::Json => Rows::Json(LineDelimitedWriter::new(out)),
            Format::Csv => {
                Rows::Csv(Box::new(csv::WriterBuilder::new().with_header(true).build(out)))
            }
        };
        let rows_left = (question.rows_max > 0).then_some(question.rows_max);
        Output { rows_left, is_cut: false, rows }
    }

    /// Takes rows; false if no more are wanted.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn put(&mut self, rows: &RecordBatch) -> anyhow::Result<bool> {
        let wanted = match self.rows_left {
            None => rows.num_rows(),
            Some(left) => rows.num_rows().min(usize::try_from(left).unwrap_or(usize::MAX)),
        };
        self.is_cut |= wanted < rows.num_rows();
        let rows = rows.slice(0, wanted);
        match &mut self.rows {
            Rows::Table(table) => table.put(&rows)?,
            Rows::Json(writer) => writer.write(&rows)?,
            Rows::Csv(writer) => writer.write(&flat(&rows)?)?,
        }
        if let Some(left) = &mut self.rows_left {
            *left -= wanted as u64;
        }
        Ok(!self.is_cut)
    }

    /// Writes what is left; true if rows were left out.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(self) -> anyhow::Result<bool> {
        let mut out = match self.rows {
            Rows::Table(table) => {
                let mut out = Plain::new();
                table.write(&mut out).context("standard output")?;
                out
            }
            Rows::Json(mut writer) => {
                writer.finish()?;
                writer.into_inner()
            }
            Rows::Csv(writer) => writer.into_inner(),
        };
        out.flush().context("standard output")?;
        Ok(self.is_cut)
    }
}

/// Standard output, on which control characters of records are points: a terminal would obey them.
pub(crate) struct Plain {
    out: BufWriter<Stdout>,
    /// The byte before: U+0080 to U+009F are two.
    before: u8,
}

impl Plain {
    fn new() -> Plain {
        Plain { out: BufWriter::new(stdout()), before: 0 }
    }
}

impl Write for Plain {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut before = self.before;
        let plain = |&byte: &u8| {
            let plain = match (before, byte) {
                (_, b'\n') => byte,
                (_, ..b' ' | 0x7f) => b'.',
                // The middle dot.
                (0xc2, 0x80..=0x9f) => 0xb7,
                _ => byte,
            };
            before = byte;
            plain
        };
        let plain: Vec<u8> = bytes.iter().map(plain).collect();
        self.before = before;
        end_if_closed(self.out.write_all(&plain))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        end_if_closed(self.out.flush())
    }
}

/// Ends the program in order where who reads the rows has enough.
fn end_if_closed(written: std::io::Result<()>) -> std::io::Result<()> {
    if written.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
        std::process::exit(0);
    }
    written
}

/// Columns of lists as texts: CSV has no lists.
fn flat(rows: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (field, column) in rows.schema().fields().iter().zip(rows.columns()) {
        if !column.data_type().is_nested() {
            fields.push(Arc::clone(field));
            columns.push(Arc::clone(column));
            continue;
        }
        let texts = ArrayFormatter::try_new(column, &FormatOptions::new())?;
        let text = |row| column.is_valid(row).then(|| texts.value(row).to_string());
        let column: StringArray = (0..rows.num_rows()).map(text).collect();
        fields.push(Arc::new(Field::new(field.name(), DataType::Utf8, true)));
        columns.push(Arc::new(column));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}
