//! Tests of the crate from outside, one binary:
//! `cargo test -p ringside-lab --test all MODULE::`.

#![allow(clippy::unwrap_used)] // a test may panic, and its helpers with it

mod common;
mod http_server;
mod interfaces;
mod network;
mod segment;
mod senders;
mod sinks;
mod stream;

// The example's server, without its main function.
#[path = "../../examples/http_server/server/mod.rs"]
mod server;
