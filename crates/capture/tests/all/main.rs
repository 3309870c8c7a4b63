//! Tests of the crate from outside, one binary:
//! `cargo test -p ringside-capture --test all MODULE::`.

#![allow(clippy::unwrap_used)] // a test may panic, and its helpers with it

mod common;
mod observe;
mod pre_filter;
mod recorder;
mod run;
mod threads;
