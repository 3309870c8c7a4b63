#![forbid(unsafe_code)]
//! The index of stored packets: which part of a file holds which addresses, ports, tags.
//!
//! - [`build`](fn@build) reads a capture file part by part (a ring block, or a MiB) and writes what
//!   lies in each next to it, as docs/formats/index.md describes. [`Growing`] does so for the
//!   recorder that writes the file, from ring blocks that it still has.
//! - [`Plan`] is what a filter's program asks of the fields that are indexed. It is made of the
//!   compiled program, not of the expression, so that it means what libpcap means.
//! - [`Index`] says of a file which parts a plan cannot match: exactly those that need not be read.
//!
//! One function says where a frame has which field (`fields`). What is written of a frame and
//! what is made of a program both come from it, so a part is never passed by that holds a match.
//!
//! Derived data: an index that is missing, damaged or older than its file costs time, and nothing
//! else. This crate refuses to decide whether a frame matches; the filter does.

mod build;
mod code;
mod facts;
mod fields;
mod file;
mod growing;
mod key;
mod lookup;
mod parts;
mod plan;
mod postings;
mod segment;
#[cfg(test)]
mod tests;

pub use build::{BuildError, Built, build};
pub use file::{Index, State, Unusable};
pub use growing::{Growing, NoBlock};
pub use key::Kind;
pub use lookup::{Loss, Pruned};
pub use plan::Plan;
pub use ringside_store::index_path as path_of;
