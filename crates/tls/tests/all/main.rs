//! Tests of the crate from outside, one binary: `cargo test -p ringside-tls --test all MODULE::`.

#![allow(clippy::unwrap_used)] // a test may panic, and its helpers with it

mod captures;
mod example;
mod fuzz;
mod support;
