//! What is in a store: a table for each kind of records.

use anyhow::Context;
use chrono::DateTime;
use datafusion::arrow::datatypes::DataType;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::prelude::SessionContext;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const ENDING: &str = ".parquet";

const DAY: Duration = Duration::from_hours(24);

/// The tables of a store.
pub(crate) struct Tables {
    /// In order.
    pub names: Vec<String>,
    /// Folders that could not be read, with the reason.
    pub passed_by: Vec<String>,
}

/// Makes the kinds of records of a store tables.
///
/// # Errors
/// The store cannot be read, or a file of it is none.
pub(crate) async fn register(context: &SessionContext, store: &Path) -> anyhow::Result<Tables> {
    let (mut names, mut passed_by) = (Vec::new(), Vec::new());
    for (name, path) in folders(store)? {
        let newest = match newest(&path) {
            Ok(Some(newest)) => newest,
            Ok(None) => continue,
            Err(error) => {
                // A disk of its own has `lost+found`; and what is a link leads out of the store.
                passed_by.push(format!("{error:#}"));
                continue;
            }
        };
        let table = table(context, &path, &newest).await;
        let table = table.with_context(|| format!("reading {}", newest.display()))?;
        context.register_table(name.as_str(), Arc::new(table))?;
        names.push(name);
    }
    Ok(Tables { names, passed_by })
}

/// A table of the files below a folder, with the columns of the newest: older versions had fewer,
/// which are null there.
async fn table(
    context: &SessionContext,
    folder: &Path,
    newest: &Path,
) -> anyhow::Result<ListingTable> {
    let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
        .with_file_extension(ENDING)
        .with_table_partition_cols(vec![
            ("date".to_owned(), DataType::Utf8),
            ("hour".to_owned(), DataType::Utf8),
        ]);
    let newest = ListingTableUrl::parse(path_text(newest)?)?;
    let schema = options.infer_schema(&context.state(), &newest).await?;
    let all = ListingTableUrl::parse(format!("{}/", path_text(folder)?))?;
    let config = ListingTableConfig::new(all).with_listing_options(options).with_schema(schema);
    Ok(ListingTable::try_new(config)?)
}

fn path_text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().with_context(|| format!("{} is no text", path.display()))
}

/// Folders in a folder, by their names, in order.
fn folders(path: &Path) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let entries = fs::read_dir(path).with_context(|| format!("reading {}", path.display()))?;
    let mut found: Vec<_> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .collect();
    found.sort();
    Ok(found)
}

/// The file that was written last of the newest hour by this machine's clock: stamps of packets may
/// lie in any future.
fn newest(kind: &Path) -> anyhow::Result<Option<PathBuf>> {
    let tomorrow = SystemTime::now() + DAY;
    let since = tomorrow.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let last = DateTime::from_timestamp(i64::try_from(since.as_secs()).unwrap_or_default(), 0);
    let last = last.map(|time| time.format("date=%Y-%m-%d").to_string()).unwrap_or_default();
    let (mut days, mut others): (Vec<_>, Vec<_>) = folders(kind)?
        .into_iter()
        .partition(|(name, _)| name.starts_with("date=") && *name <= last);
    // What has no time, or is of the future, is looked at where nothing else is.
    others.append(&mut days);
    for (_, day) in others.into_iter().rev() {
        for (_, hour) in folders(&day)?.into_iter().rev() {
            let entries =
                fs::read_dir(&hour).with_context(|| format!("reading {}", hour.display()))?;
            let ours = entries.filter_map(Result::ok).filter(|entry| is_ours(&entry.file_name()));
            let written = |entry: &fs::DirEntry| entry.metadata().and_then(|it| it.modified()).ok();
            if let Some(entry) = ours.max_by_key(written) {
                return Ok(Some(entry.path()));
            }
        }
    }
    Ok(None)
}

/// Files that a store has made, by their names: the run, and the number of the batch.
fn is_ours(name: &OsStr) -> bool {
    let name = name.to_str().and_then(|name| name.strip_suffix(ENDING));
    let Some((run, number)) = name.and_then(|name| name.split_once('-')) else { return false };
    run.len() == 32
        && run.bytes().all(|byte| byte.is_ascii_hexdigit())
        && number.bytes().all(|byte| byte.is_ascii_digit())
}
