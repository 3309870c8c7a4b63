//! Rows on standard output.

use crate::question::{Format, Question};
use crate::table::Table;
use anyhow::Context;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::json::LineDelimitedWriter;
use std::io::{BufWriter, Stdout, Write, stdout};

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
            Rows::Csv(writer) => writer.write(&rows)?,
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
        for &byte in bytes {
            let plain = match (self.before, byte) {
                (_, b'\n') => byte,
                (_, ..b' ' | 0x7f) => b'.',
                // The middle dot.
                (0xc2, 0x80..=0x9f) => 0xb7,
                _ => byte,
            };
            self.before = byte;
            self.out.write_all(&[plain])?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}
