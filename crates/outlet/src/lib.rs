#![forbid(unsafe_code)]
//! Records on their way into databases and log stores: a spool on disk, delivery with retries,
//! engines.
//!
//! - An [`Address`] names a server and a place there, as users write it:
//!   `clickhouse://HOST:PORT/DATABASE/TABLE`, `kafka://HOST:PORT/TOPIC`, `otlp://HOST:PORT/PATH`,
//!   `s3://HOST:PORT/BUCKET/PREFIX`, all of them also with TLS.
//! - An [`Outlet`] is a sink for one of them, for records of any kind: what a record is there
//!   follows from its definition ([`ringside_record`]). Batches go to the spool first, and from
//!   there to the server, in order, each by threads of their own, so that neither a slow disk nor a
//!   server that is away holds up who finds the records.
//! - An [`Engine`] is how one kind of server takes a batch. Files of Parquet on this machine
//!   ([`StoreOptions`]) are one, too.
//! - A [`Watch`] shows an outlet's [`Status`] while it runs.
//!
//! Every record is acknowledged by the server (`delivered`), waiting in memory, in the spool, or
//! lost by a named cause ([`SinkCounts`](ringside_flow::SinkCounts)). A batch that is in the spool
//! is delivered, by this run or a later one, unless the spool gets full: then the oldest go, but
//! not one that was tried, since the server may have it. When memory is full, the newest go.
//!
//! A try whose answer got lost is repeated. ClickHouse knows a batch again by its token, Kafka by
//! the producer's position, and an object takes its own place; OTLP has no such thing, and may have
//! it twice.

mod address;
mod batch;
mod clickhouse;
mod columnar;
mod courier;
mod desk;
mod engine;
mod error;
mod files;
mod http;
mod kafka;
mod options;
mod otlp;
mod outlet;
mod s3;
mod spool;
mod status;
mod store;
mod trust;
mod user;

pub use address::{Address, Place};
pub use batch::Batch;
pub use engine::{Engine, Outcome};
pub use error::OutletError;
pub use options::{Begin, Options, SpoolOptions};
pub use outlet::{Outlet, SPOOL_BYTES_MIN, Watch};
pub use ringside_kafka::Mechanism;
pub use status::{State, Status};
pub use store::StoreOptions;
pub use user::read_user;

#[cfg(test)]
mod probe;
#[cfg(test)]
mod tests;
