//! Faults: what may go wrong around a recording, and what then must still be right.
//!
//! In every case the ledger balances, what was received before is kept, what is written opens in
//! other programs, and the message names what happened. No test depends on how fast it runs; every
//! wait is bounded.

#![allow(clippy::unwrap_used)] // a test may panic, and its helpers with it

mod common;

#[path = "faults/clock.rs"]
mod clock;
#[path = "faults/directory.rs"]
mod directory;
#[path = "faults/disk.rs"]
mod disk;
#[path = "faults/dying_disk.rs"]
mod dying_disk;
#[path = "faults/frames.rs"]
mod frames;
#[path = "faults/idle.rs"]
mod idle;
#[path = "faults/interface.rs"]
mod interface;
#[path = "faults/kill.rs"]
mod kill;
#[path = "faults/pipe.rs"]
mod pipe;
#[path = "faults/privilege.rs"]
mod privilege;
#[path = "faults/signals.rs"]
mod signals;
#[path = "faults/slow_disk.rs"]
mod slow_disk;
#[path = "faults/small_disk.rs"]
mod small_disk;
#[path = "faults/support.rs"]
mod support;
