//! The one definition of what is known of a flow.

use ringside_core::InterfaceId;
use ringside_wire::{IpProtocol, TunnelId};
use std::net::IpAddr;

/// What a flow added up to, from its initiator's side: all of it, or since its last record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Number of the flow, from 1. All records of one flow have the same.
    pub flow_id: u64,
    /// Number of this record among those of its flow, from 1; 65,535 is that or any later one.
    pub part: u16,
    /// Why the record was made.
    pub end: EndReason,
    /// Interface that received the packets.
    pub interface: InterfaceId,
    /// Address of the initiator: the host that sent the first packet seen, or answered it with SYN
    /// and ACK where that was the first.
    pub source: IpAddr,
    /// Address of the responder.
    pub destination: IpAddr,
    /// Port of the initiator; for ICMP the type of its messages. 0 without ports.
    pub source_port: u16,
    /// Port of the responder; for ICMP the type of the answers or, of messages without, the code.
    pub destination_port: u16,
    /// True if the first packet says that it is one: a SYN, or a question of ICMP.
    pub is_initiator_known: bool,
    /// True for ICMP messages that have no answer: `destination_port` is a code.
    pub is_one_way: bool,
    /// False if some packets were added up before they came here, by a cache in the kernel: what
    /// only a look at each segment tells (retransmissions, order, zero windows, round trips, what
    /// the flow carries) is unknown then, and 0 or absent.
    pub is_followed: bool,
    /// Protocol above IP and its extension headers.
    pub protocol: IpProtocol,
    /// Id of the VLAN tag nearest to the IP header.
    pub vlan: Option<u16>,
    /// Tunnel that carries this IP header.
    pub tunnel: Option<TunnelId>,
    /// From the initiator to the responder.
    pub forward: Side,
    /// From the responder to the initiator.
    pub reverse: Side,
    /// What the flow carries, as far as it was recognised.
    pub application: Option<Application>,
    /// From the SYN to the answer to it: the way from here to the responder and back.
    pub rtt_responder_ns: Option<u32>,
    /// From that answer to the initiator's: the way from here to the initiator and back.
    pub rtt_initiator_ns: Option<u32>,
}

/// One direction of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// Packets.
    pub packets: u64,
    /// Octets on the wire, from the link layer's header on.
    pub octets: u64,
    /// Octets of the IP packets, headers included: of the inner ones in a tunnel.
    pub ip_octets: u64,
    /// Earliest stamp, nanoseconds since 1970; 0 without packets.
    pub first_ns: u64,
    /// Latest stamp, nanoseconds since 1970; 0 without packets.
    pub last_ns: u64,
    /// All flags that some TCP segment had, together.
    pub tcp_flags: u16,
    /// Type of service, or traffic class, of the first packet.
    pub tos: u8,
    /// Label at the top of the first packet's MPLS stack.
    pub mpls_label: Option<u32>,
    /// Segments whose bytes were seen before.
    pub retransmissions: u32,
    /// Segments that filled a gap.
    pub out_of_order: u32,
    /// Segments that said that there is no room for more.
    pub zero_windows: u32,
}

impl Record {
    /// Packets of both directions.
    pub fn packets(&self) -> u64 {
        self.forward.packets + self.reverse.packets
    }

    /// Octets on the wire of both directions.
    pub fn octets(&self) -> u64 {
        self.forward.octets + self.reverse.octets
    }

    /// Earliest stamp of both directions.
    pub fn first_ns(&self) -> u64 {
        let seen = [&self.forward, &self.reverse].into_iter().filter(|side| side.packets > 0);
        seen.map(|side| side.first_ns).min().unwrap_or(0)
    }

    /// Latest stamp of both directions.
    pub fn last_ns(&self) -> u64 {
        self.forward.last_ns.max(self.reverse.last_ns)
    }

    /// True if the ports are those of a protocol that has some.
    pub fn has_ports(&self) -> bool {
        matches!(self.protocol, IpProtocol::TCP | IpProtocol::UDP | IpProtocol::SCTP)
    }

    /// The protocol's short name in lower case, where it has one here.
    pub fn protocol_name(&self) -> Option<&'static str> {
        Some(match self.protocol {
            IpProtocol::TCP => "tcp",
            IpProtocol::UDP => "udp",
            IpProtocol::SCTP => "sctp",
            IpProtocol::ICMP => "icmp",
            IpProtocol::ICMPV6 => "ipv6-icmp",
            IpProtocol::IGMP => "igmp",
            IpProtocol::GRE => "gre",
            _ => return None,
        })
    }

    /// The same from the responder's side.
    pub fn reversed(&self) -> Record {
        Record {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            forward: self.reverse,
            reverse: self.forward,
            ..self.clone()
        }
    }

    /// Type and code of the initiator's messages, if this is ICMP or ICMPv6.
    pub fn icmp(&self) -> Option<(u8, u8)> {
        matches!(self.protocol, IpProtocol::ICMP | IpProtocol::ICMPV6).then_some(())?;
        // Messages that have an answer have code 0.
        let code = if self.is_one_way { self.destination_port } else { 0 };
        Some((self.source_port as u8, code as u8))
    }
}

/// Why a record was made: flowEndReason of IPFIX, with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum EndReason {
    /// No packet came for the idle time-out.
    Idle = 1,
    /// The active time-out passed; the flow may go on in another record.
    Active = 2,
    /// Its end was seen: FIN in both directions, or RST.
    End = 3,
    /// The metering ended.
    Forced = 4,
    /// Another flow needed its place.
    LackOfResources = 5,
}

impl EndReason {
    /// All reasons, each at its [`index`](EndReason::index).
    pub const ALL: [EndReason; 5] = [
        EndReason::Idle,
        EndReason::Active,
        EndReason::End,
        EndReason::Forced,
        EndReason::LackOfResources,
    ];

    /// The place in tables.
    pub fn index(self) -> usize {
        self as usize - 1
    }

    /// The name in output formats.
    pub fn name(self) -> &'static str {
        match self {
            EndReason::Idle => "idle",
            EndReason::Active => "active",
            EndReason::End => "end",
            EndReason::Forced => "forced",
            EndReason::LackOfResources => "lack_of_resources",
        }
    }
}

/// What a flow carries, by its first messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // each is the name of its protocol
pub enum Application {
    Http,
    Sip,
    Dns,
    Tls,
}

impl Application {
    /// The name in output formats.
    pub fn name(self) -> &'static str {
        match self {
            Application::Http => "http",
            Application::Sip => "sip",
            Application::Dns => "dns",
            Application::Tls => "tls",
        }
    }
}
