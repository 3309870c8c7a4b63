//! The dpdk backend: drivers in user space, by the plug-in of [`ringside_dpdk`].
//!
//! A device is named as DPDK names it, behind [`PREFIX`]: `dpdk:0000:03:00.0` for a card that is
//! bound to vfio-pci, or a driver without a card with its arguments, as
//! `dpdk:net_af_packet0,iface=eth1`. An interface of the kernel's is received from by
//! `net_af_packet`. A lane is a receive queue that DPDK makes, with memory of its own.
//!
//! What the ledger gets (docs/LEDGER.md): `received` is what was taken from the driver plus what it
//! counts as missed; of a driver that cannot count that (`drivers.rs`) it is unknown. Filters run
//! here, on the whole frame, with exact counts. At the start what waits is thrown away; at the end
//! what waits is taken, and nothing after it.

mod description;
mod drivers;
mod lane;
mod link;
mod losses;
mod open;

pub use description::DPDK;
pub use ringside_dpdk::PREFIX;
