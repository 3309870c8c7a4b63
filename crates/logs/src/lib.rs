#![forbid(unsafe_code)]
//! What observers share that write a line for each record.
//!
//! - [`Log`] makes a line of each record, in a [`Format`], and says where every record went
//!   ([`LogCounts`]). [`RecordFormat`] are the formats of records that no other program has a
//!   format of its own for; [`LogFile`] is a file that is put aside when it is long enough.
//! - [`Sinks`] are all logs of an observer.
//! - [`Monitor`] drives an observer, and answers from another thread what it has found so far.
//!
//! This crate knows no protocol, and there is no clock here: time is that of the packets.

mod counts;
mod files;
mod lines;
mod log;
mod monitor;
mod sinks;

pub use counts::{LogCounts, LogStatus, ended_json, logs_json, object};
pub use files::{LogFile, Rotation};
pub use lines::{RecordFormat, RecordLines};
pub use log::{Format, Log, LogOutput, Logged, RecordSink};
pub use monitor::{Monitor, MonitorHandle, Status, Watched};
pub use sinks::Sinks;
