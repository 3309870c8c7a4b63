#![forbid(unsafe_code)]
//! Load balancing at layer 4, without I/O: what is to be done, and what becomes of each frame.
//!
//! - [`config`] reads what a user writes: VIPs, the reals behind them, how packets get there.
//! - [`maglev`] makes of reals and weights a table of slots, the same on every instance.
//! - [`quic`] reads what QUIC says to a balancer: whether a connection begins, which server has it.
//!
//! - [`tables`] are a configuration as the data plane looks at it: flat, with indices that stay.
//! - [`flows`] are what is remembered, [`packet`] what is read of a frame, [`mod@write`] what is
//!   made.
//! - [`balancer`] is the whole decision: a frame and tables in, a verdict and counts out. The
//!   program in the driver does the same, and tests hold it against this.
//! - [`decap`] is the other end: what a real server takes out of a tunnel.
//!
//! This crate refuses to look at a clock, an interface or a route: time is an argument.

pub mod balancer;
pub mod config;
mod count;
pub mod decap;
pub mod error;
pub mod flows;
pub mod hash;
pub mod maglev;
pub mod packet;
pub mod prefix;
pub mod quic;
pub mod tables;
pub mod write;

pub use balancer::Balancer;
pub use config::Config;
pub use error::{ConfigError, Problem};
pub use prefix::{Prefix, PrefixError};
pub use tables::Tables;
