//! What the owner of a capture ring sends to a process that attaches to it.
//!
//! The owner sends one line of JSON, a [`Hello`], over a Unix stream socket, and the ring's memfd
//! with its first byte (SCM_RIGHTS). Nothing else crosses the socket: the reader only keeps it
//! open, so that the owner can count its readers and a reader sees the owner end.
//! `docs/formats/share.md` describes it for other languages.

use crate::{InterfaceId, QueueId, SourceInterface};
use serde::{Deserialize, Serialize};

/// Version of the hello and of the memory that comes with it.
pub const SHARE_VERSION: u32 = 1;

/// Longest hello in bytes: thousands of interfaces with filters. A reader gives up beyond it.
pub const HELLO_BYTES_MAX: usize = 4 << 20;

/// Readers of one ring. Each costs the owner a descriptor and nothing per frame; the limit keeps a
/// client that connects in a loop from using up descriptors.
pub const ATTACHED_MAX: usize = 256;

/// The owner's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`SHARE_VERSION`]; a reader refuses another.
    pub version: u32,
    /// Program and version of the owner, as `Ringside 0.1.0`.
    pub owner: String,
    /// Process id of the owner, for messages.
    pub pid: u32,
    /// Interfaces of the run, by interface id.
    pub interfaces: Vec<SourceInterface>,
    /// The lanes of the ring, in order.
    pub lanes: Vec<HelloLane>,
    /// How long the owner's backend may hold frames back, in nanoseconds.
    pub block_timeout_ns: u64,
}

/// One lane of the ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelloLane {
    /// Name of its interface.
    pub interface: String,
    /// The interface's id in the run.
    pub interface_id: InterfaceId,
    /// Receive queue or fanout member.
    pub queue: QueueId,
}
