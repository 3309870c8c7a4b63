//! Where every byte and every handshake went.

use crate::Ending;
use serde::Serialize;

/// The account of handshakes. At any time:
///
/// ```text
/// begun = Σ ended + open
/// bytes delivered by streams = handshake + after + not_tls
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TlsLedger {
    /// ClientHellos of handshakes that ended.
    pub client_hellos: u64,
    /// ServerHellos of these.
    pub server_hellos: u64,
    /// Handshakes that began.
    pub begun: u64,
    /// Handshakes that ended, by how, at [`Ending::index`].
    pub ended: [u64; Ending::ALL.len()],
    /// Bytes that were read of handshakes.
    pub handshake_bytes: u64,
    /// Bytes behind that, encrypted for the most part.
    pub after_bytes: u64,
    /// Bytes of connections, or before the first hello, that are something else.
    pub not_tls_bytes: u64,
}

impl TlsLedger {
    /// Handshakes that ended.
    pub fn ended(&self) -> u64 {
        self.ended.iter().sum()
    }

    /// True if no byte and no handshake is missing: of `delivered` bytes, while `open` handshakes
    /// are not over.
    pub fn balances(&self, delivered: u64, open: u64) -> bool {
        let bytes = self.handshake_bytes + self.after_bytes + self.not_tls_bytes;
        bytes == delivered && self.begun == self.ended() + open
    }
}
