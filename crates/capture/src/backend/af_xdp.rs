//! The af-xdp backend: frames from inside the driver (AF_XDP), one lane per receive queue.
//!
//! The frames that the filter accepts are taken away from the host; the others go on to it. What
//! the ledger gets (docs/LEDGER.md): `received` is what the program in the driver saw, `passed`
//! what it left to the host, dropped by `kernel_ring_full` are frames for which the receive ring
//! had no room, by `fill_ring_empty` those for which there was no free memory, by
//! `frame_too_large` those longer than the driver's way of handing them over allows. Once a source
//! is finished these and the frames lent balance exactly.
//!
//! A stamp is written by the program, as early as software can; user space stamps nothing.

mod depth;
mod description;
mod frames;
pub(crate) mod kernel_side;
mod lane;
mod open;
mod port;

pub use super::wait::Waiting;
pub use description::AF_XDP;
pub use lane::AfXdpSource;
pub use open::{AfXdpConfig, Opened, Stamps, open};

#[cfg(test)]
mod tests;
