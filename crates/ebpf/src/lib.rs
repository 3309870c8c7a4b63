#![forbid(unsafe_code)]
//! eBPF programs of Ringside: the C sources of `bpf/`, compiled by `build.rs`, embedded, loaded.
//!
//! - [`Generator`] makes numbered frames out of live test frames and hands them to an interface.
//! - [`LiveSegments`] sends segments of shared memory as live frames.
//! - [`LatencyMeter`] measures how long stamped frames were under way, where they arrive.
//! - [`balance`] sends packets to one of several servers, each flow to the same.
//! - [`capture`] steers frames to AF_XDP sockets, next to other programs on the interface.
//! - [`flows`] adds packets up by flow, where the kernel meets them.
//! - [`pins`] are what stays on an interface without a process.
//! - [`object`] is somebody else's program, run on packets here within limits.
//! - [`replay`] makes frames of a table of headers, to measure what a program costs.
//! - [`route`] forwards packets between interfaces, by the kernel's tables.
//! - [`rtp`] counts media of calls inside the driver.
//! - [`rules`] judges frames inside the driver, by tables that user space changes meanwhile.
//! - [`XdpProgram`] loads a program for an interface, [`Attachment`] keeps it there until dropped.
//! - [`redirect_reaches`] says whether frames redirected to a veth end arrive at the other one.
//! - [`TestRun`] runs a program on one frame and shows verdict and frame afterwards.
//!
//! Each program is an object of its own, loaded by libbpf with its constants filled in before the
//! verifier sees it; no trampolines, no dispatcher: some kernels refuse them. What C and Rust share
//! stands in `bpf/abi.h` and in [`abi`], with the sizes asserted on both sides.
//!
//! This crate refuses to choose interfaces: it attaches to the one it is given, in the network
//! namespace of the calling thread.

pub mod abi;
mod anchor;
mod attached;
pub mod balance;
pub mod capture;
mod claims;
mod error;
pub mod flows;
mod generate;
mod latency;
mod load;
pub mod object;
pub mod pins;
pub mod replay;
mod root;
pub mod route;
pub mod rtp;
pub mod rules;
mod segment;
pub mod socket_filter;
mod xdp;

pub use anchor::Anchor;
pub use attached::{attached_program, redirect_reaches, take_program_off};
pub use error::Error;
pub use generate::{Generator, LIVE_FRAME_BYTES_MAX, LIVE_FRAME_BYTES_MIN, Stop, gap};
pub use latency::{Latencies, LatencyMeter};
pub use load::{TestRun, Verdict};
pub use segment::{LiveSegments, LiveSegmentsConfig};
pub use xdp::{Attachment, XdpProgram};
