//! Why an interface cannot be metered.

use thiserror::Error;

/// Errors of this crate.
#[derive(Debug, Error)]
pub enum MeterError {
    /// There is no such interface.
    #[error("{0}: there is no such interface in this network namespace; `ip link` lists them")]
    NoInterface(String),
    /// Its frames do not begin with an Ethernet header.
    #[error("{0} is no Ethernet: the flow cache cannot read its frames; meter in user space")]
    NotEthernet(String),
    /// A size that cannot be.
    #[error("{what} of {value}; it must be a power of two from {min} to {max}")]
    Size {
        /// What was asked for.
        what: &'static str,
        /// How much.
        value: usize,
        /// The least.
        min: usize,
        /// The most.
        max: usize,
    },
    /// Netlink or another part of the system refused.
    #[error(transparent)]
    System(#[from] ringside_sys::SysError),
    /// The program could not be loaded or attached.
    #[error(transparent)]
    Program(#[from] ringside_ebpf::Error),
    /// What the kernel handed up is damaged: nothing but our program may write there.
    #[error("the ring of CPU {cpu} holds no record at {position}; the rest of it cannot be read")]
    Damaged {
        /// Whose ring.
        cpu: usize,
        /// Where.
        position: u64,
    },
}
