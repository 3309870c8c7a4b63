#![forbid(unsafe_code)]
//! Capture: backends as sources, lanes, the capture ring, workers and recorders.
//!
//! A [`backend`] opens an interface as one or more lanes ([`ringside_core::Source`]). A
//! [`run::Run`] gives each lane a worker thread that copies its frames, once, into the capture
//! ring (or counts them in place), and puts consumers behind the ring: a recorder per lane, or a
//! writer that merges the lanes by time. When it ends, its ledger accounts for every frame.
//!
//! Capture never waits for a consumer. The recorder and the writer are lossless readers of the
//! ring; when one of them is so far behind that the ring is full, workers drop frames and count
//! them under that name.

pub mod backend;
pub mod config;
mod control;
pub mod finish;
mod interface;
pub mod keep;
mod lane;
pub mod memory_ring;
mod merged;
mod observe;
pub mod output;
pub mod packer;
pub mod placement;
pub mod policies;
mod recorder;
pub mod run;
pub mod share;
mod start;
mod stream;
pub mod synthetic;
pub mod trigger;
