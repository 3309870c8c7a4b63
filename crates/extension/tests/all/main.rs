//! Tests of the crate from outside, one binary:
//! `cargo test -p ringside-extension --test all MODULE::`.

#![allow(clippy::unwrap_used)] // a test may panic, and its helpers with it

mod captures;
mod fuzz;
mod guests;
mod hostile;
mod objects;
mod refused;
mod support;
