//! The columns of a kind of records: names, types, units.

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use ringside_record::{Column, Kind, Names, Record};
use std::collections::HashMap;
use std::sync::Arc;

/// Names of the columns: those of `--json`, of which there are most.
pub const NAMES: Names = Names::Ringside;

/// The column that says when a record is of, in addition to those of the record.
pub const TIME: &str = "time";

/// The field that says when a record is of: its first moment.
pub fn time_column<R: Record>() -> Option<&'static Column<R>> {
    R::columns(NAMES).iter().find(|column| column.field.kind == Kind::Time)
}

/// The columns of a kind of records.
#[derive(Debug)]
pub struct Columns {
    key: Option<&'static str>,
    all: Vec<(&'static str, Kind)>,
    schema: SchemaRef,
}

impl Columns {
    /// Of records `R`.
    pub fn of<R: Record>() -> Columns {
        let all: Vec<_> =
            R::columns(NAMES).iter().map(|column| (column.path, column.field.kind)).collect();
        let named = all.iter().map(|(path, kind)| {
            let unit = unit(*kind).map(|unit| ("unit".to_owned(), unit.to_owned()));
            Field::new(*path, data_type(*kind), true).with_metadata(HashMap::from_iter(unit))
        });
        let time = Field::new(TIME, instant(), true);
        let schema = Schema::new([time].into_iter().chain(named).collect::<Vec<_>>());
        let key = time_column::<R>().map(|column| column.path);
        Columns { key, all, schema: Arc::new(schema) }
    }

    /// The field that says when a record is of, if it has one.
    pub fn key(&self) -> Option<&'static str> {
        self.key
    }

    /// Names and kinds of the record's own columns, in their order.
    pub fn all(&self) -> &[(&'static str, Kind)] {
        &self.all
    }

    /// All columns, `time` first.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
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
