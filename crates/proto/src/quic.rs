//! QUIC (RFC 8999, 9000 and 9369): the packets of a datagram, and the frames of an Initial packet,
//! once its protection is removed.

use crate::outcome::Stop;

mod frames;

pub use frames::{Frame, Frames};

/// Bytes of a connection's id in the versions that are read (RFC 9000 section 17.2).
pub const ID_BYTES_MAX: usize = 20;

/// A version of QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u32);

impl Version {
    /// Of RFC 9000.
    pub const V1: Version = Version(1);
    /// Of RFC 9369.
    pub const V2: Version = Version(0x6b33_43cf);
    /// No version: the packet is a Version Negotiation.
    const NEGOTIATION: Version = Version(0);
    /// Drafts whose packets have the form of version 1, and that were in use.
    const DRAFTS: core::ops::RangeInclusive<u32> = 27..=34;

    /// The number of a draft that is read.
    pub fn draft(self) -> Option<u32> {
        let number = self.0.checked_sub(0xff00_0000)?;
        Version::DRAFTS.contains(&number).then_some(number)
    }

    /// True if its packets are read.
    pub fn is_known(self) -> bool {
        matches!(self, Version::V1 | Version::V2) || self.draft().is_some()
    }
}

/// The ids of a packet with a long header: what each end calls the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids<'a> {
    /// The receiver's.
    pub destination: &'a [u8],
    /// The sender's.
    pub source: &'a [u8],
}

/// An Initial packet, still protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initial<'a> {
    /// Version.
    pub version: Version,
    /// Ids.
    pub ids: Ids<'a>,
    /// What the server has given the client to show.
    pub token: &'a [u8],
    /// The packet, from its first byte to its last.
    pub bytes: &'a [u8],
    /// Where its number begins, behind all that is not protected but the first byte.
    pub number_at: usize,
}

/// A packet with a long header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// Carries hellos.
    Initial(Initial<'a>),
    /// An Initial packet that is cut, or malformed.
    Unread(Stop),
    /// The server wants the client to begin again, with a token.
    Retry(Ids<'a>),
    /// The server has no such version.
    VersionNegotiation(Ids<'a>),
    /// One that is protected by other keys.
    Other,
}

/// The packets with long headers that a datagram begins with, of versions that are known.
#[derive(Clone, Copy, Debug)]
pub struct Packets<'a>(&'a [u8]);

/// Types of packets, in the numbers of version 1.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Initial,
    Retry,
    Other,
}

impl<'a> Packets<'a> {
    /// Of this datagram, as far as it is there.
    pub fn new(datagram: &'a [u8]) -> Packets<'a> {
        Packets(datagram)
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = Packet<'a>;

    fn next(&mut self) -> Option<Packet<'a>> {
        let packet = core::mem::take(&mut self.0);
        let (&[first, a, b, c, d], mut rest) = packet.split_first_chunk()?;
        let version = Version(u32::from_be_bytes([a, b, c, d]));
        let is_negotiation = version == Version::NEGOTIATION;
        if first & 0x80 == 0 || !(is_negotiation || version.is_known()) {
            return None;
        }
        if is_negotiation {
            return ids(&mut rest).ok().map(Packet::VersionNegotiation);
        }
        let kind = kind(first, version);
        match read(packet, rest, version, kind) {
            Ok((found, after)) => {
                self.0 = after;
                Some(found)
            }
            Err(stop) if kind == Kind::Initial => Some(Packet::Unread(stop)),
            Err(_) => Some(Packet::Other),
        }
    }
}

/// The packet's type (RFC 9000 section 17.2, RFC 9369 section 3.2).
fn kind(first: u8, version: Version) -> Kind {
    let number = first >> 4 & 3;
    let number = if version == Version::V2 { number.wrapping_sub(1) & 3 } else { number };
    match number {
        0 => Kind::Initial,
        3 => Kind::Retry,
        _ => Kind::Other,
    }
}

/// Reads a packet, whose bytes behind the version are `rest`, and what follows it.
fn read<'a>(
    packet: &'a [u8],
    mut rest: &'a [u8],
    version: Version,
    kind: Kind,
) -> Result<(Packet<'a>, &'a [u8]), Stop> {
    let ids = ids(&mut rest)?;
    if kind == Kind::Retry {
        return Ok((Packet::Retry(ids), &[]));
    }
    let token = match kind {
        Kind::Initial => {
            let bytes = number(&mut rest)?;
            take(&mut rest, bytes)?
        }
        _ => &[],
    };
    let bytes = number(&mut rest)?;
    let number_at = packet.len() - rest.len();
    take(&mut rest, bytes)?;
    let bytes = &packet[..packet.len() - rest.len()];
    let found = match kind {
        Kind::Initial => Packet::Initial(Initial { version, ids, token, bytes, number_at }),
        _ => Packet::Other,
    };
    Ok((found, rest))
}

fn ids<'a>(rest: &mut &'a [u8]) -> Result<Ids<'a>, Stop> {
    let mut id = || {
        let &[bytes] = take(rest, 1)? else { return Err(Stop::Cut) };
        match usize::from(bytes) {
            bytes @ 0..=ID_BYTES_MAX => take(rest, bytes as u64),
            _ => Err(Stop::Malformed),
        }
    };
    Ok(Ids { destination: id()?, source: id()? })
}

/// Takes a number of variable length (RFC 9000 section 16).
fn number(rest: &mut &[u8]) -> Result<u64, Stop> {
    let (&first, after) = rest.split_first().ok_or(Stop::Cut)?;
    *rest = after;
    let more = (1_u64 << (first >> 6)) - 1;
    let value = u64::from(first & 0x3f);
    Ok(take(rest, more)?.iter().fold(value, |value, byte| value << 8 | u64::from(*byte)))
}

fn take<'a>(rest: &mut &'a [u8], bytes: u64) -> Result<&'a [u8], Stop> {
    let bytes = usize::try_from(bytes).map_err(|_| Stop::Malformed)?;
    let (taken, after) = rest.split_at_checked(bytes).ok_or(Stop::Cut)?;
    *rest = after;
    Ok(taken)
}
