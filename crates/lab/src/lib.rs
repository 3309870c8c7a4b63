#![forbid(unsafe_code)]
//! A private test network: two namespaces and one veth pair, made for a run and removed after it.
//!
//! ```text
//! namespace ringside-NAME-a          namespace ringside-NAME-b
//!   tx0  10.99.0.1/24  ───────────────  rx0  10.99.0.2/24
//! ```
//!
//! The wire is silent until a program sends: no IPv6, and neighbours are known beforehand, so that
//! no host asks by ARP. Frames arrive as they were sent: no segmentation, no merging, no checksums
//! left to hardware that does not exist. An XDP program that passes everything sits on `rx0`, so
//! that it has a NAPI and live frames arrive ([`ringside_transmit`]).
//!
//! More pairs can be had between the same namespaces (`tx1`, `rx1`, …), as several single queues.
//!
//! [`Lab`] removes the network when it is dropped. A process that is killed leaves it behind; its
//! state file in /run/ringside-lab names the process, and the process that makes the next network,
//! of any name, removes what dead processes left ([`Lab::up`]). [`Lab::keep`] makes a network that
//! stays until [`down`].
//!
//! This crate refuses to touch what it did not make: a namespace is entered or deleted only if the
//! state file names it and its inode is the one that was noted at its creation.

mod config;
mod error;
mod napi;
mod network;
mod state;
mod tools;

pub use config::{LabConfig, MTU_MAX, MTU_MIN, Napi, PAIRS_MAX, QUEUES_MAX};
pub use error::Error;
pub use network::{Lab, LabStatus, down, list, status};

/// The interface that sends, of the first pair.
pub const SENDER_INTERFACE: &str = "tx0";

/// The interface that receives, of the first pair.
pub const RECEIVER_INTERFACE: &str = "rx0";

/// IPv4 address of the sender, without prefix length.
pub const SENDER_ADDRESS: &str = "10.99.0.1";

/// IPv4 address of the receiver, without prefix length.
pub const RECEIVER_ADDRESS: &str = "10.99.0.2";
