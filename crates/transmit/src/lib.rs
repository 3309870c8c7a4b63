#![forbid(unsafe_code)]
//! Placeholder; the contract comes with the first module.
