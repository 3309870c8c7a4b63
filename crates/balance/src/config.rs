//! What a balancer is to do: its configuration, read from TOML and checked.
//!
//! ```
//! # use ringside_balance::config::Config;
//! let config = Config::read(br#"
//! source_v4 = "10.9.0.0/16"       # outer source addresses of tunnels
//!
//! [[vip]]
//! name = "web"
//! address = "192.0.2.1"
//! port = 443
//! protocol = "tcp"
//!
//! [[vip.real]]
//! address = "10.0.0.1"
//! weight = 2
//!
//! [[vip.real]]
//! address = "10.0.0.2"
//! state = "draining"
//! "#).unwrap();
//! assert_eq!(config.vips[0].reals.len(), 2);
//! ```

mod check;
mod health;
mod text;

#[cfg(test)]
mod tests;

pub use health::{HealthCheck, Question};
pub use text::Place;

use crate::error::ConfigError;
use crate::prefix::Prefix;
use crate::quic::ROTATIONS;
use ringside_wire::MacAddr;
use serde::Deserialize;
use std::net::IpAddr;

/// Bytes of a configuration: 65,536 reals of 200 bytes each, and some room.
pub const CONFIG_BYTES_MAX: usize = 16 << 20;
/// VIPs: counters of each CPU for each of them take half a kilobyte.
pub const VIPS_MAX: usize = 4_096;
/// Reals of all VIPs together: they have 64 bytes in each of two tables.
pub const REALS_MAX: usize = 65_536;
/// Server ids of all reals together, each counted in every rotation with ids of its length: one for
/// each real.
pub const SERVER_IDS_MAX: usize = 65_536;
/// Slots of all VIPs together: 64 MiB in each of two tables, or 256 VIPs of 65,537.
pub const SLOTS_SUM_MAX: usize = 1 << 24;
/// Different lengths of prefixes of VIPs, for each version of IP: each costs every frame that goes
/// to no VIP two look-ups.
pub const PREFIX_LENGTHS_MAX: usize = 8;
/// Characters of a VIP's name.
pub const NAME_CHARS_MAX: usize = 64;
/// The longest time-out and deadline: a week. The data plane counts milliseconds in 32 bits.
pub const SECONDS_MAX: u32 = 7 * 86_400;
/// The least MTU: an IPv6 packet of 1,280 bytes within IPv6 and UDP, so that no client is asked for
/// smaller packets than IPv6 has.
pub const MTU_MIN: u32 = 1_328;
/// The greatest MTU: a jumbo frame. Packets of more are not on any wire.
pub const MTU_MAX: u32 = 9_216;
/// Seconds that a real drains unless said otherwise.
pub const DRAIN_DEFAULT_S: u32 = 300;
/// Flows that each CPU remembers: 72 bytes each, 1.2 GB at most.
pub const FLOWS_MAX: u32 = 1 << 24;

/// A checked configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Outer source addresses of tunnels over IPv4: the bits behind the prefix follow the flow.
    pub source_v4: Option<Prefix>,
    /// The same of tunnels over IPv6.
    pub source_v6: Option<Prefix>,
    /// Longest packet that goes to a real, in bytes from its outermost IP header.
    pub mtu: u32,
    /// Destination port of GUE.
    pub gue_port: u16,
    /// Flows that each CPU remembers, a power of two.
    pub flows_per_cpu: u32,
    /// New flows that each CPU remembers in a second; others go by the tables alone.
    pub new_flows_per_second_max: u32,
    /// Seconds after a change in which a flow that is not remembered goes where it went before.
    pub change_window_s: u32,
    /// In the order of the file.
    pub vips: Vec<Vip>,
}

/// A virtual address that clients know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vip {
    /// What it is across changes, and in reports.
    pub name: String,
    /// Its address or addresses.
    pub prefix: Prefix,
    /// Its port; none for all.
    pub port: Option<u16>,
    /// What clients speak.
    pub protocol: Protocol,
    /// Seconds without a packet after which a flow is forgotten.
    pub timeout_s: u32,
    /// What of a packet chooses the real.
    pub affinity: Affinity,
    /// Whether echo requests to its addresses are answered.
    pub echo: bool,
    /// Slots of its table, a prime.
    pub slots: u32,
    /// How packets reach its reals.
    pub via: Via,
    /// Bytes of server ids by configuration of QUIC-LB; 0 where there is none.
    pub server_id_bytes: [u8; ROTATIONS],
    /// Whether its reals are asked if they answer, and how.
    pub health: Option<HealthCheck>,
    /// In the order of the file.
    pub reals: Vec<Real>,
}

/// A server behind a VIP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Real {
    /// Its address, one time in a VIP: end of the tunnel, or neighbour.
    pub address: IpAddr,
    /// Its part of the flows, against the sum of all weights.
    pub weight: u32,
    /// Whether it gets flows.
    pub state: RealState,
    /// Where its frames go; by the host's routes if there is none.
    pub next_hop: Option<MacAddr>,
    /// Its ids in connection ids of QUIC-LB.
    pub server_ids: Vec<ServerId>,
}

/// A server's id: its bytes, the first highest, and how many they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId {
    /// The bytes as a number.
    pub number: u64,
    /// How many bytes.
    pub bytes: u8,
}

/// Whether a real gets flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealState {
    /// New ones and old ones.
    Up,
    /// Old ones until the deadline, in seconds after the configuration that first said so.
    Draining {
        /// Seconds.
        drain_s: u32,
    },
    /// None.
    Down,
}

/// What clients of a VIP speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// QUIC, over UDP.
    Quic,
}

/// What of a packet chooses the real.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Affinity {
    /// Addresses, ports and protocol.
    Flow,
    /// The client's address alone: all that it opens goes to one real.
    Source,
}

/// How packets reach a real.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// Within an IP packet: IPv4 in IPv4 or IPv6, IPv6 in IPv6.
    Ipip,
    /// Within UDP, as generic UDP encapsulation of variant 1, which has no header of its own.
    Gue,
    /// As they are, to the real's hardware address: it has the VIP's address, too.
    Direct,
}

impl Config {
    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place and the fix.
    pub fn read(text: &[u8]) -> Result<Config, ConfigError> {
        check::config(&text::Text::new(text)?)
    }
}
