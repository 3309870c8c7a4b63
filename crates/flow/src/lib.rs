#![forbid(unsafe_code)]
//! Flows: packets added up by conversation, exactly, and their records for others.
//!
//! - [`PacketReader`] makes of a dissected frame what flows need of it, a [`Packet`].
//! - [`FlowTable`] adds packets up. Its memory is bounded and taken at the start, its time is that
//!   of the packets, and every record says why it ended ([`EndReason`]). A full table gives up one
//!   flow for each that comes, never all.
//! - [`Record`] is the one definition of what is known of a flow. JSON lines, CSV and five schemes
//!   of names come from it (crate `record`), and NetFlow v5, v9 and IPFIX ([`encode`]).
//! - [`FlowObserver`] drives a table and [`RecordSink`]s from any stream of frames.
//! - [`FlowMonitor`] is such an observer that others may ask meanwhile, also for the largest
//!   [`Groups`] of flows.
//! - [`FlowLedger`] says that no packet and no octet is missing: received = exported + in the
//!   table + what no flow is made of, by cause.
//!
//! There is no clock here and no socket: time is an argument, and messages go to a [`MessageSink`].
//! It refuses to sample, and to guess what it did not see: what is unknown is absent.

pub mod encode;
pub mod groups;
pub mod ledger;
pub mod lines;
pub mod monitor;
mod names;
pub mod observer;
pub mod packet;
pub mod record;
pub mod sink;
pub mod status;
pub mod table;

pub use encode::{Collector, Format, MessageSink};
pub use groups::{Field, Group, GroupSums, Groups, GroupsSink, Rank, Top};
pub use ledger::{FlowLedger, NoFlow, Sums};
pub use lines::Lines;
pub use monitor::{FlowMonitor, MonitorHandle, TopOptions};
pub use observer::FlowObserver;
pub use packet::{Packet, PacketReader, Segment};
pub use record::{Application, EndReason, Record, Side};
pub use ringside_inspect::key::{self, Key};
pub use ringside_record::{LineFormat, Names};
pub use sink::{RecordSink, RecordSums, SinkCounts};
pub use status::FlowStatus;
pub use table::{Counted, FlowError, FlowTable, Limits};
