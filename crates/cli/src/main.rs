#![forbid(unsafe_code)]
//! The ringside command.
fn main() {}
