#![forbid(unsafe_code)]
//! HTTP/1 transactions out of TCP streams, and logs of them as web servers and proxies write.
//!
//! - [`HttpObserver`] sees every frame of a stream: it puts fragments and TCP streams together
//!   (crate `streams`), finds messages on whatever port, pairs requests with responses, and hands
//!   each [`Transaction`] to sinks once it is over. Every one says how it ended ([`Ending`]).
//! - [`HttpLines`] makes lines of them, for a log (crate `logs`): in the Combined format, as Squid
//!   does, in W3C's extended format, as JSON, comma-separated values or Zeek's http.log.
//! - [`HttpStatus`] is what others may ask meanwhile; [`HttpLedger`] says that no message and no
//!   transaction is missing.
//!
//! What authenticates (passwords, cookies, secrets in queries) is not kept unless that is asked
//! for. Bodies are counted, and never kept. Memory is bounded by [`Limits`]. There is no clock here
//! and no socket.

mod conversation;
mod formats;
mod hide;
mod ledger;
mod limits;
mod lines;
mod names;
mod observer;
mod reader;
mod status;
mod text;
mod tracker;
mod transaction;

pub use ledger::HttpLedger;
pub use limits::Limits;
pub use lines::{HttpLines, LogFormat};
pub use observer::{HttpObserver, Options};
pub use status::HttpStatus;
pub use transaction::{Ending, Request, Response, Transaction};
