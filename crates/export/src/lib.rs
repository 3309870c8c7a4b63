#![forbid(unsafe_code)]
//! Flow messages on their way to collectors: by UDP, by TCP with a spool on disk, to files.
//!
//! - An [`Address`] names a collector, as users write it: `udp:HOST:PORT`, `tcp:HOST:PORT`,
//!   `file:PATH`.
//! - An [`Outlet`] is a sink for one collector. Its messages wait in a bounded queue for a thread
//!   of its own, so that a slow, silent or absent collector holds up neither the meter nor other
//!   collectors.
//! - A [`Watch`] shows an outlet's [`Status`] while it runs: where every record is, and what the
//!   last error was.
//!
//! Every record is delivered, waiting in memory, in the spool, or lost by a named cause
//! ([`SinkCounts`](ringside_flow::SinkCounts)). Delivered means: by UDP handed to the network, by
//! TCP acknowledged by the collector's host, of a file written. By TCP what was not acknowledged
//! when a connection broke is sent again, whole, on the next: a message may come twice, and none
//! gets lost.
//!
//! It refuses NetFlow v5 and v9 over TCP and in files, which have no such form: their messages do
//! not say how long they are.

mod address;
mod desk;
mod error;
mod file;
mod message;
mod options;
mod outlet;
mod spool;
mod status;
mod tcp;
mod udp;

pub use address::{Address, Host};
pub use error::ExportError;
pub use options::{Options, SpoolOptions};
pub use outlet::{Outlet, Watch};
pub use status::{State, Status};
