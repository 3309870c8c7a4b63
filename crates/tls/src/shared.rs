//! What handshakes over TCP and over QUIC share: the account, and the room for those that are not
//! over.

use crate::handshake::{Ending, Handshake};
use crate::ledger::TlsLedger;
use crate::limits::KEPT_BYTES_MAX;

/// Takes handshakes that are over.
pub(crate) type Out<'o> = dyn FnMut(Handshake) + 'o;

/// What all connections share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub ledger: TlsLedger,
    /// Memory of what they keep.
    pub kept: usize,
    /// Handshakes that are not over.
    pub open: u64,
}

impl Shared {
    /// A handshake begins.
    pub fn begin(&mut self) {
        self.ledger.begun += 1;
        self.open += 1;
    }

    /// What is kept of a handshake was `memory` and is `now` from here on. False if that is too
    /// much in all.
    pub fn keep(&mut self, memory: &mut usize, now: usize) -> bool {
        self.kept = self.kept - *memory + now;
        *memory = now;
        self.kept <= KEPT_BYTES_MAX
    }

    /// A handshake that has kept `memory` is over: how, and when.
    pub fn end(
        &mut self,
        mut found: Handshake,
        memory: usize,
        (ending, end_ns): (Ending, u64),
        out: &mut Out<'_>,
    ) {
        self.kept -= memory;
        self.open -= 1;
        self.ledger.client_hellos += u64::from(found.hello.is_some());
        self.ledger.server_hellos += u64::from(found.answer.is_some());
        self.ledger.ended[ending.index()] += 1;
        (found.ending, found.end_ns) = (ending, end_ns);
        out(found);
    }
}
