//! Tests of the crate from outside, one binary:
//! `cargo test -p ringside-rules --test all MODULE::`.

#![allow(clippy::unwrap_used)] // a test may panic, and its helpers with it

mod documents;
mod fuzz;
mod patterns;
mod pre_filter;
mod question;
mod segments;

// The captures and expressions that filters are judged with.
#[path = "../../../filter/tests/all/common/mod.rs"]
mod common;
