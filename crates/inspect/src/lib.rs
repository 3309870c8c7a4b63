#![forbid(unsafe_code)]
//! A frame dissected once.
//!
//! [`DissectedFrame`] is a frame and what was read of it so far: its headers when the first who
//! asks needs them, the fields of its application message when the first asks for those. Whoever
//! judges, counts or follows frames takes one, so that a frame is dissected at most once.
//!
//! This crate knows no rules, and refuses to keep a frame: what it lends borrows the frame's bytes.

pub mod frame;

pub use frame::DissectedFrame;
