//! One connection: its two directions, and what the handler keeps of it.

use crate::opening::Opening;
use crate::side::Side;

/// A connection that has had payload.
#[derive(Debug)]
pub(crate) struct Connection<C> {
    /// What the lower endpoint sends, and what the higher.
    pub sides: [Side; 2],
    /// From 1, in the order of first payloads.
    pub number: u64,
    /// The higher endpoint sent the SYN or, if none was seen, the first payload.
    pub initiator_high: bool,
    /// It is over, and remembered for what comes late.
    pub is_over: bool,
    /// What the handler keeps.
    pub kept: C,
}

impl<C: Default> Connection<C> {
    pub(crate) fn new(number: u64, opening: &Opening) -> Connection<C> {
        Connection {
            sides: opening.sides.map(|side| Side::new(&side)),
            number,
            initiator_high: opening.initiator_high,
            is_over: false,
            kept: C::default(),
        }
    }
}
