//! Faults: what may go wrong around a recording, and what then must still be right.
//!
//! In every case the ledger balances, what was received before is kept, what is written opens in
//! other programs, and the message names what happened. No test depends on how fast it runs; every
//! wait is bounded.

mod clock;
mod directory;
mod disk;
mod dying_disk;
mod frames;
mod idle;
mod interface;
mod kill;
mod pipe;
mod privilege;
mod signals;
mod slow_disk;
mod small_disk;
pub(crate) mod support;
