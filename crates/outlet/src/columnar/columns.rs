//! Records as columns: the types that files have, and the file of some records.

use super::WrongRecord;
use super::hours::{Line, fields};
use crate::clickhouse::{NAMES, TIME, time_column};
use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, ListBuilder, StringBuilder, TimestampNanosecondBuilder,
    UInt16Builder, UInt64Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;
use ringside_record::{Kind, Record};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// Records that are turned into columns at a time.
const ROWS: usize = 8_192;

/// Most bytes of a filter by which a reader knows that an address is not in a file: of a file of
/// 100,000 records, all from other addresses, one in a hundred is read in vain.
const FILTER_ROWS_MAX: usize = 100_000;

/// The columns of a kind of records.
pub(super) struct Columns {
    kind: String,
    /// When a record is of.
    key: Option<&'static str>,
    all: Vec<(&'static str, Kind)>,
    schema: SchemaRef,
}

impl Columns {
    pub fn of<R: Record>(kind: &str) -> Columns {
        let all: Vec<_> =
            R::columns(NAMES).iter().map(|column| (column.path, column.field.kind)).collect();
        let named = all.iter().map(|(path, kind)| {
            let unit = unit(*kind).map(|unit| ("unit".to_owned(), unit.to_owned()));
            Field::new(*path, data_type(*kind), true).with_metadata(HashMap::from_iter(unit))
        });
        let time = Field::new(TIME, instant(), true);
        let schema = Schema::new([time].into_iter().chain(named).collect::<Vec<_>>());
        Columns {
            kind: kind.to_owned(),
            key: time_column::<R>().map(|column| column.path),
            all,
            schema: Arc::new(schema),
        }
    }

    /// The field that says when a record is of.
    pub fn key(&self) -> Option<&'static str> {
        self.key
    }

    /// The file of these records, which are in the order of time.
    ///
    /// # Errors
    /// A line is no record of this kind.
    pub fn file(&self, lines: &[Line<'_>]) -> Result<Vec<u8>, WrongRecord> {
        let wrong = |error: parquet::errors::ParquetError| WrongRecord(error.to_string());
        let properties = Some(self.properties(lines.len()).map_err(wrong)?);
        let mut writer = ArrowWriter::try_new(Vec::new(), Arc::clone(&self.schema), properties)
            .map_err(wrong)?;
        for some in lines.chunks(ROWS) {
            writer.write(&self.rows(some)?).map_err(wrong)?;
        }
        writer.into_inner().map_err(wrong)
    }

    fn properties(&self, rows: usize) -> Result<WriterProperties, parquet::errors::ParquetError> {
        let zstd = Compression::ZSTD(ZstdLevel::try_new(3)?);
        let by_time = SortingColumn { column_idx: 0, descending: false, nulls_first: true };
        let mut builder = WriterProperties::builder()
            .set_compression(zstd)
            .set_created_by(format!("ringside {}", env!("CARGO_PKG_VERSION")))
            .set_sorting_columns(Some(vec![by_time]))
            .set_key_value_metadata(Some(vec![KeyValue::new(
                "ringside.kind".to_owned(),
                self.kind.clone(),
            )]));
        for (path, _) in self.all.iter().filter(|(_, kind)| *kind == Kind::Address) {
            let column = ColumnPath::from(*path);
            builder = builder
                .set_column_bloom_filter_enabled(column.clone(), true)
                .set_column_bloom_filter_max_ndv(column, rows.clamp(1, FILTER_ROWS_MAX) as u64);
        }
        Ok(builder.build())
    }

    fn rows(&self, lines: &[Line<'_>]) -> Result<RecordBatch, WrongRecord> {
        let mut times = TimestampNanosecondBuilder::new().with_timezone("UTC");
        let mut cells: Vec<_> = self.all.iter().map(|(_, kind)| Cells::new(*kind)).collect();
        for line in lines {
            let fields = fields(line.json)?;
            // A time beyond the year 2262 has its number alone.
            times.append_option(line.stamp_ns.and_then(|ns| i64::try_from(ns).ok()));
            for ((path, _), cells) in self.all.iter().zip(&mut cells) {
                let value = fields.get(*path).filter(|value| !value.is_null());
                cells
                    .append(value)
                    .ok_or_else(|| WrongRecord(format!("{path} is of another type in a record")))?;
            }
        }
        let times: ArrayRef = Arc::new(times.finish());
        let columns = [times].into_iter().chain(cells.into_iter().map(Cells::finish)).collect();
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .map_err(|error| WrongRecord(error.to_string()))
    }
}

/// A moment of records, as engines know it.
fn instant() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
}

fn data_type(kind: Kind) -> DataType {
    match kind {
        Kind::Text | Kind::Address => DataType::Utf8,
        Kind::Bool => DataType::Boolean,
        Kind::Count | Kind::Bytes | Kind::Time | Kind::Duration => DataType::UInt64,
        Kind::Port => DataType::UInt16,
        Kind::List => DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))),
    }
}

fn unit(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Bytes => Some("bytes"),
        Kind::Time => Some("nanoseconds since 1970, UTC"),
        Kind::Duration => Some("nanoseconds"),
        Kind::Text | Kind::Bool | Kind::Count | Kind::Port | Kind::Address | Kind::List => None,
    }
}

/// A column that is being filled.
enum Cells {
    Text(StringBuilder),
    Bool(BooleanBuilder),
    Number(UInt64Builder),
    Port(UInt16Builder),
    List(ListBuilder<StringBuilder>),
}

impl Cells {
    fn new(kind: Kind) -> Cells {
        match kind {
            Kind::Text | Kind::Address => Cells::Text(StringBuilder::new()),
            Kind::Bool => Cells::Bool(BooleanBuilder::new()),
            Kind::Count | Kind::Bytes | Kind::Time | Kind::Duration => {
                Cells::Number(UInt64Builder::new())
            }
            Kind::Port => Cells::Port(UInt16Builder::new()),
            Kind::List => Cells::List(ListBuilder::new(StringBuilder::new())),
        }
    }

    /// Adds a value, or that there is none; `None` if it is of another type.
    fn append(&mut self, value: Option<&Value>) -> Option<()> {
        match self {
            Cells::Text(cells) => cells.append_option(known(value, Value::as_str)?),
            Cells::Bool(cells) => cells.append_option(known(value, Value::as_bool)?),
            Cells::Number(cells) => cells.append_option(known(value, Value::as_u64)?),
            Cells::Port(cells) => {
                let port = |value: &Value| value.as_u64().and_then(|port| u16::try_from(port).ok());
                cells.append_option(known(value, port)?);
            }
            Cells::List(cells) => {
                let items = known(value, Value::as_array)?;
                for item in items.into_iter().flatten() {
                    match item {
                        Value::String(text) => cells.values().append_value(text),
                        // What is no text is there as its JSON.
                        other => cells.values().append_value(other.to_string()),
                    }
                }
                cells.append(items.is_some());
            }
        }
        Some(())
    }

    fn finish(self) -> ArrayRef {
        let mut builder: Box<dyn ArrayBuilder> = match self {
            Cells::Text(cells) => Box::new(cells),
            Cells::Bool(cells) => Box::new(cells),
            Cells::Number(cells) => Box::new(cells),
            Cells::Port(cells) => Box::new(cells),
            Cells::List(cells) => Box::new(cells),
        };
        builder.finish()
    }
}

/// What a value is, if there is one; `None` if it is something else.
fn known<'v, T>(
    value: Option<&'v Value>,
    read: impl FnOnce(&'v Value) -> Option<T>,
) -> Option<Option<T>> {
    match value {
        None => Some(None),
        Some(value) => read(value).map(Some),
    }
}
