//! Tests of the crate from outside, one binary:
//! `cargo test -p ringside-balance --test all MODULE::`.

#![allow(clippy::unwrap_used)] // a test may panic, and its helpers with it

mod behaviours;
mod fuzz;
mod support;
