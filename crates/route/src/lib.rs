#![forbid(unsafe_code)]
//! Forwarding inside the driver: a [`Router`] gives packets of IPv4 and IPv6 from one of its
//! interfaces, VLANs among them, to another before the kernel has made anything of them, by the
//! kernel's own tables: routes, policy rules, next hops, neighbours, MTUs. There is nothing to
//! configure here.
//!
//! **What it does not do itself it leaves to the host**, unmodified: what is for the host, needs an
//! answer (TTL, MTU, no route), waits for a neighbour, has options, or leads to an interface that
//! is not the router's. Nothing is dropped by decision. [`Cause`] names each reason, [`Explainer`]
//! tells it of a given frame.
//!
//! **What is counted.** Of each interface `received = forwarded + Σ passed`, and of all together
//! `Σ forwarded = Σ sent + Σ lost`: [`Ledger`]. What a driver refuses when a frame is handed to it
//! its own counters say.
//!
//! **What it goes past**: netfilter, connection tracking, tc, IPsec policies and packet sockets of
//! the host never see a packet that is forwarded here.
//!
//! **Neighbours.** The kernel does not know that its neighbours are used by these packets: the old
//! address of one that moved would be sent to for ever. So the router has those that are in use
//! asked some times a second ([`Options::probe_interval`]), and sought anew if they do not
//! answer. It changes no other settings of the system.
//!
//! **A router may outlive its process** ([`Options::is_pinned`], [`PinnedRouter`]). Nothing follows
//! changes then, and no neighbour is asked; once a second a packet to each next hop is left to the
//! host, so that the kernel asks as it does for its own.

mod error;
mod explain;
mod interface;
mod keeper;
mod ledger;
mod pinned;
mod router;

pub use error::RouteError;
pub use explain::{Explainer, Explanation};
pub use keeper::Asked;
pub use ledger::{DeviceCounts, InterfaceLedger, Ledger};
pub use pinned::{PinnedRouter, remains};
pub use ringside_ebpf::route::{ANSWER_AGE_MIN, Cause};
pub use router::{Options, Router};
