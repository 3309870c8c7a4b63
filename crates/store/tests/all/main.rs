//! Tests of the crate from outside, one binary:
//! `cargo test -p ringside-store --test all MODULE::`.

#![allow(clippy::unwrap_used)] // a test may panic, and its helpers with it

mod captures;
mod common;
mod fuzz;
mod others;
mod packing;
mod parts;
mod query;
mod repair;
mod repair_random;
mod retention;
mod room;
mod second_reader;
