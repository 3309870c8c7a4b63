//! One connection over QUIC: its keys, and what its Initial packets say.

use super::crypto_stream::CryptoStream;
use super::keys::{Keys, Opened, Role};
use crate::handshake::{Ending, Handshake};
use ringside_proto::quic::{Frame, Frames, ID_BYTES_MAX, Initial, Version};

/// Errors from here on are alerts of TLS (RFC 9001 section 4.8).
const ALERTS: u64 = 0x100;

/// What an end calls a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ConnectionId {
    bytes: [u8; ID_BYTES_MAX],
    length: u8,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// What the client called the server first, or first after a Retry: the keys are made of it.
    first: ConnectionId,
    /// That of the keys.
    version: Version,
    keys: Keys,
    /// The number behind the highest that came, of each [`Role`].
    expected: [u64; 2],
    /// The server has sent an Initial packet.
    pub is_answered: bool,
    /// The server has sent a Retry.
    pub is_retried: bool,
    /// The server does not know the version: what comes in another one is another connection.
    pub is_refused: bool,
    /// None if its handshake is over.
    pub conversation: Option<Box<Conversation>>,
    /// When it is forgotten.
    pub due_ns: u64,
}

/// A handshake that is not over.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub found: Handshake,
    /// What each [`Role`] has said.
    said: [CryptoStream; 2],
    /// What is counted of its memory.
    pub memory: usize,
}

impl ConnectionId {
    /// Of at most [`ID_BYTES_MAX`] bytes, as all are that were read.
    pub fn new(id: &[u8]) -> ConnectionId {
        let mut bytes = [0; ID_BYTES_MAX];
        bytes[..id.len()].copy_from_slice(id);
        ConnectionId { bytes, length: id.len() as u8 }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl Connection {
    /// One that begins with a packet of the client, which these keys opened.
    pub fn new(packet: &Initial<'_>, keys: Keys, found: Handshake) -> Connection {
        let conversation = Conversation { found, said: Default::default(), memory: 0 };
        Connection {
            first: ConnectionId::new(packet.ids.destination),
            version: packet.version,
            keys,
            expected: [0; 2],
            is_answered: false,
            is_retried: false,
            is_refused: false,
            conversation: Some(Box::new(conversation)),
            due_ns: 0,
        }
    }

    /// True if the client may begin again with a packet like this one, in answer to a Retry: also
    /// to one that was not seen, since the packet has the token.
    pub fn may_begin_again(&self, packet: &Initial<'_>) -> bool {
        !self.is_answered && (self.is_retried || !packet.token.is_empty())
    }

    /// The client begins again with a packet, which these keys opened.
    pub fn begin_again(&mut self, packet: &Initial<'_>, keys: Keys) {
        self.first = ConnectionId::new(packet.ids.destination);
        (self.version, self.keys) = (packet.version, keys);
    }

    /// True if other keys than those of the connection are made of what a packet of the client
    /// calls the server.
    pub fn has_other_keys(&self, packet: &Initial<'_>) -> bool {
        (self.first, self.version) != (ConnectionId::new(packet.ids.destination), packet.version)
    }

    /// Opens a packet in `scratch`. A server may answer in another version than the client began
    /// with; keys of both are made of the same id (RFC 9369 section 4).
    pub fn open(
        &self,
        sender: Role,
        packet: &Initial<'_>,
        scratch: &mut Vec<u8>,
    ) -> Option<Opened> {
        let expected = self.expected[sender as usize];
        if packet.version == self.version {
            return self.keys.open(sender, packet, expected, scratch);
        }
        if self.is_refused {
            return None;
        }
        let keys = Keys::new(packet.version, self.first.as_bytes());
        keys.open(sender, packet, expected, scratch)
    }

    /// A packet of this number was opened.
    pub fn note(&mut self, sender: Role, version: Version, number: u64) {
        let expected = &mut self.expected[sender as usize];
        *expected = (*expected).max(number.saturating_add(1));
        if version != self.version {
            self.version = version;
            self.keys = Keys::new(version, self.first.as_bytes());
        }
        self.is_answered |= sender == Role::Server;
        if let Some(conversation) = &mut self.conversation {
            conversation.found.quic = Some(version);
        }
    }
}

impl Conversation {
    /// Memory that it takes, about.
    pub fn memory_now(&self) -> usize {
        let said = self.said.iter().map(CryptoStream::kept).sum::<usize>();
        size_of::<Conversation>() + self.found.memory() + said
    }

    /// Takes in what a packet says: how the handshake ends by it, if it does. False if it was not
    /// understood to its end.
    pub fn take_in(
        &mut self,
        sender: Role,
        payload: &[u8],
        stamp_ns: u64,
        ending: &mut Option<Ending>,
    ) -> bool {
        for frame in Frames::new(payload) {
            *ending = match frame {
                Ok(Frame::Crypto { offset, bytes }) => self.crypto(sender, offset, bytes, stamp_ns),
                Ok(Frame::Close { error }) => Some(self.close(error)),
                Err(_) => return false,
            };
            if ending.is_some() {
                break;
            }
        }
        true
    }

    fn crypto(&mut self, sender: Role, offset: u64, bytes: &[u8], stamp_ns: u64) -> Option<Ending> {
        // The client's first hello is read, as over TCP, and nothing behind it.
        if sender == Role::Client && self.found.hello.is_some() {
            return None;
        }
        let said = &mut self.said[sender as usize];
        if said.take_in(offset, bytes).is_err() {
            return Some(Ending::NotTls);
        }
        while let Some((kind, body)) = said.next_message() {
            let ending = match sender {
                Role::Client => self.found.client(kind, body, stamp_ns),
                Role::Server => self.found.server(kind, body, stamp_ns),
            };
            if ending.is_some() || sender == Role::Client {
                return ending;
            }
        }
        None
    }

    fn close(&mut self, error: u64) -> Ending {
        match error.checked_sub(ALERTS).and_then(|alert| u8::try_from(alert).ok()) {
            Some(alert) => {
                self.found.alert = Some(alert);
                Ending::Alert
            }
            None => Ending::Closed,
        }
    }
}
