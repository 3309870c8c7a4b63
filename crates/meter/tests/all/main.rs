//! Tests of the crate from outside, one binary:
//! `cargo test -p ringside-meter --test all MODULE::`.

#![allow(clippy::unwrap_used)] // a test may panic, and its helpers with it

mod equal;
mod kill;
mod sums;
mod tc;

mod flows;
mod headers;
#[path = "../../../ebpf/tests/all/pair/mod.rs"]
mod pair;
#[path = "../../../wire/tests/all/support/mod.rs"]
mod support;
