//! Tests of the crate from outside, one binary: `cargo test -p ringside-calls --test all MODULE::`.

#![allow(clippy::unwrap_used)] // a test may panic, and its helpers with it

mod bounds;
mod dialogs;
mod kernel;
mod sip;
mod streams;
mod support;
