#![forbid(unsafe_code)]
//! Load balancing inside the driver: a [`DriverBalancer`] takes packets to VIPs off an interface
//! and sends each to one of the reals behind, as its configuration file says. What becomes of a
//! frame is the business of `ringside-balance`; this crate puts it on an interface, and changes it.
//!
//! **Changes.** The file is read anew when it changes, and [`Setting`]s change single reals. Either
//! way new tables are built aside and put in force at once; what is wrong changes nothing.
//!
//! **What is counted.** `received = passed + Σ fates`, of all VIPs, also of those that are gone:
//! [`Ledger`]. VIPs and reals have serial numbers, so that a count is never another's.
//!
//! **It may outlive its process** ([`Options::is_pinned`], [`PinnedBalancer`]): flows go on. The
//! next process goes on with the tables, the counters and what is remembered.
//!
//! [`DriverDecap`] is the other end, on a real server: it takes packets out of the tunnels.

mod balancer;
mod decap;
mod error;
mod file;
mod health;
mod interface;
mod ledger;
mod pinned;
mod settings;

pub use balancer::{DriverBalancer, Options};
pub use decap::{DecapLedger, DecapOptions, DriverDecap, PinnedEnd, remains_of_end};
pub use error::BalancerError;
pub use file::ConfigFile;
pub use health::HealthLedger;
pub use ledger::{Ledger, RealLedger, Removed, VipLedger};
pub use pinned::{PinnedBalancer, remains};
pub use settings::{SetState, Setting};

use ringside_balance::{Config, Tables};
use ringside_ebpf::balance::BalanceProgram;

/// Bytes of memory that a balancer with this configuration takes on this machine.
///
/// # Errors
/// The number of CPUs cannot be read.
pub fn memory_bytes(config: &Config) -> Result<usize, BalancerError> {
    Ok(BalanceProgram::memory_for(&Tables::new(config, 0), config.flows_per_cpu)?)
}
