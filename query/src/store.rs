//! What is in a store: a table for each kind of records.

use anyhow::Context;
use datafusion::arrow::datatypes::DataType;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::prelude::SessionContext;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ENDING: &str = ".parquet";

/// Makes the kinds of records of a store tables; their names, in order.
///
/// # Errors
/// The store cannot be read, or a file of it is none.
pub(crate) async fn register(
    context: &SessionContext,
    store: &Path,
) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for (name, path) in folders(store)? {
        let Some(newest) = newest(&path)? else { continue };
        let table = table(context, &path, &newest).await;
        let table = table.with_context(|| format!("reading {}", newest.display()))?;
        context.register_table(name.as_str(), Arc::new(table))?;
        names.push(name);
    }
    Ok(names)
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

/// A file of the newest hour that has one.
fn newest(kind: &Path) -> anyhow::Result<Option<PathBuf>> {
    for (_, day) in folders(kind)?.into_iter().rev() {
        for (_, hour) in folders(&day)?.into_iter().rev() {
            let entries =
                fs::read_dir(&hour).with_context(|| format!("reading {}", hour.display()))?;
            let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
            let is_one = |path: &PathBuf| path.to_str().is_some_and(|text| text.ends_with(ENDING));
            if let Some(path) = paths.filter(is_one).max() {
                return Ok(Some(path));
            }
        }
    }
    Ok(None)
}
