//! Tests of the crate from outside, one binary:
//! `cargo test -p ringside-route --test all MODULE::`.

#![allow(clippy::unwrap_used)] // a test may panic, and its helpers with it

mod answers;
mod follow;
mod frames;
mod full_table;
mod kernel;
mod model;
mod net;
mod programs;
mod routing;
mod testbed;
mod vlans;
