//! A store of records on this machine: options, and the outlet that they stand for.

use anyhow::ensure;
use clap::Args;
use ringside_keeper::privileges;
use ringside_outlet::{Begin, Options, Outlet, StoreOptions};
use ringside_record::Record;
use ringside_report::outputs::Outputs;
use ringside_terminal::units;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Where records are kept.
#[derive(Args)]
pub struct StoreArgs {
    /// Keep the records as files of Parquet too, in DIR/SUBCOMMAND by day and hour: what `ringside
    /// query`, DuckDB, ClickHouse, Spark, polars and pandas read.
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,

    /// Most bytes of the records of this subcommand there. When they are more, what was written
    /// first is deleted.
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, requires = "store")]
    store_limit: Option<u64>,

    /// Delete what was written so long ago.
    #[arg(long, value_name = "DURATION", value_parser = units::duration, requires = "store")]
    store_for: Option<Duration>,

    /// Write a file as often as this: records are in memory until then.
    #[arg(long, value_name = "DURATION", value_parser = units::duration, default_value = "60s")]
    #[arg(requires = "store")]
    store_every: Duration,
}

impl StoreArgs {
    /// The outlet with its name, if there is a store: of records that are read from files
    /// (`is_stored`), or come as they do. `outputs` says how it fares.
    pub fn open<R: Record>(
        &self,
        kind: &str,
        is_stored: bool,
        outputs: &mut Outputs,
    ) -> anyhow::Result<Option<(String, Outlet)>> {
        let Some(directory) = &self.store else { return Ok(None) };
        if !is_stored {
            check_owner(&directory.join(kind))?;
        }
        let store = StoreOptions {
            directory: directory.clone(),
            bytes_max: self.store_limit,
            age_max: self.store_for,
        };
        let options = Options {
            batch_age: self.store_every,
            waits_for_room: is_stored,
            begin: if is_stored { Begin::default() } else { give_up_first(directory.clone()) },
            ..Options::of_store()
        };
        let outlet = Outlet::into_store::<R>(&store, kind, &options)?;
        let watch = outlet.watch();
        let name = watch.status().outlet;
        outputs.add_server(watch);
        Ok(Some((name, outlet)))
    }
}

/// The threads of live runs are there before the run gives up its rights.
fn give_up_first(directory: PathBuf) -> Begin {
    Begin(Arc::new(move || privileges::confine_sender(std::slice::from_ref(&directory), Some(&[]))))
}

/// Refuses a live run of root's a folder that only another user writes: the thread that writes
/// there has given up root's rights. Whether others may write is asked when it is opened.
fn check_owner(folder: &Path) -> anyhow::Result<()> {
    let Ok(found) = std::fs::metadata(folder) else { return Ok(()) };
    let own = rustix::process::geteuid().as_raw();
    let of_group = found.gid() == rustix::process::getegid().as_raw();
    let is_writable =
        found.uid() == own || found.mode() & 0o002 != 0 || of_group && found.mode() & 0o020 != 0;
    ensure!(
        own != 0 || is_writable,
        "--store: {} belongs to user {}, and this run writes as user {own}: chown it, or name \
         another store",
        folder.display(),
        found.uid()
    );
    Ok(())
}
