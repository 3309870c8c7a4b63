#![forbid(unsafe_code)]
//! Headers on the wire: checked views, dissection, flow keys, checksums, and building.
//!
//! - A *view* as [`Ipv4`] or [`Tcp`] checks once, in `new`, that its header is there and makes
//!   sense; after that no accessor panics. One protocol, one file.
//! - [`dissect()`] finds the headers of a frame in one pass: [`Layers`] holds kinds and offsets,
//!   is `Copy`, borrows nothing, and says why it ended ([`Stop`]).
//! - [`FlowKey`] names the conversation that a frame belongs to, both ways alike.
//! - [`checksum`] computes, updates and verifies; [`build`] writes headers.
//!
//! Views hold references to fixed arrays, so that constant offsets are checked by the compiler and
//! cost nothing at run time. Errors say which header, what it needed and what was there, so that
//! callers count causes.
//!
//! This crate refuses to allocate on the packet path, to reassemble, to read application payload,
//! and to guess: a protocol is what the header before it says. Two exceptions are conventions of
//! all tools: the nibble after an MPLS stack, and the UDP ports of tunnels.

mod bytes;

pub mod arp;
pub mod build;
pub mod chdlc;
pub mod checksum;
pub mod cmd;
pub mod crc32c;
pub mod dissect;
pub mod dsa;
pub mod error;
pub mod erspan;
pub mod ethernet;
pub mod fddi;
pub mod flow;
pub mod frame_relay;
pub mod geneve;
pub mod gre;
pub mod gtpu;
pub mod icmp;
pub mod icmpv6;
pub mod ieee80211;
pub mod igmp;
pub mod ipv4;
pub mod ipv6;
pub mod ipv6_extension;
pub mod ipv6_fragment;
pub mod isl;
pub mod layers;
pub mod llc;
pub mod mpls;
pub mod nflog;
pub mod null;
pub mod numbers;
pub mod ppp;
pub mod pppoe;
pub mod radiotap;
pub mod sctp;
pub mod sll;
pub mod snap;
pub mod tcp;
pub mod tcp_options;
pub mod tunnel;
pub mod udp;
pub mod verify;
pub mod vlan;
pub mod vntag;
pub mod vxlan;

pub use arp::Arp;
pub use chdlc::Chdlc;
pub use cmd::Cmd;
pub use dissect::dissect;
pub use dsa::{Dsa, DsaMode};
pub use error::WireError;
pub use erspan::Erspan;
pub use ethernet::Ethernet;
pub use fddi::Fddi;
pub use flow::{Discriminator, FiveTuple, FlowDirection, FlowKey};
pub use frame_relay::{FrameRelay, RelayProtocol};
pub use geneve::Geneve;
pub use gre::Gre;
pub use gtpu::GtpU;
pub use icmp::Icmp;
pub use icmpv6::Icmpv6;
pub use ieee80211::{Ieee80211, WlanKind};
pub use igmp::Igmp;
pub use ipv4::Ipv4;
pub use ipv6::Ipv6;
pub use ipv6_extension::Ipv6Extension;
pub use ipv6_fragment::Ipv6Fragment;
pub use isl::Isl;
pub use layers::{Fragment, LAYERS_MAX, Layer, LayerKind, Layers, Level, Stop};
pub use llc::Llc;
pub use mpls::Mpls;
pub use nflog::Nflog;
pub use null::Null;
pub use numbers::{EtherType, IpProtocol, MacAddr, Port};
pub use ppp::Ppp;
pub use pppoe::Pppoe;
pub use radiotap::{Radiotap, Unread};
pub use sctp::Sctp;
pub use sll::Sll;
pub use snap::Snap;
pub use tcp::Tcp;
pub use tcp_options::{TcpOption, TcpOptions};
pub use tunnel::TunnelId;
pub use udp::Udp;
pub use verify::{Verdict, pseudo_addresses, verify_network, verify_transport};
pub use vlan::Vlan;
pub use vntag::VnTag;
pub use vxlan::Vxlan;
