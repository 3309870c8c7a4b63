//! Why packets cannot be balanced.

use ringside_balance::ConfigError;
use ringside_core::Shown;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use thiserror::Error;

/// Errors of this crate.
#[derive(Debug, Error)]
pub enum BalancerError {
    /// There is no such interface.
    #[error("no interface is called {0}; `ip link` shows those that are there")]
    NoInterface(String),
    /// It is down.
    #[error("{0} is down: `ip link set {0} up`")]
    Down(String),
    /// Its frames do not begin with an Ethernet header.
    #[error("{0} is no Ethernet interface; balancing needs one")]
    NotEthernet(String),
    /// The configuration cannot be read or written.
    #[error("cannot {what} {}: {source}", .path.shown())]
    File {
        /// What was tried.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The configuration is wrong.
    #[error("{}, {problem}", .path.shown())]
    Config {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong, and where.
        problem: ConfigError,
    },
    /// There is no such VIP.
    #[error("no VIP is called {name:?}; there are {known}")]
    NoVip {
        /// As it was given.
        name: String,
        /// Names of those that there are.
        known: String,
    },
    /// It has no such real.
    #[error("the VIP {vip} has no real {address}; it has {known}")]
    NoReal {
        /// Name of the VIP.
        vip: String,
        /// As it was given.
        address: IpAddr,
        /// Those that it has.
        known: String,
    },
    /// A weight or time that no configuration may have.
    #[error("{what} is {value}; it must be {min} to {max}")]
    Range {
        /// What it is.
        what: &'static str,
        /// As it was given.
        value: u32,
        /// The least value.
        min: u32,
        /// The greatest value.
        max: u32,
    },
    /// Nothing was asked for.
    #[error("nothing was set: name a state or a weight")]
    Nothing,
    /// A time for a real that does not drain.
    #[error("a time to drain is for the state draining alone")]
    NotDraining,
    /// The system refused.
    #[error(transparent)]
    System(#[from] ringside_sys::SysError),
    /// A program could not be loaded or attached.
    #[error(transparent)]
    Program(#[from] ringside_ebpf::Error),
}
