//! Tests of the crate from outside, one binary:
//! `cargo test -p ringside-ebpf --test all MODULE::`.

#![allow(clippy::unwrap_used)] // a test may panic, and its helpers with it

mod balance;
mod capture_live;
mod capture_metadata;
mod capture_shared;
mod filter_live;
mod fixtures;
mod pair;
mod random_program;
mod socket_filter;
mod xdp_filter;

// The captures and expressions that filters are judged with.
#[path = "../../../filter/tests/all/common/mod.rs"]
mod common;
