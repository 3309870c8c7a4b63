#![forbid(unsafe_code)]
//! Records as Arrow columns: what files of Parquet are written from, and what other languages get.
//!
//! [`Columns`] are the types and names of a kind of records, the same wherever it is a table: those
//! of `--json`, behind a column `time` of when the record is of. [`Rows`] are filled record by
//! record, and become a batch.

mod cells;
mod columns;
mod rows;

pub use columns::{Columns, NAMES, TIME, time_column};
pub use rows::{Rows, WrongRecord};
