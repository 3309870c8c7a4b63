//! Netlink messages: made, and read as plain slices. All numbers are in the byte order of the
//! machine; messages and attributes begin at multiples of four bytes.

use std::io;

/// `struct nlmsghdr`: length, type, flags, sequence, port.
const HEADER_BYTES: usize = 16;
/// `struct nlattr`: length, type.
const ATTRIBUTE_HEADER_BYTES: usize = 4;
/// The type without NLA_F_NESTED and NLA_F_NET_BYTEORDER.
const ATTRIBUTE_TYPE_MASK: u16 = 0x3fff;

/// NLA_F_NESTED, for the type of an attribute that consists of attributes.
pub(crate) const NESTED: u16 = 0x8000;

/// A question or an order, to be completed.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    kind: u16,
    flags: u16,
    body: Vec<u8>,
}

impl Request {
    /// Of message type `kind`, with the fixed part of its body.
    pub(crate) fn new(kind: u16, body: &[u8]) -> Request {
        Request { kind, flags: libc::NLM_F_REQUEST as u16, body: body.to_vec() }
    }

    pub(crate) fn with_flags(mut self, flags: u16) -> Request {
        self.flags |= flags;
        self
    }

    /// Adds an attribute.
    ///
    /// # Panics
    /// If `value` is longer than 64 KiB: all of ours are a few bytes.
    pub(crate) fn attribute(mut self, kind: u16, value: &[u8]) -> Request {
        self.body.extend(joined_attributes(&[(kind, value)]));
        self
    }

    /// The whole message.
    pub(crate) fn bytes(&self, sequence: u32) -> Vec<u8> {
        let length = (HEADER_BYTES + self.body.len()) as u32;
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(self.kind.to_ne_bytes());
        bytes.extend(self.flags.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(&self.body);
        bytes
    }
}

/// Attributes one after the other, as the value of one that consists of them.
///
/// # Panics
/// If a value is longer than 64 KiB: all of ours are a few bytes.
pub(crate) fn joined_attributes(parts: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, value) in parts {
        let length = u16::try_from(ATTRIBUTE_HEADER_BYTES + value.len()).expect("a short value");
        bytes.extend(length.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(*value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes
}

/// A message of the kernel's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    /// Message type (`nlmsg_type`).
    pub(crate) kind: u16,
    /// NLM_F_ flags.
    pub(crate) flags: u16,
    /// That of the question.
    pub(crate) sequence: u32,
    /// What follows the header.
    pub(crate) body: &'a [u8],
}

/// The messages of one datagram; a damaged one is the last.
pub(crate) fn messages(bytes: &[u8]) -> impl Iterator<Item = io::Result<Message<'_>>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (message, length) = match first_message(rest) {
            Some((message, length)) => (Ok(message), length),
            None => (Err(damaged()), rest.len()),
        };
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

fn first_message(bytes: &[u8]) -> Option<(Message<'_>, usize)> {
    let length = u32_at(bytes, 0)? as usize;
    let body = bytes.get(HEADER_BYTES..length)?;
    let (kind, flags, sequence) = (u16_at(bytes, 4)?, u16_at(bytes, 6)?, u32_at(bytes, 8)?);
    Some((Message { kind, flags, sequence, body }, length))
}

/// A type with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attribute<'a> {
    /// Type, without the flags.
    pub(crate) kind: u16,
    /// Value, without padding.
    pub(crate) value: &'a [u8],
}

impl Attribute<'_> {
    /// A number of one, two, four or eight bytes, whichever the value has: the family `netdev` has
    /// unsigned integers that are as long as they need to be. 0 if it has another length.
    pub(crate) fn number(self) -> u64 {
        match *self.value {
            [byte] => u64::from(byte),
            [a, b] => u64::from(u16::from_ne_bytes([a, b])),
            [a, b, c, d] => u64::from(u32::from_ne_bytes([a, b, c, d])),
            _ => self.value.try_into().map_or(0, u64::from_ne_bytes),
        }
    }

    /// The same as 32 bits; 0 if it needs more.
    pub(crate) fn word(self) -> u32 {
        u32::try_from(self.number()).unwrap_or(0)
    }

    /// Text up to a zero byte.
    pub(crate) fn text(self) -> String {
        let text = self.value.split(|&byte| byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }
}

/// The attributes that a body or a value consists of.
///
/// # Errors
/// A length leads beyond the end.
pub(crate) fn attributes(bytes: &[u8]) -> io::Result<Vec<Attribute<'_>>> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while rest.len() >= ATTRIBUTE_HEADER_BYTES {
        let length = usize::from(u16_at(rest, 0).ok_or_else(damaged)?);
        let kind = u16_at(rest, 2).ok_or_else(damaged)? & ATTRIBUTE_TYPE_MASK;
        let value = rest.get(ATTRIBUTE_HEADER_BYTES..length).ok_or_else(damaged)?;
        found.push(Attribute { kind, value });
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(found)
}

pub(crate) fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is damaged")
}

pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(offset..offset.checked_add(2)?)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(offset..offset.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A message as the kernel would write it.
    pub(crate) fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn what_is_made_is_read() {
        let request = Request::new(30, &[9; 4]).attribute(1, b"abc").attribute(2, &[7, 0, 0, 0]);
        let bytes = request.with_flags(4).bytes(5);
        let found: Vec<_> = messages(&bytes).map(Result::unwrap).collect();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].kind, found[0].flags, found[0].sequence), (30, 5, 5));
        assert_eq!(found[0].body[..4], [9; 4]);
        let read = attributes(&found[0].body[4..]).unwrap();
        assert_eq!(read[0], Attribute { kind: 1, value: b"abc" });
        assert_eq!((read[1].kind, read[1].number()), (2, 7));
    }

    #[test]
    fn numbers_have_the_length_of_their_value() {
        let number = |value: &[u8]| Attribute { kind: 0, value }.number();
        assert_eq!(number(&[5]), 5);
        assert_eq!(number(&[1, 1]), 257);
        assert_eq!(number(&[0, 0, 1, 0]), 1 << 16);
        assert_eq!(number(&[0, 0, 0, 0, 1, 0, 0, 0]), 1 << 32);
        assert_eq!(number(&[1, 2, 3]), 0);
        assert_eq!(Attribute { kind: 0, value: &[0, 0, 0, 0, 1, 0, 0, 0] }.word(), 0);
    }

    #[test]
    fn lengths_beyond_the_end_are_damage() {
        assert!(attributes(&[8, 0, 1, 0, 1]).is_err());
        assert!(attributes(&[3, 0, 1, 0]).is_err());
        assert!(messages(&[0; 16]).next().unwrap().is_err());
        assert_eq!(messages(&[9; 40]).count(), 1, "after damage there is nothing");
    }
}
