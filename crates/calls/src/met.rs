//! Where and when something was met.

use crate::call::Transport;
use crate::stream::Endpoint;
use ringside_core::InterfaceId;

/// Where and when a message or packet was met.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Met {
    pub now_ns: u64,
    pub source: Endpoint,
    pub destination: Endpoint,
    pub interface: InterfaceId,
    pub vlan: Option<u16>,
    pub transport: Transport,
}
