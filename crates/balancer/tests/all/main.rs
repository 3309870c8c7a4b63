//! Tests on an interface.

#![allow(clippy::unwrap_used)]

#[path = "../../../balance/tests/all/support/mod.rs"]
mod support;

mod changes;
