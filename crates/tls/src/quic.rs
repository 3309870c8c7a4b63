//! Hellos over QUIC (RFC 9000, 9001 and 9369): connections by their clients' Initial packets.
//!
//! A client names itself by an id that stays the same until it has the server's hello: its packets
//! have it as the source, the server's as the destination. With the addresses this tells one
//! connection from others, whatever either end calls the server meanwhile. Nothing is kept of a
//! packet that its keys do not open.

mod connection;
mod crypto_stream;
mod keys;
mod ledger;

pub use ledger::QuicLedger;

use crate::handshake::{Ending, Handshake};
use crate::limits::{DATAGRAM_PACKETS_MAX, QUIC_CONNECTIONS_MAX, QUIC_IDLE_NS};
use crate::shared::{Out, Shared};
use connection::{Connection, ConnectionId};
use keys::{Keys, Opened, Role};
use ringside_core::{RecentTable, Timestamp};
use ringside_inspect::Key;
use ringside_proto::Stop;
use ringside_proto::quic::{Ids, Initial, Packet, Packets};
use ringside_streams::Datagram;
use std::collections::BTreeSet;

/// What tells connections apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Id {
    key: Key,
    client_high: bool,
    client: ConnectionId,
}

/// Connections over QUIC.
#[derive(Debug)]
pub(crate) struct Connections {
    table: RecentTable<Id, Connection>,
    /// Times at which places are due, in order.
    dues: BTreeSet<(u64, usize)>,
    ledger: QuicLedger,
    /// Connections that began.
    begun: u64,
    now_ns: u64,
    /// A packet without its protection.
    scratch: Vec<u8>,
}

/// Where a packet was met.
#[derive(Clone, Copy, Debug)]
struct Met {
    key: Key,
    from_high: bool,
}

impl Met {
    fn id(&self, sender: Role, ids: &Ids<'_>) -> Id {
        let (client, client_high) = match sender {
            Role::Client => (ids.source, self.from_high),
            Role::Server => (ids.destination, !self.from_high),
        };
        Id { key: self.key, client_high, client: ConnectionId::new(client) }
    }
}

impl Connections {
    /// At most `connections` of them.
    pub fn new(connections: usize) -> Connections {
        Connections {
            table: RecentTable::new(connections.clamp(1, QUIC_CONNECTIONS_MAX)),
            dues: BTreeSet::new(),
            ledger: QuicLedger::default(),
            begun: 0,
            now_ns: 0,
            scratch: Vec::new(),
        }
    }

    /// The account.
    pub fn ledger(&self) -> &QuicLedger {
        &self.ledger
    }

    /// Takes a datagram in.
    #[inline]
    pub fn datagram(&mut self, datagram: &Datagram<'_>, shared: &mut Shared, out: &mut Out<'_>) {
        self.ledger.datagrams += 1;
        // What has a short header says nothing that can be read.
        if datagram.payload.first().is_some_and(|first| first & 0x80 != 0) {
            self.packets(datagram, shared, out);
        } else {
            self.ledger.other += 1;
        }
    }

    fn packets(&mut self, datagram: &Datagram<'_>, shared: &mut Shared, out: &mut Out<'_>) {
        if datagram.stamp != Timestamp::default() {
            self.now_ns = datagram.stamp.0;
        }
        let met = Met { key: datagram.key.paired(), from_high: datagram.from_high };
        let is_cut = (datagram.payload.len() as u32) < datagram.payload_bytes;
        let initials = self.ledger.initials;
        let (mut is_retry, mut is_negotiation) = (false, false);
        for packet in Packets::new(datagram.payload).take(DATAGRAM_PACKETS_MAX) {
            let is_initial = matches!(packet, Packet::Initial(_) | Packet::Unread(_));
            self.ledger.initials += u64::from(is_initial);
            match packet {
                Packet::Initial(packet) => self.initial(&packet, &met, shared, out),
                Packet::Unread(Stop::Cut) if is_cut => self.ledger.cut += 1,
                Packet::Unread(_) => self.ledger.malformed += 1,
                Packet::Retry(ids) => is_retry = self.retry(&met, &ids),
                Packet::VersionNegotiation(ids) => {
                    is_negotiation = self.negotiation(&met, &ids, shared, out);
                }
                Packet::Other => {}
            }
        }
        let ledger = &mut self.ledger;
        *match (ledger.initials > initials, is_retry, is_negotiation) {
            (true, ..) => &mut ledger.with_initials,
            (_, true, _) => &mut ledger.retries,
            (.., true) => &mut ledger.version_negotiations,
            _ => &mut ledger.other,
        } += 1;
    }

    fn initial(&mut self, packet: &Initial<'_>, met: &Met, shared: &mut Shared, out: &mut Out<'_>) {
        let mut scratch = std::mem::take(&mut self.scratch);
        match self.open(packet, met, &mut scratch, shared, out) {
            Some((at, sender, Opened { number, payload })) => {
                self.table.at_mut(at).value.note(sender, packet.version, number);
                self.take_in(at, sender, &scratch[payload], shared, out);
            }
            None => self.ledger.undecryptable += 1,
        }
        self.scratch = scratch;
    }

    /// Opens a packet: of which connection it is, and who sent it.
    fn open(
        &mut self,
        packet: &Initial<'_>,
        met: &Met,
        scratch: &mut Vec<u8>,
        shared: &mut Shared,
        out: &mut Out<'_>,
    ) -> Option<(usize, Role, Opened)> {
        let mut known = None;
        for sender in [Role::Server, Role::Client] {
            known = self.find(&met.id(sender, &packet.ids), shared, out);
            let Some(at) = known else { continue };
            if let Some(opened) = self.table.at(at).value.open(sender, packet, scratch) {
                return Some((at, sender, opened));
            }
        }
        if known.is_some_and(|at| !self.table.at(at).value.has_other_keys(packet)) {
            return None;
        }
        let keys = Keys::new(packet.version, packet.ids.destination);
        let opened = keys.open(Role::Client, packet, 0, scratch)?;
        let at = match known {
            Some(at) if self.table.at(at).value.may_begin_again(packet) => {
                self.table.at_mut(at).value.begin_again(packet, keys);
                at
            }
            Some(at) => {
                self.leave(at, Ending::Reused, self.now_ns, shared, out);
                self.begin(packet, met, keys, shared, out)
            }
            None => self.begin(packet, met, keys, shared, out),
        };
        Some((at, Role::Client, opened))
    }

    /// The place of a connection. One that was due before now is over, and its place free.
    fn find(&mut self, id: &Id, shared: &mut Shared, out: &mut Out<'_>) -> Option<usize> {
        let at = self.table.find(id, self.table.hash(id))?;
        let due_ns = self.table.at(at).value.due_ns;
        if due_ns > self.now_ns {
            return Some(at);
        }
        self.leave(at, Ending::Idle, due_ns, shared, out);
        None
    }

    /// A connection begins with this packet of its client.
    fn begin(
        &mut self,
        packet: &Initial<'_>,
        met: &Met,
        keys: Keys,
        shared: &mut Shared,
        out: &mut Out<'_>,
    ) -> usize {
        if let Some(at) = self.table.must_go() {
            self.leave(at, Ending::Displaced, self.now_ns, shared, out);
        }
        self.begun += 1;
        shared.begin();
        let found = Handshake {
            quic: Some(packet.version),
            ..Handshake::new(self.begun, &met.key, met.from_high, self.now_ns)
        };
        let id = met.id(Role::Client, &packet.ids);
        let hash = self.table.hash(&id);
        self.table.put(id, hash, self.now_ns, Connection::new(packet, keys, found))
    }

    /// Takes in what a packet says.
    fn take_in(
        &mut self,
        at: usize,
        sender: Role,
        payload: &[u8],
        shared: &mut Shared,
        out: &mut Out<'_>,
    ) {
        self.set_due(at);
        let entry = self.table.at_mut(at);
        let Some(conversation) = &mut entry.value.conversation else {
            self.ledger.after += 1;
            return;
        };
        entry.seen = self.now_ns;
        let mut ending = None;
        match conversation.take_in(sender, payload, self.now_ns, &mut ending) {
            true => self.ledger.read += 1,
            false => self.ledger.malformed += 1,
        }
        let now = conversation.memory_now();
        if !shared.keep(&mut conversation.memory, now) {
            ending = ending.or(Some(Ending::NoRoom));
        }
        if let Some(ending) = ending {
            self.end(at, ending, self.now_ns, shared, out);
        }
    }

    /// A Retry of a server. False if its connection is not known.
    fn retry(&mut self, met: &Met, ids: &Ids<'_>) -> bool {
        let id = met.id(Role::Server, ids);
        let at = self.table.find(&id, self.table.hash(&id));
        at.map(|at| self.table.at_mut(at).value.is_retried = true).is_some()
    }

    /// A Version Negotiation of a server, which has no meaning behind an answer (RFC 9000 section
    /// 6.2). False if its connection is not known.
    fn negotiation(
        &mut self,
        met: &Met,
        ids: &Ids<'_>,
        shared: &mut Shared,
        out: &mut Out<'_>,
    ) -> bool {
        let Some(at) = self.find(&met.id(Role::Server, ids), shared, out) else { return false };
        if !self.table.at(at).value.is_answered {
            self.table.at_mut(at).value.is_refused = true;
            self.end(at, Ending::OtherVersion, self.now_ns, shared, out);
        }
        true
    }

    /// The handshake of a connection is over, which is known for a while yet, for what is sent
    /// again.
    fn end(
        &mut self,
        at: usize,
        ending: Ending,
        end_ns: u64,
        shared: &mut Shared,
        out: &mut Out<'_>,
    ) {
        let entry = self.table.at_mut(at);
        // The next connection that needs a place may have this one's.
        entry.seen = 0;
        if let Some(conversation) = entry.value.conversation.take() {
            shared.end(conversation.found, conversation.memory, (ending, end_ns), out);
        }
    }

    /// Frees a place; a handshake that is not over ends.
    fn leave(
        &mut self,
        at: usize,
        ending: Ending,
        end_ns: u64,
        shared: &mut Shared,
        out: &mut Out<'_>,
    ) {
        self.end(at, ending, end_ns, shared, out);
        let due_ns = self.table.remove(at).value.due_ns;
        self.dues.remove(&(due_ns, at));
    }

    fn set_due(&mut self, at: usize) {
        let connection = &mut self.table.at_mut(at).value;
        self.dues.remove(&(connection.due_ns, at));
        connection.due_ns = self.now_ns.saturating_add(QUIC_IDLE_NS);
        self.dues.insert((connection.due_ns, at));
    }

    /// Time has come to `now`: connections that waited for long enough are over, each at the time
    /// at which that was due.
    pub fn tick(&mut self, now: Timestamp, shared: &mut Shared, out: &mut Out<'_>) {
        while let Some(&(due_ns, at)) = self.dues.first() {
            if due_ns > now.0 {
                break;
            }
            self.leave(at, Ending::Idle, due_ns, shared, out);
        }
    }

    /// Ends all, in the order in which they would have been due.
    pub fn finish(&mut self, shared: &mut Shared, out: &mut Out<'_>) {
        while let Some(&(_, at)) = self.dues.first() {
            self.leave(at, Ending::Forced, self.now_ns, shared, out);
        }
    }
}

#[cfg(test)]
mod tests;
