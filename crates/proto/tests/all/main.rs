//! Tests of the crate from outside, one binary:
//! `cargo test -p ringside-proto --test all MODULE::`.

#![allow(clippy::unwrap_used)] // a test may panic, and its helpers with it

mod captures;
mod dhcp;
mod dns;
mod http1;
mod http1_messages;
mod media;
mod quic;
mod sip;
mod support;
mod tls;
mod tls_hellos;
