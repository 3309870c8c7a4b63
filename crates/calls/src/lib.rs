#![forbid(unsafe_code)]
//! SIP calls, and the quality of their media.
//!
//! - [`CallsObserver`] sees every frame of a stream: it finds SIP over UDP and TCP and makes
//!   [`Call`]s of it, with their states and times, finds their media by what they announce
//!   (SDP), and hands each to sinks once it is over. Every one says how it ended ([`Ending`]).
//! - [`rtp`] counts a stream of RTP: losses, duplicates, disorder, jitter, drift, bursts, and
//!   what a jitter buffer would discard. [`emodel`] makes R and MOS of what is known (ITU-T G.107).
//! - [`CallsLedger`] says that no packet, no message and no call is missing.
//!
//! Whatever was not seen is unknown, and no number stands in its place. Memory is bounded by
//! [`Limits`]. There is no socket here, and
//! no clock but for saying to the kernel that this process lives.

mod call;
pub mod codec;
mod datagrams;
pub mod emodel;
mod kernel_media;
mod ladder;
mod ledger;
mod limits;
mod met;
mod names;
mod observer;
mod reader;
pub mod rtp;
mod selection;
mod sound;
mod status;
mod stream;
mod text;
mod timed;
mod tracker;

pub use call::{Call, Dialog, Ending, Party, Transport};
pub use kernel_media::{KernelMedia, KernelStatus};
pub use ladder::{Ladder, Step};
pub use ledger::CallsLedger;
pub use limits::Limits;
pub use observer::{CallsObserver, Options};
pub use selection::Selection;
pub use sound::Sound;
pub use status::CallsStatus;
pub use stream::{Endpoint, Quality, Rtcp, Stream, StreamKey};
pub use text::text;
