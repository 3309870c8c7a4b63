//! An interface description block, and the clock that it defines.

use super::options::options;
use super::record::{BeyondTime, Damage, Order};
use crate::pcapng::{cut_text, option};
use ringside_core::time::NANOS_PER_SEC;
use ringside_core::{LinkType, SourceInterface, Timestamp};

/// Longest name and description that are kept, in bytes; a filter has the length of an option.
const TEXT_BYTES_MAX: usize = 1024;

/// How the stamps of an interface count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interface {
    units_per_second: u64,
    offset_seconds: i64,
}

impl Interface {
    /// The time of `ticks`, cut to whole nanoseconds.
    pub(super) fn timestamp(&self, ticks: u64) -> Result<Timestamp, BeyondTime> {
        const MICROSECONDS: u64 = 1_000_000;
        if self.offset_seconds == 0 {
            match self.units_per_second {
                NANOS_PER_SEC => return Ok(Timestamp(ticks)),
                MICROSECONDS if ticks <= u64::MAX / 1000 => return Ok(Timestamp(ticks * 1000)),
                _ => {}
            }
        }
        let nanos = u128::from(ticks) * u128::from(NANOS_PER_SEC);
        let since = (nanos / u128::from(self.units_per_second)) as i128; // at most 2^94
        let nanos = since + i128::from(self.offset_seconds) * i128::from(NANOS_PER_SEC);
        u64::try_from(nanos)
            .map(Timestamp)
            .map_err(|_| BeyondTime { seconds: nanos.div_euclid(i128::from(NANOS_PER_SEC)) })
    }
}

/// Reads a whole interface description block.
pub(super) fn read_interface(
    order: Order,
    block: &[u8],
) -> Result<(Interface, SourceInterface), Damage> {
    if block.len() < 20 {
        return Err(format!("an interface description block of {} bytes", block.len()));
    }
    let mut clock = Interface { units_per_second: 1_000_000, offset_seconds: 0 };
    let mut interface = SourceInterface {
        name: String::new(),
        link_type: LinkType(order.u16(block, 8).unwrap_or(0)),
        snaplen_bytes: order.u32(block, 12).unwrap_or(0),
        description: String::new(),
        filter: String::new(),
    };
    for (code, value) in options(order, block, 16) {
        match (code, value) {
            (option::IF_NAME, value) => interface.name = text(value),
            (option::IF_DESCRIPTION, value) => interface.description = text(value),
            (option::IF_TSRESOL, &[resolution, ..]) => {
                clock.units_per_second = units_per_second(resolution)?;
            }
            (option::IF_TSOFFSET, value) => {
                clock.offset_seconds = order.u64(value, 0).unwrap_or(0).cast_signed();
            }
            (option::IF_FILTER, &[0, ref filter @ ..]) => {
                interface.filter = String::from_utf8_lossy(filter).into_owned();
            }
            _ => {}
        }
    }
    Ok((clock, interface))
}

/// Texts may end in zeros, which some writers count.
fn text(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    cut_text(text.trim_end_matches('\0'), TEXT_BYTES_MAX).to_owned()
}

/// The value of if_tsresol: a negative power of 10, or of 2 with the highest bit set.
fn units_per_second(resolution: u8) -> Result<u64, Damage> {
    let exponent = u32::from(resolution & 0x7f);
    let units = match resolution & 0x80 {
        0 => 10u64.checked_pow(exponent),
        _ => 1u64.checked_shl(exponent),
    };
    units.ok_or_else(|| format!("a time resolution (if_tsresol) of {resolution:#04x} is too fine"))
}
