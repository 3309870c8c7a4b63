//! Where every datagram and every Initial packet went.

use serde::Serialize;

/// The account of QUIC. At any time:
///
/// ```text
/// datagrams = with_initials + retries + version_negotiations + other
/// initials = read + after + undecryptable + cut + malformed
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QuicLedger {
    /// Datagrams of UDP.
    pub datagrams: u64,
    /// Those with Initial packets.
    pub with_initials: u64,
    /// Those in which a server wants the client to begin again, of connections that are known.
    pub retries: u64,
    /// Those in which a server does not have the version, of connections that are known.
    pub version_negotiations: u64,
    /// Those of other protocols, of other versions, and with nothing but packets that are protected
    /// by keys that are not known.
    pub other: u64,
    /// Initial packets.
    pub initials: u64,
    /// Those that were read.
    pub read: u64,
    /// Those of connections whose handshake was over.
    pub after: u64,
    /// Those whose keys are not known, since the first packet was not seen, or that were damaged.
    pub undecryptable: u64,
    /// Those that end before their end.
    pub cut: u64,
    /// Those that are none.
    pub malformed: u64,
}

impl QuicLedger {
    /// True if no datagram and no packet is missing.
    pub fn balances(&self) -> bool {
        let datagrams = self.with_initials + self.retries + self.version_negotiations + self.other;
        let initials = self.read + self.after + self.undecryptable + self.cut + self.malformed;
        datagrams == self.datagrams && initials == self.initials
    }
}
