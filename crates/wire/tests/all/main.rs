//! Tests of the crate from outside, one binary:
//! `cargo test -p ringside-wire --test all MODULE::`.

#![allow(clippy::unwrap_used)] // a test may panic, and its helpers with it

mod etherparse;
mod flow_and_build;
mod headers;
mod links;
mod properties;
mod support;
mod tshark;
mod tshark_checksums;
