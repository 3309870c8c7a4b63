//! Where in a TCP stream TLS ends its handshake: the first record of application data.
//!
//! Nothing is put together. A direction is followed by the sequence number of its next record, as
//! long as its segments come in order; where that is lost, it goes on at the next segment that
//! begins with a record, and meanwhile nothing is cut.

/// Content types of records (RFC 8446, section 5.1; 24 is the heartbeat of RFC 6520).
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;
const CONTENT_TYPES: std::ops::RangeInclusive<u8> = 20..=24;

/// Type, version, length.
const RECORD_HEADER_BYTES: usize = 5;

/// Longest body of a record: 2^14 bytes and what encryption adds (RFC 5246, section 6.2.3).
const RECORD_BYTES_MAX: u16 = (1 << 14) + 2048;

/// One direction of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TlsSide {
    /// Nothing was sent.
    #[default]
    Silent,
    /// It does not begin as TLS does.
    Other,
    /// Handshake; the next record begins at this sequence number.
    Handshake(u32),
    /// Handshake; a segment ended within the header of a record, the next begins here.
    Split(u32, Head),
    /// Handshake; where the next record begins was not seen.
    Lost,
    /// Application data has begun.
    Application,
}

/// The beginning of a record's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    bytes: [u8; RECORD_HEADER_BYTES],
    count: u8,
}

impl TlsSide {
    /// Takes in a segment. Says how many bytes of its payload come before application data; `None`
    /// for all.
    pub(super) fn see(&mut self, sequence: u32, payload: &[u8]) -> Option<usize> {
        if payload.is_empty() {
            return None;
        }
        if let TlsSide::Split(next, head) = *self {
            *self = head.joined(next, sequence, payload);
        }
        let start = match *self {
            TlsSide::Other | TlsSide::Split(..) => return None,
            TlsSide::Application => return Some(0),
            TlsSide::Silent | TlsSide::Lost => 0,
            TlsSide::Handshake(next) => match next.wrapping_sub(sequence) as i32 {
                // Within a record, or sent again.
                ahead @ 0.. if ahead as usize >= payload.len() => return None,
                ahead @ 0.. => ahead as usize,
                // Something before it is missing.
                _ => {
                    *self = TlsSide::Lost;
                    0
                }
            },
        };
        self.walk(sequence, payload, start)
    }

    /// From one record to the next.
    fn walk(&mut self, sequence: u32, payload: &[u8], start: usize) -> Option<usize> {
        let mut at = start;
        while at < payload.len() {
            let rest = &payload[at..];
            match self.begins(rest) {
                Begins::Record(bytes) => {
                    at += bytes;
                    *self = TlsSide::Handshake(sequence.wrapping_add(at as u32));
                }
                Begins::Application => {
                    *self = TlsSide::Application;
                    return Some(at);
                }
                Begins::Split => {
                    let mut head = Head::default();
                    head.take(rest);
                    *self = TlsSide::Split(end_of(sequence, payload), head);
                    return None;
                }
                Begins::Nothing => {
                    let is_first = *self == TlsSide::Silent;
                    *self = if is_first { TlsSide::Other } else { TlsSide::Lost };
                    return None;
                }
            }
        }
        None
    }

    /// What begins with `rest`, which is not empty.
    fn begins(&self, rest: &[u8]) -> Begins {
        let (kind, is_first) = (rest[0], *self == TlsSide::Silent);
        if is_first && !matches!(kind, HANDSHAKE | APPLICATION_DATA) {
            return Begins::Nothing;
        }
        match record_bytes(rest) {
            Some(_) if kind == APPLICATION_DATA => Begins::Application,
            Some(bytes) => Begins::Record(bytes),
            None if rest.len() >= RECORD_HEADER_BYTES || *self == TlsSide::Lost => Begins::Nothing,
            None if kind != APPLICATION_DATA && CONTENT_TYPES.contains(&kind) => Begins::Split,
            // Where records follow each other, its first byte says it.
            None if kind == APPLICATION_DATA && !is_first => Begins::Application,
            None => Begins::Nothing,
        }
    }
}

/// What a part of a stream begins with.
enum Begins {
    /// A record of this number of bytes, header included.
    Record(usize),
    /// A record of application data.
    Application,
    /// A record's header, of which the end is not there.
    Split,
    /// No record.
    Nothing,
}

impl Head {
    /// Takes the next bytes of the header from the start of `bytes`.
    fn take(&mut self, bytes: &[u8]) {
        for (to, from) in self.bytes[usize::from(self.count)..].iter_mut().zip(bytes) {
            *to = *from;
            self.count += 1;
        }
    }

    /// What the segment behind `next` makes of it.
    fn joined(mut self, next: u32, sequence: u32, payload: &[u8]) -> TlsSide {
        if sequence != next {
            let is_again = (next.wrapping_sub(sequence) as i32) > 0;
            return if is_again { TlsSide::Split(next, self) } else { TlsSide::Lost };
        }
        let begins = next.wrapping_sub(u32::from(self.count));
        self.take(payload);
        if usize::from(self.count) < RECORD_HEADER_BYTES {
            return TlsSide::Split(end_of(sequence, payload), self);
        }
        match record_bytes(&self.bytes) {
            Some(bytes) => TlsSide::Handshake(begins.wrapping_add(bytes as u32)),
            None => TlsSide::Lost,
        }
    }
}

/// The sequence number behind a segment.
fn end_of(sequence: u32, payload: &[u8]) -> u32 {
    sequence.wrapping_add(payload.len() as u32)
}

/// Bytes of the record that begins here; `None` if none does, or its header is cut.
fn record_bytes(bytes: &[u8]) -> Option<usize> {
    let &[kind, major, _, high, low] = bytes.first_chunk::<RECORD_HEADER_BYTES>()?;
    let length = u16::from_be_bytes([high, low]);
    let is_record = CONTENT_TYPES.contains(&kind) && major == 3 && length <= RECORD_BYTES_MAX;
    is_record.then(|| RECORD_HEADER_BYTES + usize::from(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, bytes: usize) -> Vec<u8> {
        let length = (bytes as u16).to_be_bytes();
        [&[kind, 3, 3, length[0], length[1]][..], &vec![0xee; bytes]].concat()
    }

    /// Gives a stream in segments of `size`; which of its bytes are kept.
    fn kept(stream: &[u8], first: u32, size: usize) -> Vec<bool> {
        let mut side = TlsSide::default();
        let mut kept = Vec::new();
        for (index, segment) in stream.chunks(size).enumerate() {
            let sequence = first.wrapping_add((index * size) as u32);
            let count = side.see(sequence, segment).unwrap_or(segment.len());
            kept.extend((0..segment.len()).map(|at| at < count));
        }
        kept
    }

    #[test]
    fn a_stream_is_kept_up_to_its_application_data() {
        let shake = [record(22, 500), record(20, 1), record(22, 40)].concat();
        let stream = [&shake[..], &record(23, 3000), &record(23, 10), &record(21, 2)].concat();
        for first in [0, 77, u32::MAX - 300] {
            for size in [1, 2, 3, 7, 60, 509, 510, 511, 512, 513, 551, 555, 600, 1448, 5000] {
                let kept = kept(&stream, first, size);
                let expected = (0..stream.len()).map(|at| at < shake.len());
                assert!(kept.iter().copied().eq(expected), "from {first} by {size}");
            }
        }
    }

    #[test]
    fn what_does_not_begin_as_tls_is_kept_whole() {
        let others = [b"GET / HTTP/1.1\r\n".to_vec(), record(24, 9), vec![22, 2, 0, 0, 1, 0]];
        for stream in others {
            let stream = [stream, record(23, 100)].concat();
            assert!(kept(&stream, 1, 64).iter().all(|&kept| kept));
        }
    }

    #[test]
    fn after_a_gap_nothing_is_cut_until_a_record_begins() {
        let mut side = TlsSide::default();
        assert_eq!(side.see(0, &record(22, 95)), None);
        assert_eq!(side.see(5_000, &[0xee; 50]), None, "the middle of something");
        assert_eq!(side.see(0, &record(22, 95)), None, "sent again");
        assert_eq!(side.see(9_000, &record(23, 20)), Some(0));
        assert_eq!(side.see(9_025, &[0xee; 50]), Some(0));
    }
}
