#![forbid(unsafe_code)]
//! HTTP/1 transactions out of TCP streams, and logs of them as web servers and proxies write.
//!
//! - [`HttpObserver`] sees every frame of a stream: it puts fragments and TCP streams together
//!   (crate `streams`), finds messages on whatever port, pairs requests with responses, and hands
//!   each [`Transaction`] to sinks once it is over. Every one says how it ended ([`Ending`]).
//! - [`Log`] writes them: in the Combined format, as Squid does, in W3C's extended format, as JSON,
//!   comma-separated values or Zeek's http.log.
//! - [`HttpMonitor`] is such an observer that others may ask meanwhile; [`HttpLedger`] says that no
//!   message and no transaction is missing.
//!
//! What authenticates (passwords, cookies, secrets in queries) is not kept unless that is asked
//! for. Bodies are counted, and never kept. Memory is bounded by [`Limits`]. There is no clock here
//! and no socket.

mod conversation;
mod files;
mod formats;
mod hide;
mod ledger;
mod limits;
mod log;
mod monitor;
mod names;
mod observer;
mod reader;
mod text;
mod tracker;
mod transaction;

pub use files::{LogFile, Rotation};
pub use ledger::{HttpLedger, LogCounts};
pub use limits::Limits;
pub use log::{Log, LogFormat, LogOutput};
pub use monitor::{HttpMonitor, HttpStatus, MonitorHandle};
pub use observer::{HttpObserver, Options, TransactionSink};
pub use transaction::{Ending, Request, Response, Transaction};
