//! The netmap backend: rings in the kernel's memory, by /dev/netmap ([`ringside_sys::netmap`]).
//!
//! A port is named as netmap's tools name it, behind [`PREFIX`]: `netmap:eth1` for all receive
//! rings, `netmap:eth1-2` for one, `netmap:eth1^` for what the host sends, `netmap:eth1{3` and
//! `netmap:eth1}3` for the ends of a pipe, `netmap:vale0:1` for a port of a switch. A lane is a
//! receive ring. Frames are lent where they lie, and other buffers take their place in the ring; a
//! frame of several slots is copied once.
//!
//! What the ledger gets (docs/LEDGER.md): netmap counts no loss, so `received` is unknown. Filters
//! run here, on the whole frame, with exact counts. A ring receives from its opening on: at the
//! start what came is thrown away; at the end the kernel is asked once more, and what is there then
//! is lent.

mod description;
mod lane;
mod open;

pub use description::NETMAP;
#[cfg(test)]
pub(super) use open::open_by;
pub use ringside_sys::netmap::{PREFIX, kernel_name};
