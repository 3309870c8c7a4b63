#![forbid(unsafe_code)]
//! The nouns of Ringside, without any I/O.
//!
//! A [`Source`] lends [`Batch`]es of [`Frame`]s that stay in the backend's memory; a [`Sink`] has
//! frames written where they are sent from; a [`Ledger`] accounts for every frame of a run;
//! [`Timestamp`] is nanoseconds of UTC. Everything above this crate speaks in these terms, so they
//! are defined once, here, as contracts.
//!
//! This crate refuses to open, read or write anything, and it allocates nothing per frame.

pub mod batch;
pub mod bpf;
pub mod frame;
pub mod ids;
pub mod ledger;
pub mod limits;
pub mod link;
mod padded;
pub mod profile;
pub mod recent;
pub mod share;
pub mod shown;
mod similar;
pub mod sink;
pub mod source;
pub mod time;

pub use batch::{Batch, BatchOwner, FrameSlot};
pub use frame::{Direction, Frame, FrameMeta, OwnedFrame, VlanTag};
pub use ids::{FrameNumber, InterfaceId, LaneId, QueueId};
pub use ledger::{Cause, Consumer, Imbalance, LaneCounters, Ledger};
pub use link::LinkType;
pub use padded::Padded;
pub use profile::Profile;
pub use recent::RecentTable;
pub use shown::Shown;
pub use similar::similar_names;
pub use sink::{
    ChainFeatures, ChecksumRequest, Handed, Refusal, Sink, SinkCounters, SinkError, SinkFeatures,
};
pub use source::{Source, SourceCounters, SourceError, SourceInterface, UnknownInterface};
pub use time::{Stamps, TimeRange, Timestamp, TimestampKind};
