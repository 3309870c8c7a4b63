//! AF_XDP: sockets that a driver's XDP program hands frames to, and that send past the host's
//! stack, in memory that both sides share (Documentation/networking/af_xdp.rst, net/xdp/xsk.c).
//!
//! ```text
//!            fill ring: free chunks ──▶ kernel ──▶ receive ring: descriptors of frames
//!   FillRing ▲                                                     │ RxRing
//!            └──────────── give_back ◀── Claim (its chunks) ◀── claim
//! ```
//!
//! [`RxRing`] and [`FillRing`] are separate, so that several threads can share a lane. One thread
//! at a time claims, and one at a time gives back, but they need not be the same. A [`Claim`] owns
//! the chunks of the frames in it.
//!
//! Sending is apart from it: a [`TxSocket`] receives nothing, and a [`TxRing`] has memory of its
//! own, cut into slots, for one thread.
//!
//! A layer of our own, because no crate has shared memory, frames of several parts, metadata, busy
//! polling and huge pages together (docs/DEPENDENCIES.md). The kernel copies a frame to memory
//! together with what an XDP program has put before its data; the layout of that is the program's
//! and its reader's business.

mod cursor;
mod fill;
mod layout;
pub mod mock;
mod receive;
mod ring;
mod socket;
mod transmit;
mod tx_memory;
mod tx_socket;
mod umem;

#[cfg(feature = "loom")]
#[cfg(test)]
mod model;
#[cfg(not(feature = "loom"))]
#[cfg(not(feature = "loom"))]
#[cfg(test)]
mod tests;

pub use fill::FillRing;
pub use receive::{Claim, LaneArena, PARTS_PER_FRAME_MAX, Part, RxRing};
pub use socket::{BindStep, BusyPoll, XskConfig, XskEnds, XskSocket, XskStatistics};
pub use transmit::{COPIED_PARTS_MAX, TxProgress, TxRing, TxStamp};
pub use tx_memory::{TX_ENTRIES_MAX, TxLayout, TxMemory, TxRequest};
pub use tx_socket::{Kick, TxConfig, TxSocket};
pub use umem::{
    CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, CHUNKS_PER_LANE_MAX, HEADROOM_BYTES, Umem, UmemLayout,
};
