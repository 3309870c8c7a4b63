#![forbid(unsafe_code)]
//! Chores.
fn main() {}
