//! netmap, by its device /dev/netmap: rings in memory that the kernel shares, API 14.
//!
//! Its structs are declared here (`layout.rs`) as sys/net/netmap.h of netmap lays them out. What
//! the kernel writes into a ring is looked at as what anybody could have written: a cursor, an
//! index of a buffer or a length that cannot be is an error that names it (`memory.rs`, `ring.rs`).
//!
//! [`Control`] is what is asked of the kernel; tests play it over a file in memory.

mod layout;
mod memory;
mod port;
mod receive;
mod request;
mod ring;
mod transmit;

pub use port::{PREFIX, Port, Rings, kernel_name};
pub use receive::{FRAMES_MAX, ReceiveRing, Slotted};
pub use request::{Control, Device, PortInfo, Register, Registered, RingChoice, Way, open};
pub use transmit::TransmitRing;

#[cfg(test)]
mod tests;
