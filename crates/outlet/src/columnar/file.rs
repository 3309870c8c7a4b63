//! The file of some records.

use super::hours::{Line, fields};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;
use ringside_arrow::{Columns, Rows, WrongRecord};
use ringside_record::{Kind, Record};
use std::sync::Arc;

/// Records that are turned into columns at a time.
const ROWS: usize = 8_192;

/// Most bytes of a filter by which a reader knows that an address is not in a file: of a file of
/// 100,000 records, all from other addresses, one in a hundred is read in vain.
const FILTER_ROWS_MAX: usize = 100_000;

/// Makes the files of a kind of records.
pub(super) struct Files {
    kind: String,
    columns: Arc<Columns>,
}

impl Files {
    pub fn of<R: Record>(kind: &str) -> Files {
        Files { kind: kind.to_owned(), columns: Arc::new(Columns::of::<R>()) }
    }

    /// The field that says when a record is of.
    pub fn key(&self) -> Option<&'static str> {
        self.columns.key()
    }

    /// The file of these records, which are in the order of time.
    ///
    /// # Errors
    /// A line is no record of this kind.
    pub fn file(&self, lines: &[Line<'_>]) -> Result<Vec<u8>, WrongRecord> {
        let wrong = |error: parquet::errors::ParquetError| WrongRecord(error.to_string());
        let properties = Some(self.properties(lines.len()).map_err(wrong)?);
        let schema = Arc::clone(self.columns.schema());
        let mut writer = ArrowWriter::try_new(Vec::new(), schema, properties).map_err(wrong)?;
        let mut rows = Rows::new(Arc::clone(&self.columns));
        for some in lines.chunks(ROWS) {
            for line in some {
                rows.put_object(&fields(line.json)?, line.stamp_ns)?;
            }
            writer.write(&rows.finish()?).map_err(wrong)?;
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
        for (path, _) in self.columns.all().iter().filter(|(_, kind)| *kind == Kind::Address) {
            let column = ColumnPath::from(*path);
            builder = builder
                .set_column_bloom_filter_enabled(column.clone(), true)
                .set_column_bloom_filter_max_ndv(column, rows.clamp(1, FILTER_ROWS_MAX) as u64);
        }
        Ok(builder.build())
    }
}
