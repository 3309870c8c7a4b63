//! DNS over TCP: messages, each after its length (RFC 1035 section 4.2.2).

use crate::limits::KEPT_BYTES_MAX;
use ringside_proto::dns::looks_like_tcp;

/// What carries DNS by its number.
pub(crate) const DNS_PORT: u16 = 53;

/// Bytes of a length.
const LENGTH_BYTES: usize = 2;

/// What is kept of a connection. Most carry no DNS and have nothing behind it.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    sides: [Side; 2],
}

#[derive(Debug, Default)]
struct Side {
    state: State,
    /// A message that is not whole, with its length.
    kept: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing came yet.
    #[default]
    Fresh,
    /// At the beginning of a message, or within one.
    InStep,
    /// Where messages begin is not known.
    Lost,
    /// Something else.
    Other,
}

/// What the bytes of streams are, apart from messages.
#[derive(Debug, Default)]
pub(crate) struct Bytes {
    pub framing: u64,
    pub unread: u64,
    pub not_dns: u64,
    /// Of messages that are not whole, over all connections.
    pub kept: usize,
}

impl Kept {
    /// The next bytes of a direction, of a connection with these ports. Messages go to `message`.
    pub fn data(
        &mut self,
        side: usize,
        ports: [u16; 2],
        bytes: &[u8],
        shared: &mut Bytes,
        message: &mut dyn FnMut(&[u8]),
    ) {
        let side = &mut self.sides[side];
        if matches!(side.state, State::Fresh | State::Lost) {
            let is_dns = ports.contains(&DNS_PORT);
            side.state = match (side.state, looks_like_tcp(bytes)) {
                (_, true) => State::InStep,
                (State::Fresh, false) if is_dns => State::InStep,
                (State::Fresh, false) => State::Other,
                (_, false) => State::Lost,
            };
        }
        match side.state {
            State::Other => shared.not_dns += bytes.len() as u64,
            State::Lost => shared.unread += bytes.len() as u64,
            _ => side.in_step(bytes, shared, message),
        }
    }

    /// Bytes of a direction are missing.
    pub fn gap(&mut self, side: usize, shared: &mut Bytes) {
        let side = &mut self.sides[side];
        side.forget(shared);
        if side.state != State::Other {
            side.state = State::Lost;
        }
    }

    /// The connection is over.
    pub fn close(&mut self, shared: &mut Bytes) {
        self.sides.iter_mut().for_each(|side| side.forget(shared));
    }
}

impl Side {
    fn forget(&mut self, shared: &mut Bytes) {
        let kept = std::mem::take(&mut self.kept).len();
        shared.kept -= kept;
        shared.unread += kept as u64;
    }

    fn in_step(&mut self, mut bytes: &[u8], shared: &mut Bytes, message: &mut dyn FnMut(&[u8])) {
        while !bytes.is_empty() {
            if self.kept.is_empty()
                && let Some((whole, rest)) = split(bytes)
            {
                shared.framing += LENGTH_BYTES as u64;
                message(whole);
                bytes = rest;
                continue;
            }
            let want = wanted(&self.kept).saturating_sub(self.kept.len());
            let (part, rest) = bytes.split_at(want.min(bytes.len()));
            if shared.kept + part.len() > KEPT_BYTES_MAX {
                self.forget(shared);
                shared.unread += bytes.len() as u64;
                self.state = State::Lost;
                return;
            }
            self.kept.extend(part);
            shared.kept += part.len();
            bytes = rest;
            if let Some((whole, _)) = split(&self.kept) {
                shared.framing += LENGTH_BYTES as u64;
                message(whole);
                shared.kept -= self.kept.len();
                self.kept = Vec::new();
            }
        }
    }
}

/// The message that bytes begin with, if it is whole, and what is behind it.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

/// Bytes of the message that a part begins, with its length.
fn wanted(part: &[u8]) -> usize {
    let length = part.first_chunk::<LENGTH_BYTES>();
    LENGTH_BYTES + length.map_or(0, |length| usize::from(u16::from_be_bytes(*length)))
}
