//! One direction: records, and the handshake messages that lie in them (RFC 8446 section 5.1).

use crate::limits::{MESSAGE_BYTES_MAX, RECORD_BYTES_MAX};

/// Content types of records.
const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;

/// Bytes of a record's header, and of a handshake message's.
const HEADER_BYTES: usize = 5;
const MESSAGE_HEADER_BYTES: usize = 4;

/// What a direction says.
pub(crate) enum Said<'m> {
    /// A handshake message: its type and body.
    Message(u8, &'m [u8]),
    /// An alert: its level and number.
    Alert(u8, u8),
    /// What follows is encrypted: a change of the cipher, or data of an application.
    Encrypted,
    /// No record, or a message that is too long.
    NotTls,
}

/// A direction.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// A record's header, as far as it came.
    header: Vec<u8>,
    /// Bytes of the record that are to come.
    left: usize,
    /// A message that is not whole; of an alert as well.
    message: Vec<u8>,
}

impl Records {
    /// Memory that is kept.
    pub fn kept(&self) -> usize {
        self.header.len() + self.message.len()
    }

    /// Takes bytes in until `said` says that it has enough, or all: how many were taken.
    pub fn take_in(&mut self, bytes: &[u8], said: &mut dyn FnMut(Said<'_>) -> bool) -> usize {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.left == 0 {
                let want = HEADER_BYTES - self.header.len();
                let (part, after) = rest.split_at(want.min(rest.len()));
                self.header.extend(part);
                rest = after;
                if self.header.len() == HEADER_BYTES && !self.begin(said) {
                    break;
                }
                continue;
            }
            let (part, after) = rest.split_at(self.left.min(rest.len()));
            self.left -= part.len();
            rest = after;
            if matches!(self.header.first(), Some(&(HANDSHAKE | ALERT))) {
                self.message.extend(part);
                if !self.messages(said) {
                    break;
                }
            }
            if self.left == 0 {
                self.header.clear();
            }
        }
        bytes.len() - rest.len()
    }

    /// A record's header is whole. False if there is enough.
    fn begin(&mut self, said: &mut dyn FnMut(Said<'_>) -> bool) -> bool {
        let &[kind, major, _, high, low] = self.header.as_slice() else { return true };
        let bytes = usize::from(u16::from_be_bytes([high, low]));
        let is_record = major == 3 && (1..=RECORD_BYTES_MAX).contains(&bytes);
        let is_whole = self.message.is_empty();
        self.left = bytes;
        match kind {
            HANDSHAKE if is_record => true,
            ALERT if is_record && is_whole => true,
            CHANGE_CIPHER_SPEC | APPLICATION_DATA if major == 3 && is_whole => {
                said(Said::Encrypted)
            }
            _ => said(Said::NotTls),
        }
    }

    /// Gives the messages that are whole.
    fn messages(&mut self, said: &mut dyn FnMut(Said<'_>) -> bool) -> bool {
        let mut used = 0;
        let mut goes_on = true;
        while goes_on {
            let rest = &self.message[used..];
            if self.header.first() == Some(&ALERT) {
                let &[level, number, ..] = rest else { break };
                used += 2;
                goes_on = said(Said::Alert(level, number));
                continue;
            }
            let &[kind, a, b, c, ref body @ ..] = rest else { break };
            let bytes = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
            if bytes > MESSAGE_BYTES_MAX {
                goes_on = said(Said::NotTls);
                break;
            }
            let Some(body) = body.get(..bytes) else { break };
            used += MESSAGE_HEADER_BYTES + bytes;
            goes_on = said(Said::Message(kind, body));
        }
        self.message.drain(..used);
        goes_on
    }
}
