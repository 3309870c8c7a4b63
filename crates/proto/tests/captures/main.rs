//! Payloads of real captures: read as tshark reads them, consistent when cut, and the seeds of
//! fuzzing.
#![allow(clippy::unwrap_used)] // a test fails by panicking

mod dns;
mod fuzz;
mod guesses;
mod http1;
mod judges;
mod prefixes;
mod rows;
mod sip;
#[path = "../support/mod.rs"]
mod support;
mod tls;
