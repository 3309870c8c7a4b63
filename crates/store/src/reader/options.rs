//! Walking the options of a pcapng block.

use super::record::Order;
use crate::pcapng::{aligned, option};

/// The options of `block` from `at` to its trailing length, as code and value. Ends at the end
/// mark, or where an option reaches beyond the block: what follows cannot be parsed.
pub(super) fn options(order: Order, block: &[u8], at: usize) -> impl Iterator<Item = (u16, &[u8])> {
    let end = block.len().saturating_sub(4);
    let mut rest = block.get(at..end).unwrap_or_default();
    std::iter::from_fn(move || {
        let code = order.u16(rest, 0)?;
        let length = usize::from(order.u16(rest, 2)?);
        let value = rest.get(4..4 + length)?;
        rest = rest.get(4 + aligned(length)..).unwrap_or_default();
        (code != option::END).then_some((code, value))
    })
}
