//! The one definition of what is known of a transaction.

use crate::DomainName;
use ringside_core::InterfaceId;
use std::net::IpAddr;

/// One end of a conversation.
pub type Endpoint = (IpAddr, u16);

/// A query and its answer, as far as they were seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Which of the protocols that share the format.
    pub protocol: Protocol,
    /// What carried it.
    pub transport: Transport,
    /// Interface that received the packets.
    pub interface: InterfaceId,
    /// Id of the VLAN tag nearest to the IP header.
    pub vlan: Option<u16>,
    /// Who asks; of multicast answers, to whom they go.
    pub client: Endpoint,
    /// Who answers; of multicast queries, to whom they go.
    pub server: Endpoint,
    /// What joins an answer to its query.
    pub id: u16,
    /// The first question, of the query or, if that was not seen, of the answer.
    pub question: Option<Question>,
    /// How many questions there are.
    pub questions: u16,
    /// What was asked; none if that was not seen.
    pub query: Option<Query>,
    /// What was answered; none if that was not seen.
    pub response: Option<Response>,
    /// How it ended.
    pub ending: Ending,
    /// When it was over.
    pub end_ns: u64,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The name.
    pub name: DomainName,
    /// Type of record: 1 is an IPv4 address.
    pub qtype: u16,
    /// Class: 1 is the Internet.
    pub class: u16,
}

/// What was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// When it came.
    pub first_ns: u64,
    /// When it came last.
    pub last_ns: u64,
    /// How often it came again.
    pub retransmissions: u32,
    /// Opcode and flags.
    pub flags: u16,
    /// Bytes of the message.
    pub bytes: u32,
}

/// What was answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// When it came.
    pub stamp_ns: u64,
    /// Opcode, flags and the lower part of the result.
    pub flags: u16,
    /// Result, with the part that OPT has (RFC 6891).
    pub rcode: u16,
    /// How many answers, authority records and additional records it says it has.
    pub counts: [u16; 3],
    /// The records of the answer section, as far as they are kept.
    pub answers: Vec<Answer>,
    /// Bytes of the message.
    pub bytes: u32,
    /// False if records are missing or malformed.
    pub is_whole: bool,
}

/// A record of the answer section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whose it is.
    pub name: DomainName,
    /// Type.
    pub rtype: u16,
    /// Class.
    pub class: u16,
    /// Seconds for which it may be kept.
    pub ttl: u32,
    /// The data as text.
    pub data: String,
}

/// Protocols that share the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// DNS.
    Dns,
    /// Multicast DNS (RFC 6762).
    Mdns,
    /// Link-local multicast name resolution (RFC 4795).
    Llmnr,
}

/// What carries messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A datagram each.
    Udp,
    /// A stream, each after its length.
    Tcp,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// The answer came.
    Answered,
    /// No answer came for long.
    TimedOut,
    /// Another query took its id before an answer came.
    IdReused,
    /// Another query needed its place.
    Displaced,
    /// There was nothing more to see.
    Forced,
    /// An answer whose query was not seen, or came too long before.
    QueryUnseen,
    /// An answer to a query that had been answered.
    AnsweredBefore,
    /// An answer that has the id of a query that waits, and another question.
    OtherQuestion,
    /// A message of a protocol whose queries are for everybody: nothing pairs it.
    Multicast,
}

impl Transaction {
    /// From the query, as it came first, to its answer.
    pub fn latency_ns(&self) -> Option<u64> {
        let (query, response) = (self.query?, self.response.as_ref()?);
        response.stamp_ns.checked_sub(query.first_ns)
    }

    /// When its first message came.
    pub fn first_ns(&self) -> u64 {
        let response = self.response.as_ref().map(|response| response.stamp_ns);
        self.query.map(|query| query.first_ns).or(response).unwrap_or(self.end_ns)
    }

    /// Flags of the answer or, without one, of the query.
    pub fn flags(&self) -> u16 {
        let query = self.query.map_or(0, |query| query.flags);
        self.response.as_ref().map_or(query, |response| response.flags)
    }

    /// Kind of query: 0 is an ordinary one.
    pub fn opcode(&self) -> u8 {
        (self.flags() >> 11 & 0xf) as u8
    }

    /// Messages that it is made of.
    pub fn messages(&self) -> u64 {
        let queries = self.query.map_or(0, |query| 1 + u64::from(query.retransmissions));
        queries + u64::from(self.response.is_some())
    }
}

impl Protocol {
    /// The name in output formats.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Dns => "dns",
            Protocol::Mdns => "mdns",
            Protocol::Llmnr => "llmnr",
        }
    }
}

impl Transport {
    /// The name in output formats.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
        }
    }
}

impl Ending {
    /// All endings, each at its [`index`](Ending::index).
    pub const ALL: [Ending; 9] = [
        Ending::Answered,
        Ending::TimedOut,
        Ending::IdReused,
        Ending::Displaced,
        Ending::Forced,
        Ending::QueryUnseen,
        Ending::AnsweredBefore,
        Ending::OtherQuestion,
        Ending::Multicast,
    ];

    /// The place in tables.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The name in output formats.
    pub fn name(self) -> &'static str {
        match self {
            Ending::Answered => "answered",
            Ending::TimedOut => "timed_out",
            Ending::IdReused => "id_reused",
            Ending::Displaced => "displaced",
            Ending::Forced => "forced",
            Ending::QueryUnseen => "query_unseen",
            Ending::AnsweredBefore => "answered_before",
            Ending::OtherQuestion => "other_question",
            Ending::Multicast => "multicast",
        }
    }
}
