//! Rows as a table for people.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Widest cell that is shown; `--json` and `--csv` have all of it.
const WIDTH_MAX: usize = 60;

/// How times are written: as `ringside read` takes them.
const TIME: &str = "%Y-%m-%dT%H:%M:%S%.9fZ";

/// Rows that wait until the width of each column is known.
pub(crate) struct Table {
    columns: Vec<Column>,
}

struct Column {
    is_number: bool,
    /// The name first.
    cells: Vec<String>,
}

impl Table {
    pub fn new(schema: &SchemaRef) -> Table {
        let column = |name: &String, kind: &DataType| Column {
            is_number: kind.is_numeric(),
            cells: vec![shown(name)],
        };
        let fields = schema.fields().iter();
        Table { columns: fields.map(|field| column(field.name(), field.data_type())).collect() }
    }

    pub fn put(&mut self, rows: &RecordBatch) -> Result<(), ArrowError> {
        let options = FormatOptions::new()
            .with_null("-")
            .with_timestamp_format(Some(TIME))
            .with_timestamp_tz_format(Some(TIME));
        for (column, cells) in self.columns.iter_mut().zip(rows.columns()) {
            let texts = ArrayFormatter::try_new(cells, &options)?;
            column
                .cells
                .extend((0..rows.num_rows()).map(|row| shown(&texts.value(row).to_string())));
        }
        Ok(())
    }

    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let width = |column: &Column| column.cells.iter().map(|cell| cell.chars().count()).max();
        let widths: Vec<_> = self.columns.iter().map(|column| width(column).unwrap_or(0)).collect();
        let rows = self.columns.first().map_or(0, |column| column.cells.len());
        for row in 0..rows {
            let mut line = String::new();
            for (column, width) in self.columns.iter().zip(&widths) {
                let cell = &column.cells[row];
                let _ = if column.is_number {
                    write!(line, "{cell:>width$}  ")
                } else {
                    write!(line, "{cell:<width$}  ")
                };
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A cell on one line.
fn shown(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { '.' } else { c });
    if text.chars().count() <= WIDTH_MAX {
        return plain.collect();
    }
    plain.take(WIDTH_MAX - 1).chain(['…']).collect()
}
