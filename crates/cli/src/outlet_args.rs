//! Servers that take records: options, and the outlets that they stand for.

use crate::store_args::StoreArgs;
use anyhow::ensure;
use clap::Args;
use ringside_keeper::privileges;
use ringside_outlet::{
    Address, Begin, Options, Outlet, OutletError, Place, SPOOL_BYTES_MIN, SpoolOptions, read_user,
};
use ringside_record::Record;
use ringside_report::outputs::Outputs;
use ringside_terminal::{say, units};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// Where else records go.
#[derive(Args)]
pub struct OutletArgs {
    /// Send records to a server too: clickhouse://HOST:PORT/DATABASE/TABLE,
    /// kafka://HOST:PORT/TOPIC, otlp://HOST:PORT/PATH or s3://HOST:PORT/BUCKET/PREFIX, with TLS
    /// clickhouse+https://, kafka+tls://, otlp+https://, s3+https://. Several times for several.
    /// Without a port it is 8123 (with TLS 8443), 9092 (9093), 4318, or 80 (443), without a table
    /// or topic the subcommand's name, without a path /v1/logs.
    #[arg(long, value_name = "SERVER")]
    outlet: Vec<Address>,

    /// Trust these authorities with servers with TLS, and no others: a PEM file of certificates
    /// [default: those of the system].
    #[arg(long, value_name = "FILE", requires = "outlet")]
    outlet_ca: Option<PathBuf>,

    /// Take the user's name and password from a file, a line USER:PASSWORD that others cannot read;
    /// for each --outlet without them. A command line can be read by every user.
    #[arg(long, value_name = "FILE", requires = "outlet")]
    outlet_user_file: Option<PathBuf>,

    /// Keep records in a directory until the server has acknowledged them, also over the end of the
    /// run: the next one delivers what is left. Else they wait in memory.
    #[arg(long, value_name = "DIR", requires = "outlet")]
    outlet_spool: Option<PathBuf>,

    /// Most bytes of the spool, for each server. When it is full the oldest records are lost.
    #[arg(long, value_name = "SIZE", value_parser = units::file_bytes, default_value = "1GiB")]
    #[arg(requires = "outlet_spool")]
    outlet_spool_max: u64,

    /// Create a table that is missing (ClickHouse).
    #[arg(long, requires = "outlet")]
    outlet_create: bool,

    /// Print the statement that creates the table (ClickHouse), and end.
    #[arg(long, requires = "outlet", group = "needs_no_origin")]
    outlet_ddl: bool,

    #[command(flatten)]
    store: StoreArgs,
}

impl OutletArgs {
    /// Refuses what does not go together, for records that are called `kind`.
    pub fn check(&self, kind: &str) -> anyhow::Result<()> {
        let names = self.outlet.iter().map(|address| address.for_records(kind).to_string());
        let names: BTreeSet<_> = names.collect();
        ensure!(names.len() == self.outlet.len(), "--outlet names a server twice");
        let all = |is_so: fn(&Address) -> bool| self.outlet.iter().all(is_so);
        ensure!(
            self.outlet_ca.is_none() || !all(|address| !address.is_encrypted),
            "--outlet-ca is for servers with TLS: clickhouse+https://, kafka+tls://, \
             otlp+https://, s3+https://"
        );
        ensure!(
            self.outlet_user_file.is_none() || !all(|address| address.user.is_some()),
            "--outlet-user-file is for an --outlet without a user of its own"
        );
        let (bytes, least) = (self.outlet_spool_max, SPOOL_BYTES_MIN);
        ensure!(bytes >= least, OutletError::SpoolBytes { bytes, least });
        Ok(())
    }

    /// Prints what creates the tables of records `R`, which are called `kind`, if that is what was
    /// asked for; true if so.
    pub fn print_tables<R: Record>(&self, kind: &str) -> anyhow::Result<bool> {
        if !self.outlet_ddl {
            return Ok(false);
        }
        let tables: Vec<_> =
            self.outlet.iter().filter_map(|address| address.create_table::<R>(kind)).collect();
        ensure!(
            !tables.is_empty(),
            "--outlet-ddl is for clickhouse://: no other server has tables"
        );
        for table in tables {
            say::data(format_args!("{table};"))?;
        }
        Ok(true)
    }

    /// The outlets with their names; of records that are read from files (`is_stored`), or come as
    /// they do. `outputs` says how they fare.
    pub fn open<R: Record>(
        &self,
        kind: &str,
        is_stored: bool,
        outputs: &mut Outputs,
    ) -> anyhow::Result<Vec<(String, Outlet)>> {
        let spool = self.outlet_spool.as_ref().map(|folder| SpoolOptions {
            folder: folder.clone(),
            bytes_max: self.outlet_spool_max,
        });
        let options = |usual: Options, address: &Address| Options {
            spool: spool.clone(),
            waits_for_room: is_stored,
            creates_table: self.outlet_create,
            authorities: self.outlet_ca.clone(),
            begin: if is_stored { Begin::default() } else { self.give_up_first(address) },
            ..usual
        };
        let user = self.outlet_user_file.as_deref().map(read_user).transpose()?;
        let open = |address: &Address| {
            let mut address = address.clone();
            address.user = address.user.or_else(|| user.clone());
            let usual = match address.place {
                Place::S3 { .. } => Options::of_objects(),
                Place::ClickHouse { .. } | Place::Kafka { .. } | Place::Otlp { .. } => {
                    Options::default()
                }
            };
            let has_mechanism = matches!(address.place, Place::Kafka { mechanism: Some(_), .. });
            ensure!(
                !has_mechanism || address.user.is_some(),
                "?sasl= is for an --outlet with a user"
            );
            let outlet = Outlet::open::<R>(&address, kind, &options(usual, &address))?;
            outputs.add_server(outlet.watch());
            Ok((address.for_records(kind).to_string(), outlet))
        };
        let mut outlets = self.outlet.iter().map(open).collect::<anyhow::Result<Vec<_>>>()?;
        outlets.extend(self.store.open::<R>(kind, is_stored, outputs)?);
        Ok(outlets)
    }

    /// The threads of live runs are there before the run gives up its rights: those of an outlet
    /// reach the spool and its server.
    fn give_up_first(&self, address: &Address) -> Begin {
        let spool: Vec<_> = self.outlet_spool.iter().cloned().collect();
        let ports = address.port().map(|port| [port]);
        Begin(Arc::new(move || {
            privileges::confine_sender(&spool, ports.as_ref().map(|port| &port[..]))
        }))
    }
}
