//! Tests of the crate from outside, one binary:
//! `cargo test -p ringside-segment --test all MODULE::`.

#![allow(clippy::unwrap_used)] // a test may panic, and its helpers with it

mod captures;
mod fuzz;
mod others;
mod reference;
mod rules;

#[path = "../../../wire/tests/all/support/mod.rs"]
mod support;
