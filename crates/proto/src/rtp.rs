//! RTP (RFC 3550 section 5.1): the header of a packet, and the payload of telephone events
//! (RFC 4733). A packet has nothing that says it is RTP: callers know it, or look at several.

use crate::outcome::Outcome;

/// Bytes of the part of the header that every packet has.
pub const HEADER_BYTES: usize = 12;

/// An RTP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtp<'a> {
    /// What begins here, for one the speech after a silence.
    pub marker: bool,
    /// Which codec, as was agreed or as RFC 3551 has it.
    pub payload_type: u8,
    /// Counts packets.
    pub sequence: u16,
    /// Counts samples.
    pub timestamp: u32,
    /// Who sends.
    pub ssrc: u32,
    /// The payload, without padding, as far as it was captured.
    pub payload: &'a [u8],
    /// Sources, extension or padding are longer than the packet; there is no payload then.
    pub is_malformed: bool,
}

/// Reads a datagram that had `wire_bytes` bytes on the wire, of which `bytes` were captured.
pub fn parse(bytes: &[u8], wire_bytes: usize) -> Outcome<Rtp<'_>> {
    match bytes.first() {
        Some(first) if first >> 6 != 2 => return Outcome::NotThis,
        _ if wire_bytes < HEADER_BYTES => return Outcome::NotThis,
        _ => {}
    }
    let &[first, second, s0, s1, t0, t1, t2, t3, c0, c1, c2, c3, ref rest @ ..] = bytes else {
        // Cut within the header: no number of it is known.
        return Outcome::NotThis;
    };
    let payload = payload(first, rest, wire_bytes - HEADER_BYTES);
    let rtp = Rtp {
        marker: second & 0x80 != 0,
        payload_type: second & 0x7f,
        sequence: u16::from_be_bytes([s0, s1]),
        timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
        ssrc: u32::from_be_bytes([c0, c1, c2, c3]),
        payload: payload.unwrap_or_default(),
        is_malformed: payload.is_none(),
    };
    match bytes.len() < wire_bytes {
        true => Outcome::Incomplete(rtp),
        false => Outcome::Fields(rtp),
    }
}

/// What is behind sources and extension and before padding; `None` if these are longer than `wire`
/// bytes.
fn payload(first: u8, rest: &[u8], wire: usize) -> Option<&[u8]> {
    let mut start = 4 * usize::from(first & 0xf);
    if first & 0x10 != 0 {
        let Some(&[_, _, high, low]) = rest.get(start..).and_then(<[u8]>::first_chunk) else {
            return (start + 4 <= wire && rest.len() < wire).then_some(&[]);
        };
        start += 4 + 4 * usize::from(u16::from_be_bytes([high, low]));
    }
    let is_whole = rest.len() >= wire;
    let padding = match rest.last() {
        Some(&last) if first & 0x20 != 0 && is_whole => usize::from(last).max(1),
        _ => 0,
    };
    if start + padding > wire {
        return None;
    }
    let end = rest.len().saturating_sub(padding);
    Some(rest.get(start.min(end)..end).unwrap_or_default())
}

/// A report of a telephone event: a key that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TelephoneEvent {
    /// Number of the event.
    pub event: u8,
    /// It is over.
    pub is_end: bool,
    /// How long it lasts so far, in units of the timestamp.
    pub duration: u16,
}

impl TelephoneEvent {
    /// Reads the payload of a packet.
    pub fn new(payload: &[u8]) -> Option<TelephoneEvent> {
        let &[event, flags, high, low] = payload.first_chunk()?;
        let duration = u16::from_be_bytes([high, low]);
        Some(TelephoneEvent { event, is_end: flags & 0x80 != 0, duration })
    }

    /// The key of a telephone, where it is one.
    pub fn digit(&self) -> Option<char> {
        b"0123456789*#ABCD".get(usize::from(self.event)).map(|&key| char::from(key))
    }
}
