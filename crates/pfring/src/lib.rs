#![deny(unsafe_op_in_unsafe_fn)]
//! PF_RING, where it is installed, by its own library (libpfring), which is opened at run time.
//!
//! The few functions and numbers of it that are used are declared here (`api.rs`); the binary
//! depends on nothing of PF_RING's.
//!
//! - [`Library`] is the library, found once in a process;
//! - [`Ring`] receives: frames are copied to a block of its own, since what the library lends lives
//!   until the next call only;
//! - [`Sender`] sends.
//!
//! Which lanes there are, what counts as received, and when a source has ended is the business of
//! `capture`; this crate decides nothing about frames.

mod api;
mod device;
mod error;
mod library;
mod module;
mod ring;
mod sender;

pub use device::{Device, PREFIX};
pub use error::PfRingError;
pub use library::Library;
pub use module::module;
pub use ring::{BURST_FRAMES, CAPLEN_MAX, Received, Ring, RingOptions, Statistics};
pub use sender::{SendOutcome, Sender};
