//! The pf-ring backend: PF_RING's rings, by its own library ([`ringside_pfring`]).
//!
//! A device is named as PF_RING names it, behind [`PREFIX`]: `pf-ring:eth1`, `pf-ring:eth1@3` for
//! one of its receive queues, `pf-ring:zc:eth1` where a driver of PF_RING's gives the card to
//! programs. A lane is a receive queue (`IF@Q`) if there are as many as lanes, else a member of a
//! cluster, which shares the frames by their flows.
//!
//! What the ledger gets (docs/LEDGER.md): `received` is what was read, plus what waited at the end,
//! plus what the ring had no room for. Filters run here, on the whole frame, with exact counts:
//! what a filter of PF_RING's turns away is not counted. A ring receives from its enabling on; what
//! lies in it at the end cannot be read once it is disabled, so it is read first, to the count.

mod description;
mod lane;
mod open;

pub use description::PF_RING;
#[cfg(test)]
pub(super) use open::open_by;
pub use ringside_pfring::PREFIX;

use ringside_pfring::Device;

/// The name by which the kernel knows what people name as a device of PF_RING's; any other name as
/// it is.
pub fn kernel_name(name: &str) -> String {
    let device = name.strip_prefix(PREFIX).map(Device::named);
    device.as_ref().and_then(Device::interface).unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests;
