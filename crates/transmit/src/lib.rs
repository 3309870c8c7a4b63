#![forbid(unsafe_code)]
//! Sending frames: a generator of numbered frames, and the replay of captures, exact about what
//! they handed over.
//!
//! - [`Job`] says what to send ([`Load`]), how ([`SenderKind`]), where ([`Wire`]), how fast and how
//!   much; [`run`] does it and gives a [`Report`].
//! - [`SenderKind::Live`] makes frames inside the kernel (live test frames of an XDP program,
//!   redirected to one end of a veth pair): millions a second, 14 to 3,408 bytes.
//!   [`SenderKind::Packet`] sends through packet sockets: any size, any frames.
//! - [`sink`] opens transmit channels of any interface, by AF_XDP, packet sockets or libpcap.
//! - [`Cutter`] cuts the long packets of a stack in user space into frames, into any sink.
//! - [`Stream::carry`] sends a [`Payload`] as segments from one of two [`Ends`] to the other.
//! - [`Shape`] describes generated frames and makes any of them again from its number;
//!   [`Stamp`] reads the number of a received frame; [`SequenceCheck`] proves completeness.
//! - [`replay()`] sends the frames of captures of any size at their times, changed as [`Rewrite`]
//!   says.
//! - [`relay`] sends on what a source receives; what is too long for the next link is cut.
//! - [`Rate`] is how fast to send in any unit, [`Pace`] when each frame is due then.
//!
//! Offered = handed + refused, where the counts of the interfaces decide, not what a system call
//! said: a redirected frame that the far end's ring had no room for is refused, whatever the
//! sender saw. A run is always bounded, by count or time.
//!
//! A run refuses to send without a limit, and live frames into an interface that would lose
//! them uncounted.

mod cutter;
mod error;
mod frame_sender;
mod interface;
mod job;
mod live;
mod pace;
mod rate;
pub mod relay;
pub mod replay;
mod report;
mod rewrite;
mod run;
mod sequence;
mod shape;
pub mod sink;
mod sink_sender;
mod sizes;
mod stored;
mod stream;
mod wait;
mod wire;

pub use cutter::{Cutter, PACKET_BYTES_MAX, Put};
pub use error::{Error, TemplateFix};
pub use interface::check_interface;
pub use job::{Job, Limits, Load, SENDERS_MAX, SenderKind};
pub use live::{LiveObstacle, live_obstacle};
pub use pace::{PACE_DEPTH_NS, Pacer};
pub use rate::{Pace, Rate, RateError, WIRE_OVERHEAD_BYTES, wire_bytes};
pub use replay::{Replay, replay};
pub use report::Report;
pub use rewrite::{
    ADDRESS_RULES_MAX, AddressMap, AddressMapError, AddressRule, Changed, Rewrite, VlanChange,
    VlanId,
};
pub use ringside_ebpf::LIVE_FRAME_BYTES_MAX;
pub use run::{Progress, run, run_shown};
pub use sequence::{SequenceCheck, SequenceReport};
pub use shape::{
    FLOWS_MAX, Field, MAGIC, Numbering, Range, STAMP_MAGIC, STAMPED_BYTES_MIN, Shape, Stack, Stamp,
    Table, Template,
};
pub use sizes::{FRAME_BYTES_MAX, FRAME_BYTES_MIN, Sizes};
pub use stored::StoredFrames;
pub use stream::{
    BUFFER_BYTES, Carried, Ends, EndsError, GivenEnds, Payload, Stream, StreamConfig, Way,
};
pub use wire::{End, Wire};
