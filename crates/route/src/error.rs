//! Why packets cannot be forwarded.

use ringside_ebpf::route::PORTS_MAX;
use thiserror::Error;

/// Errors of this crate.
#[derive(Debug, Error)]
pub enum RouteError {
    /// Too few interfaces, or too many.
    #[error("a router of {0} interfaces: it must have 2 to {PORTS_MAX}, each with -i")]
    Count(usize),
    /// An interface that is named twice.
    #[error("{0} is named twice; name each interface once")]
    Twice(String),
    /// There is no such interface.
    #[error("no interface is called {0}; `ip link` shows those that are there")]
    NoInterface(String),
    /// It is down.
    #[error("{0} is down: `ip link set {0} up`")]
    Down(String),
    /// Its frames do not begin with an Ethernet header.
    #[error("{0} is no Ethernet: a router forwards between interfaces of Ethernet only")]
    NotEthernet(String),
    /// Its frames belong to something else.
    #[error(
        "{interface} is a member of a {kind}, whose frames the router would take: route on the \
         {kind}'s other side, or take it out with `ip link set {interface} nomaster`"
    )]
    Member {
        /// Name of the interface.
        interface: String,
        /// What it is a member of.
        kind: String,
    },
    /// A VLAN that no program can tell apart.
    #[error(
        "{0} is a VLAN of a kind that the router does not know (of a provider's tags, on another \
         VLAN, or on an interface of another namespace): leave it to the kernel's own forwarding"
    )]
    Vlan(String),
    /// Its driver cannot give frames to others.
    #[error(
        "the driver of {0} cannot redirect frames (XDP): leave the interface to the kernel's own \
         forwarding"
    )]
    NoRedirect(String),
    /// VLAN tags would be overlooked.
    #[error(
        "the driver of {0} takes VLAN tags out of frames and cannot tell them, so that frames of a \
         VLAN would be forwarded as if they were untagged: `ethtool -K {0} rxvlan off`"
    )]
    HiddenTags(String),
    /// The system refused.
    #[error(transparent)]
    System(#[from] ringside_sys::SysError),
    /// A program could not be loaded or attached.
    #[error(transparent)]
    Program(#[from] ringside_ebpf::Error),
}
