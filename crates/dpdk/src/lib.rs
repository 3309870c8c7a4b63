#![deny(unsafe_op_in_unsafe_fn)]
//! DPDK, where it is installed, by a plug-in that is opened at run time.
//!
//! What DPDK inlines into its callers, and lays out anew with each release, is in the plug-in
//! (`plugin/`, C), which is built where DPDK's headers are. It has one table of functions over
//! whole bursts, with a version (`table.rs`); the binary depends on nothing of DPDK's.
//!
//! - [`Device`] says what the name of a device means;
//! - [`eal::start`] starts DPDK's environment, once in a process;
//! - [`attach`] takes a device, which is then opened with its receive [`Queue`]s and [`Sender`]s;
//!   the last of them that is dropped closes it.
//!
//! Which driver counts what, whose stamps mean what, and when a source has ended is the business of
//! `capture`; this crate decides nothing about frames.

mod attach;
pub mod device;
pub mod eal;
mod error;
mod log;
mod plugin;
mod port;
mod queue;
mod sender;
mod table;

pub use attach::{Attached, Opened, PortRequest, Properties, QUEUES_MAX, attach};
pub use device::{Device, PREFIX};
pub use error::DpdkError;
pub use plugin::{FILE_NAME, release};
pub use port::{Counters, Port};
pub use queue::{BURST_FRAMES, Queue, Received};
pub use sender::Sender;
