//! A sink for one server.

use crate::address::{Address, Place, table_name};
use crate::batch::random_run;
use crate::clickhouse::{self, ClickHouse};
use crate::columnar::Columnar;
use crate::courier::{Courier, spool_all};
use crate::desk::{AtWork, Desk};
use crate::engine::Engine;
use crate::error::OutletError;
use crate::files::Folder;
use crate::http::Client;
use crate::kafka::Kafka;
use crate::options::{Options, SpoolOptions};
use crate::otlp::{self, Otlp};
use crate::s3::{S3, Target};
use crate::spool::Spool;
use crate::status::Status;
use crate::store::{Store, StoreOptions};
use crate::trust;
use ringside_arrow::NAMES;
use ringside_core::Timestamp;
use ringside_flow::{RecordSums, SinkCounts};
use ringside_kafka::{Library, Settings};
use ringside_logs::{LogCounts, Logged};
use ringside_record::{LineFormat, LineWriter, Record, Row};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Least size of a spool, in bytes: some batches.
pub const SPOOL_BYTES_MIN: u64 = 16 << 20;

/// Hands records to one server, in batches. A call never waits for the network or a disk, unless it
/// is asked to ([`Options::waits_for_room`]); the end waits for delivery, for a bounded time.
/// Dropped without that, it only has its spool take what is in memory, within a second.
pub struct Outlet {
    desk: Arc<Desk>,
    shape: Shape,
    /// One record.
    record: Vec<u8>,
}

/// How a record is part of a batch.
enum Shape {
    /// A line of JSON.
    Lines(LineWriter),
    /// A log record of OTLP, of this kind of records.
    LogRecord(String),
}

/// Shows the status of an outlet, also from other threads and after the outlet is gone.
#[derive(Clone)]
pub struct Watch(Arc<Desk>);

impl Watch {
    /// The status now.
    pub fn status(&self) -> Status {
        self.0.status()
    }
}

impl Outlet {
    /// An outlet for records `R`, which are called `kind`: `flows`, `dns`. The server is looked for
    /// when the first batch is delivered; it may still be away.
    ///
    /// # Errors
    /// The spool cannot be used, or another process uses it; a thread cannot be started; there are
    /// no certificates by which a server with TLS would be known, or no client of Kafka.
    pub fn open<R: Record>(
        address: &Address,
        kind: &str,
        options: &Options,
    ) -> Result<Outlet, OutletError> {
        let address = address.for_records(kind);
        let authorities = options.authorities.as_deref();
        let client = || -> Result<Client, OutletError> {
            let tls = address.is_encrypted.then(|| trust::config(authorities));
            Ok(Client::new(address.user.as_ref(), tls.transpose()?))
        };
        let (engine, shape): (Box<dyn Engine>, Shape) = match &address.place {
            Place::ClickHouse { database, table } => {
                let table = table_name(database, table.as_deref(), kind);
                let create = options.creates_table.then(|| clickhouse::create_table::<R>(&table));
                let engine = ClickHouse::new(client()?, &address.origin(), &table, create);
                (Box::new(engine), Shape::Lines(lines()))
            }
            Place::Kafka { topic, mechanism } => {
                let failed = |source| OutletError::Kafka { outlet: address.to_string(), source };
                let library = Library::find().map_err(failed)?;
                let settings = Settings {
                    brokers: address.host.clone(),
                    topic: topic.clone().unwrap_or_else(|| kind.to_owned()),
                    authorities: address
                        .is_encrypted
                        .then(|| trust::pem(authorities))
                        .transpose()?,
                    user: address.user.clone(),
                    mechanism: mechanism.unwrap_or_default(),
                    ..Settings::default()
                };
                (Box::new(Kafka::new(library, settings)), Shape::Lines(lines()))
            }
            Place::Otlp { path } => {
                let engine = Otlp::new(client()?, &address.origin(), path);
                (Box::new(engine), Shape::LogRecord(kind.to_owned()))
            }
            Place::S3 { path, region } => {
                let (origin, key) = (&address.origin(), address.user.as_ref());
                let target = Target { origin, path, region: region.as_deref(), key };
                let engine = S3::new(client()?, Columnar::of::<R>(kind), &target, kind);
                (Box::new(engine), Shape::Lines(lines()))
            }
        };
        Outlet::start(address.to_string(), &address.folder(kind), options, engine, shape)
    }

    /// An outlet into a store on this machine, which needs no spool: a batch is on the disk at
    /// once.
    ///
    /// # Errors
    /// The store's folder cannot be used; a thread cannot be started.
    pub fn into_store<R: Record>(
        store: &StoreOptions,
        kind: &str,
        options: &Options,
    ) -> Result<Outlet, OutletError> {
        let engine = Box::new(Store::open::<R>(store, kind)?);
        let options = Options { spool: None, ..options.clone() };
        Outlet::start(store.name(kind), "", &options, engine, Shape::Lines(lines()))
    }

    /// With this name, and a spool in a folder `spool`.
    fn start(
        name: String,
        spool: &str,
        options: &Options,
        engine: Box<dyn Engine>,
        shape: Shape,
    ) -> Result<Outlet, OutletError> {
        let open = |options: &SpoolOptions| open_spool(options, spool);
        let spool = options.spool.as_ref().map(open).transpose()?;
        let desk = start(name, options, spool, engine)?;
        Ok(Outlet { desk, shape, record: Vec::new() })
    }

    /// Shows its status, from any thread.
    pub fn watch(&self) -> Watch {
        Watch(Arc::clone(&self.desk))
    }

    pub(crate) fn take<R: Record>(&mut self, row: &Row<'_, R>, held: RecordSums) {
        self.record.clear();
        match &mut self.shape {
            Shape::Lines(lines) => {
                if lines.write(row, &mut self.record).is_err() {
                    self.desk.inexpressible(held);
                    return;
                }
            }
            Shape::LogRecord(kind) => otlp::encode(row, kind, &mut self.record),
        }
        self.desk.put(&self.record, held);
    }

    fn close(&self) {
        self.desk.close(self.desk.options().finish);
    }
}

/// Lines with the names that tables and files have.
fn lines() -> LineWriter {
    LineWriter::new(LineFormat::Json, NAMES)
}

fn open_spool(options: &SpoolOptions, name: &str) -> Result<Spool, OutletError> {
    let (bytes, least) = (options.bytes_max, SPOOL_BYTES_MIN);
    if bytes < least {
        return Err(OutletError::SpoolBytes { bytes, least });
    }
    let path = options.folder.join(name);
    let folder = Folder::open(&path)?;
    Spool::open(Box::new(folder), bytes).map_err(|source| OutletError::File {
        action: "reading",
        path,
        source,
    })
}

/// Starts the threads. They are not joined: their end is waited for at the desk, for a bounded
/// time.
pub(crate) fn start(
    outlet: String,
    options: &Options,
    spool: Option<Spool>,
    engine: Box<dyn Engine>,
) -> Result<Arc<Desk>, OutletError> {
    let mut status = Status { outlet: outlet.clone(), ..Status::default() };
    if let Some(spool) = &spool {
        let found = spool.found();
        // What an earlier run left is on the account of this one.
        (status.counts.inherited, status.counts.spooled) = (found.held, found.held);
        (status.half_written, status.damaged) = (found.half_written, found.damaged);
        status.spool_bytes = spool.bytes();
    }
    let desk = Arc::new(Desk::new(random_run(), status, options.clone()));
    let spool = spool.map(|spool| Arc::new(Mutex::new(spool)));
    let run = |work: Box<dyn FnOnce() + Send>| {
        let (at_work, begin) = (desk.at_work(), options.begin.clone());
        let started = thread::Builder::new().name("outlet".into()).spawn(move || {
            let _at_work: AtWork = at_work;
            (begin.0)();
            work();
        });
        let failed = |source| OutletError::Thread { outlet: outlet.clone(), source };
        started.map(drop).map_err(failed)
    };
    if let Some(spool) = spool.clone() {
        let desk = Arc::clone(&desk);
        run(Box::new(move || spool_all(&desk, &spool)))?;
    }
    let courier = Courier { desk: Arc::clone(&desk), engine, spool };
    run(Box::new(move || courier.run()))?;
    Ok(desk)
}

impl<R: Logged> ringside_logs::RecordSink<R> for Outlet {
    fn put(&mut self, record: &R, interface: &str) {
        let held = RecordSums { records: 1, ..RecordSums::default() };
        self.take(&Row { record, interface }, held);
    }

    fn finish(&mut self) {
        self.close();
    }

    fn counts(&self) -> LogCounts {
        let counts = self.desk.status().counts;
        LogCounts {
            delivered: counts.delivered.records,
            waiting: counts.waiting.records,
            inexpressible: counts.inexpressible.records,
            write_failed: counts.write_failed.records,
            spooled: counts.spooled.records,
            queue_full: counts.queue_full.records,
            spool_full: counts.spool_full.records,
            refused: counts.refused.records,
            undelivered: counts.undelivered.records,
            inherited: counts.inherited.records,
        }
    }
}

impl ringside_flow::RecordSink for Outlet {
    fn put(&mut self, record: &ringside_flow::Record, interface: &str, _now: Timestamp) {
        let mut held = RecordSums::default();
        held.add(record);
        self.take(&Row { record, interface }, held);
    }

    fn finish(&mut self, _now: Timestamp) {
        self.close();
    }

    fn counts(&self) -> SinkCounts {
        self.desk.status().counts
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.desk.close(Duration::ZERO);
    }
}
