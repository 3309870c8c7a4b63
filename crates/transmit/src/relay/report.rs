//! The account of a relay.

use crate::replay::Ended;
use ringside_core::ledger::Consumer;
use ringside_core::{LaneCounters, Ledger, SinkCounters};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Why a frame was not sent on. Serialised in snake case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NotRelayed {
    /// Its link type is not Ethernet.
    LinkType,
    /// Shorter than an Ethernet header.
    TooShort,
    /// Bytes of it are missing: it was cut when it was captured, or its headers say more.
    Truncated,
    /// Too long, and its headers contradict themselves.
    Malformed,
    /// Too long, and neither TCP nor UDP behind headers that can be repeated.
    Protocol,
    /// Too long, and a fragment of a packet.
    Fragment,
    /// Too long, UDP, and must not be fragmented: DF, or IPv6, which routers do not fragment.
    DontFragment,
    /// Too long, UDP, and fragments were not wanted.
    FragmentsOff,
    /// Too long, and its headers are of one frame only: SYN, RST, urgent data, signatures, GRE with
    /// sequence numbers, jumbo payloads.
    NotDivisible,
    /// Too long, and a checksum is wrong: new ones would hide that.
    BadChecksum,
    /// Its headers leave too little room in the MTU.
    HeadersTooLong,
    /// The sink had failed.
    SinkFailed,
}

impl NotRelayed {
    /// The name in output formats.
    pub fn name(self) -> &'static str {
        match self {
            NotRelayed::LinkType => "link_type",
            NotRelayed::TooShort => "too_short",
            NotRelayed::Truncated => "truncated",
            NotRelayed::Malformed => "malformed",
            NotRelayed::Protocol => "protocol",
            NotRelayed::Fragment => "fragment",
            NotRelayed::DontFragment => "dont_fragment",
            NotRelayed::FragmentsOff => "fragments_off",
            NotRelayed::NotDivisible => "not_divisible",
            NotRelayed::BadChecksum => "bad_checksum",
            NotRelayed::HeadersTooLong => "headers_too_long",
            NotRelayed::SinkFailed => "sink_failed",
        }
    }
}

impl fmt::Display for NotRelayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Every frame of a relay:
/// `received = whole + cut + Σ not_relayed`, `whole + segments = offered + not_offered`, and the
/// sink's own `offered = accepted + Σ refused`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RelayReport {
    /// Frames that the source lent.
    pub received: u64,
    /// Of these, sent on as they are; padding of the link may be left out.
    pub whole: u64,
    /// Of these, cut.
    pub cut: u64,
    /// Frames that those became.
    pub segments: u64,
    /// Of these, not sent on, by cause.
    pub not_relayed: BTreeMap<NotRelayed, u64>,
    /// Frames to be sent for which the sink had no room for a second, or that were left when it
    /// failed.
    pub not_offered: u64,
    /// What became of the others.
    #[serde(flatten)]
    pub sent: SinkCounters,
    /// From the start of the source to the end of the sink, in nanoseconds.
    pub elapsed_ns: u64,
    /// How it ended.
    pub ended: Ended,
    /// The error that ended it.
    pub failure: Option<String>,
    /// The receiving side.
    #[serde(skip)]
    pub lane: LaneCounters,
}

impl RelayReport {
    pub(super) fn refuse(&mut self, cause: NotRelayed) {
        *self.not_relayed.entry(cause).or_default() += 1;
    }

    /// Frames that were not sent on, for whatever cause.
    pub fn not_relayed_total(&self) -> u64 {
        self.not_relayed.values().sum()
    }

    /// The ledger of the receiving side.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = Ledger::from_lanes(vec![self.lane.clone()]);
        let name = "relay".to_owned();
        ledger.consumers.push(Consumer { name, delivered: self.received, ..Consumer::default() });
        ledger
    }

    /// True if the three accounts balance.
    pub fn is_balanced(&self) -> bool {
        self.received == self.whole + self.cut + self.not_relayed_total()
            && self.whole + self.segments == self.sent.offered + self.not_offered
            && self.sent.is_balanced()
    }

    /// True if all that reached the interface was sent on and taken.
    pub fn is_complete(&self) -> bool {
        let sent = self.whole + self.segments;
        self.failure.is_none()
            && self.not_relayed.is_empty()
            && self.sent.accepted == sent
            && self.ledger().lost() == self.past_limit()
    }

    /// Frames that came when enough had been taken.
    fn past_limit(&self) -> u64 {
        self.lane.dropped.get(&ringside_core::Cause::LimitReached).copied().unwrap_or(0)
    }
}
