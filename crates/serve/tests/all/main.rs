//! The service as its clients see it: next to a capture that says what a test has it say.

#![allow(clippy::unwrap_used)] // a test may panic, and its helpers with it

mod common;
mod ladder;
mod numbers;
mod page;
mod records;
mod refused;
mod rules;
mod tls;
mod unreadable;
