//! Records on their way into a batch.

use crate::cells::Cells;
use crate::{Columns, NAMES};
use arrow_array::builder::TimestampNanosecondBuilder;
use arrow_array::{ArrayRef, RecordBatch};
use ringside_record::{Record, Row};
use serde_json::{Map, Value};
use std::sync::Arc;
use thiserror::Error;

/// A record that is none of its kind: what no repetition puts right.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct WrongRecord(pub String);

/// Rows of a batch that is being made.
#[derive(Debug)]
pub struct Rows {
    columns: Arc<Columns>,
    times: TimestampNanosecondBuilder,
    cells: Vec<Cells>,
    len: usize,
}

impl Rows {
    /// None yet.
    pub fn new(columns: Arc<Columns>) -> Rows {
        let times = TimestampNanosecondBuilder::new().with_timezone("UTC");
        let cells = columns.all().iter().map(|(_, kind)| Cells::new(*kind)).collect();
        Rows { columns, times, cells, len: 0 }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of their text: of one column less than 2 GiB, which is what its offsets reach.
    pub fn text_bytes(&self) -> usize {
        self.cells.iter().map(Cells::text_bytes).sum()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a record, which is of the kind of these columns.
    ///
    /// # Errors
    /// It is not.
    pub fn put<R: Record>(&mut self, row: &Row<'_, R>) -> Result<(), WrongRecord> {
        let mut stamp_ns = None;
        for (column, cells) in R::columns(NAMES).iter().zip(&mut self.cells) {
            let value = column.value(row, NAMES);
            if Some(column.path) == self.columns.key() {
                stamp_ns = value.as_u64();
            }
            let value = Some(&value).filter(|value| !value.is_null());
            cells.append(value).ok_or_else(|| wrong_type(column.path))?;
        }
        self.end_row(stamp_ns);
        Ok(())
    }

    /// Adds a record by its JSON, of this time.
    ///
    /// # Errors
    /// It is no record of this kind.
    pub fn put_object(
        &mut self,
        fields: &Map<String, Value>,
        stamp_ns: Option<u64>,
    ) -> Result<(), WrongRecord> {
        for ((path, _), cells) in self.columns.all().iter().zip(&mut self.cells) {
            let value = fields.get(*path).filter(|value| !value.is_null());
            cells.append(value).ok_or_else(|| wrong_type(path))?;
        }
        self.end_row(stamp_ns);
        Ok(())
    }

    fn end_row(&mut self, stamp_ns: Option<u64>) {
        // A time beyond the year 2262 has its number alone.
        self.times.append_option(stamp_ns.and_then(|ns| i64::try_from(ns).ok()));
        self.len += 1;
    }

    /// The batch, and no rows again.
    ///
    /// # Errors
    /// The columns differ in length, after a record that was none.
    pub fn finish(&mut self) -> Result<RecordBatch, WrongRecord> {
        let times: ArrayRef = Arc::new(self.times.finish());
        let cells = self.cells.iter_mut().map(Cells::finish);
        let columns = [times].into_iter().chain(cells).collect();
        self.len = 0;
        RecordBatch::try_new(Arc::clone(self.columns.schema()), columns)
            .map_err(|error| WrongRecord(error.to_string()))
    }
}

fn wrong_type(path: &str) -> WrongRecord {
    WrongRecord(format!("{path} is of another type in a record"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_record::{Column, Kind, LineFormat, LineWriter, Names};
    use ringside_testkit::Random;
    use serde_json::json;

    /// A value of each kind, or none, by the bits of a number.
    struct Probe(u64);

    fn known(row: &Row<'_, Probe>, bit: u32, value: Value) -> Value {
        if row.record.0 >> bit & 1 == 1 { value } else { Value::Null }
    }

    impl Record for Probe {
        const LOG: &'static str = "probe";

        fn columns(_: Names) -> &'static [Column<Probe>] {
            const ALL: &[Column<Probe>] = &[
                Column::new("text", Kind::Text, |row| known(row, 0, "\u{9b}e\u{301}\n".into())),
                Column::new("is", Kind::Bool, |row| known(row, 1, (row.record.0 > 99).into())),
                Column::new("seen_ns", Kind::Time, |row| known(row, 2, row.record.0.into())),
                Column::new("count", Kind::Count, |row| known(row, 3, u64::MAX.into())),
                Column::new("port", Kind::Port, |row| known(row, 4, u16::MAX.into())),
                Column::new("src", Kind::Address, |row| known(row, 5, "2001:db8::1".into())),
                Column::new("list", Kind::List, |row| {
                    known(row, 6, json!(["a", 5, {"b": row.record.0}]))
                }),
                Column::new("interface", Kind::Text, |row| row.interface()),
            ];
            ALL
        }
    }

    #[test]
    fn a_record_and_its_json_are_the_same_row() {
        let mut random = Random::new(5);
        let columns = Arc::new(Columns::of::<Probe>());
        let (mut direct, mut by_json) = (Rows::new(columns.clone()), Rows::new(columns.clone()));
        let mut lines = LineWriter::new(LineFormat::Json, NAMES);
        for round in 0..500 {
            let probe = Probe(random.next_u64() >> random.below(64));
            let row = Row { record: &probe, interface: if round % 2 == 0 { "eth1" } else { "" } };
            direct.put(&row).unwrap();
            let mut line = Vec::new();
            lines.write(&row, &mut line).unwrap();
            let fields: Map<String, Value> = serde_json::from_slice(&line).unwrap();
            let stamp_ns = columns.key().and_then(|key| fields.get(key)).and_then(Value::as_u64);
            by_json.put_object(&fields, stamp_ns).unwrap();
        }
        assert_eq!(direct.len(), 500);
        assert_eq!(direct.finish().unwrap(), by_json.finish().unwrap());
        assert!(direct.is_empty());
    }

    #[test]
    fn a_record_of_another_kind_is_refused() {
        let mut rows = Rows::new(Arc::new(Columns::of::<Probe>()));
        let fields = json!({ "port": 65_536 });
        let wrong = rows.put_object(fields.as_object().unwrap(), None).unwrap_err();
        assert!(wrong.to_string().contains("port is of another type"), "{wrong}");
    }
}
