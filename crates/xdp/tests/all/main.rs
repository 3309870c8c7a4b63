//! Tests of the crate from outside, one binary:
//! `cargo test -p ringside-xdp --test all MODULE::`.

#![allow(clippy::unwrap_used)] // a test may panic, and its helpers with it

mod fast;
mod judge;
mod live;
mod parse;
mod random;
mod sets;

#[path = "../../../ebpf/tests/all/pair/mod.rs"]
mod pair;
#[path = "../../../wire/tests/all/support/mod.rs"]
mod support;
