//! The xdp-ring backend: frames that a program inside the driver copies into memory of ours, one
//! lane per receive queue ([xdp-ring.md](../../../../docs/xdp-ring.md)).
//!
//! As with af-xdp the frames that the filter accepts are taken away from the host. AF_XDP's own
//! copy is a chain of calls for every frame: redirection, a chunk, a descriptor, a flush. Here the
//! program copies what is kept of a frame behind the last one and discards it, which is at least a
//! fifth faster (bench/README.md) and needs no memory for what is not there. Where a driver can put
//! frames into our memory itself (zero-copy), af-xdp is the better way.
//!
//! What the ledger gets (docs/LEDGER.md): `received` is what the program saw, `passed` what it left
//! to the host, dropped by `kernel_ring_full` are frames for which the ring had no room, by
//! `frame_too_large` those of which more was to be kept than 98,303 bytes.

mod description;
pub(crate) mod kernel_side;
mod lane;
mod open;

pub use description::XDP_RING;
pub use lane::XdpRingSource;
pub use open::{Opened, XdpRingConfig, open};

#[cfg(test)]
mod tests;
