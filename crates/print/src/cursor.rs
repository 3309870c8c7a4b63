//! Reading a payload piece by piece, where its bytes may end at any place.

use std::fmt::Write;

/// Why the text of a payload ends before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The bytes end within a field.
    Cut,
    /// A field contradicts another one.
    Invalid,
}

impl Stop {
    /// Appends what stands for it, for a protocol of this `name`.
    pub(super) fn mark(self, out: &mut String, name: &str) {
        match self {
            Stop::Cut => {
                let _ = write!(out, " [|{name}]");
            }
            Stop::Invalid => out.push_str(" (invalid)"),
        }
    }
}

/// What a transport carries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payload<'a> {
    /// As far as it was captured.
    pub(super) bytes: &'a [u8],
    /// Length as the headers before it say.
    pub(super) length: usize,
}

impl<'a> Payload<'a> {
    /// Starts at the first byte.
    pub(super) fn cursor(&self) -> Cursor<'a> {
        Cursor { rest: self.bytes }
    }

    /// True if the snapshot length took a part of it.
    pub(super) fn is_cut(&self) -> bool {
        self.bytes.len() < self.length
    }
}

/// A place in a payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// Starts at the first of `bytes`.
    pub(super) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: bytes }
    }

    /// What is not read yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Bytes that are not read yet.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    /// True if nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `count` bytes.
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Stop> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Stop::Cut)?;
        self.rest = rest;
        Ok(taken)
    }

    /// A cursor over the next `count` bytes alone.
    pub(super) fn part(&mut self, count: usize) -> Result<Cursor<'a>, Stop> {
        self.take(count).map(Cursor::new)
    }

    /// As [`part`](Self::part), over what is there of them.
    pub(super) fn part_at_most(&mut self, count: usize) -> Cursor<'a> {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        Cursor::new(taken)
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(Stop::Cut)?;
        self.rest = rest;
        Ok(*array)
    }

    /// The next byte.
    pub(super) fn u8(&mut self) -> Result<u8, Stop> {
        self.array().map(|[byte]| byte)
    }

    /// The next two bytes as a number.
    pub(super) fn u16(&mut self) -> Result<u16, Stop> {
        self.array().map(u16::from_be_bytes)
    }

    /// The next three bytes as a number.
    pub(super) fn u24(&mut self) -> Result<u32, Stop> {
        self.array().map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]))
    }

    /// The next four bytes as a number.
    pub(super) fn u32(&mut self) -> Result<u32, Stop> {
        self.array().map(u32::from_be_bytes)
    }

    /// The next eight bytes as a number.
    pub(super) fn u64(&mut self) -> Result<u64, Stop> {
        self.array().map(u64::from_be_bytes)
    }

    /// The next four bytes as an address.
    pub(super) fn ipv4(&mut self) -> Result<std::net::Ipv4Addr, Stop> {
        self.array::<4>().map(Into::into)
    }

    /// The next sixteen bytes as an address.
    pub(super) fn ipv6(&mut self) -> Result<std::net::Ipv6Addr, Stop> {
        self.array::<16>().map(Into::into)
    }

    /// The next six bytes as an address.
    pub(super) fn mac(&mut self) -> Result<ringside_wire::MacAddr, Stop> {
        self.array().map(ringside_wire::MacAddr)
    }
}
