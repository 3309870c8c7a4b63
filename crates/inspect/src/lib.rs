#![forbid(unsafe_code)]
//! A frame dissected once, and observers of every frame.
//!
//! [`DissectedFrame`] is a frame and what was read of it so far: its headers when the first who
//! asks needs them, the fields of its application message when the first asks for those. Rules,
//! observers and counters take one, so that a frame is dissected at most once.
//!
//! An [`Observer`] sees every frame of a stream and gets the time as it advances; a [`Pump`] drives
//! observers from any [`Source`](ringside_core::Source): files, directories, an attached ring. The
//! capture crate drives the same pump from the ring of a run, next to a recorder. Time is that of
//! the frames' stamps, so the same frames give the same results from everywhere. How to write one
//! is in docs/howto/observer.md.
//!
//! A [`Key`] names the conversation that a packet belongs to, for tables of flows and streams.
//!
//! This crate knows no rules, and refuses to keep a frame: what it lends borrows the frame's bytes.

pub mod frame;
pub mod key;
pub mod observer;
pub mod pump;

pub use frame::DissectedFrame;
pub use key::Key;
pub use observer::{Ahead, InterfaceNames, Observer, Received};
pub use pump::{Pump, Report, Seen};
