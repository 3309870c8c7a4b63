#![forbid(unsafe_code)]
//! Flows of an interface, added up in the kernel: a [`Meter`] puts the flow cache of `ebpf` on the
//! interface, reads it, and gives what is new to a [`FlowTable`](ringside_flow::FlowTable), which
//! makes records as it does without the cache.
//!
//! **What is exact.** The program in the kernel only adds, and lets every frame go on; user space
//! takes nothing out, but reads sums and has the differences. So packets and octets are, at any
//! time, in the cache, in what was handed up, in the table, or counted as lost by their cause:
//! [`Ledger`]. Before an entry goes its sums are handed up, and frames that the program cannot read
//! (fragments, tunnels, …) are handed up themselves, for the same reader of packets that a table
//! without the cache has.
//!
//! **What is coarser.** Time-outs see packets when they are read: a record of the active time-out
//! may hold those of one more reading. What needs a look at each segment of TCP is unknown
//! ([`Record::is_followed`](ringside_flow::Record::is_followed)).
//!
//! **What it costs.** A reading looks at the versions of all entries, 8 bytes of each, and reads
//! those that changed.
//!
//! **A process that dies** leaves the cache to one that has its descriptors
//! ([`Meter::descriptors`], [`Meter::take_over`]). That goes on where the other had stopped to
//! read; what the other had read and not exported is lost with it, and the ledger says how much.

mod entries;
mod error;
mod frames;
mod ledger;
mod meter;
mod meters;
mod ring;
mod taken;

pub use error::MeterError;
pub use ledger::{InterfaceSums, Ledger, Status};
pub use meter::{Meter, Options};
pub use meters::Meters;
pub use ringside_ebpf::flows::{FlowLayout, Hook};
