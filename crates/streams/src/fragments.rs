//! Packets put together of their fragments.

use crate::Place;
use ringside_core::recent::Gone;
use ringside_core::{RecentTable, Timestamp};
use ringside_inspect::{DissectedFrame, Received};
use ringside_wire::{Fragment, IpProtocol, Ipv4, Ipv6, Ipv6Fragment, LayerKind, Level};
use serde::Serialize;
use std::net::IpAddr;

/// Packets that are put together at once, of 64 KiB at most: 64 MiB in all. One more takes the
/// place of one of the oldest.
const PACKETS_MAX: usize = 1_024;

/// Fragments of a packet: 64 KiB in the smallest that a link of IPv6 makes (1,280) are 52; more
/// than some times that are made to cost time.
const FRAGMENTS_MAX: usize = 256;

/// Largest packet.
const PACKET_BYTES_MAX: usize = 65_535;

/// How long fragments wait for the others, as hosts do (RFC 8200, section 4.5: 60 s; Linux: 30 s).
const WAIT_NS: u64 = 30_000_000_000;

/// What the fragments of a packet have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Id {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    id: u32,
    place: (u32, Option<u16>, u32),
}

#[derive(Debug, Default)]
struct Packet {
    /// What stands before the payload, of the first fragment.
    header: Option<Vec<u8>>,
    /// Parts of the payload with their places, in order.
    parts: Vec<(usize, Vec<u8>)>,
    /// Bytes of the payload, once the last fragment is there.
    total: Option<usize>,
    /// Fragments disagree: it is given up, and so is what comes later of it.
    is_bad: bool,
}

/// A fragment.
struct Piece<'f> {
    /// What stands before the payload.
    header: Vec<u8>,
    offset: usize,
    bytes: &'f [u8],
    has_more: bool,
}

/// Where every fragment went: `received = put_together + repeated + unreadable + overlapping +
/// timed_out + displaced`, and those that wait ([`Defragmenter::waiting`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FragmentLedger {
    /// Fragments that were seen.
    pub received: u64,
    /// Of these: in packets that were put together.
    pub put_together: u64,
    /// Came twice.
    pub repeated: u64,
    /// Cut, or of a length that no fragment has.
    pub unreadable: u64,
    /// Contradict others. Such a packet is given up whole, as Linux does, and RFC 5722 demands.
    pub overlapping: u64,
    /// Waited too long.
    pub timed_out: u64,
    /// Made room for others.
    pub displaced: u64,
    /// Packets that were put together.
    pub packets: u64,
}

/// Puts packets together. First and later fragments may come in any order. What a host would not
/// take (parts that overlap) is given up.
#[derive(Debug)]
pub struct Defragmenter {
    packets: RecentTable<Id, Packet>,
    ledger: FragmentLedger,
    whole: Vec<u8>,
}

impl Default for Defragmenter {
    fn default() -> Defragmenter {
        Defragmenter::new()
    }
}

impl Defragmenter {
    /// One that has seen nothing.
    pub fn new() -> Defragmenter {
        Defragmenter {
            packets: RecentTable::new(PACKETS_MAX),
            ledger: FragmentLedger::default(),
            whole: Vec::new(),
        }
    }

    /// The account so far.
    pub fn ledger(&self) -> &FragmentLedger {
        &self.ledger
    }

    /// Fragments that wait for others.
    pub fn waiting(&self) -> u64 {
        self.packets.iter().map(|(_, entry)| entry.value.parts.len() as u64).sum()
    }

    /// True if the innermost IP packet of a frame is a fragment.
    #[inline]
    pub fn is_fragment(frame: &DissectedFrame<'_>) -> bool {
        frame.layers().fragment(Level::Inner) != Fragment::No
    }

    /// Takes a fragment in. The whole packet from its IP header on, once all of it is there: a
    /// frame of [`LinkType::RAW`](ringside_core::LinkType::RAW), with where it was met.
    pub fn take_in(
        &mut self,
        frame: &DissectedFrame<'_>,
        received: &Received<'_>,
    ) -> Option<(&[u8], Place)> {
        self.ledger.received += 1;
        let Some((id, piece, place)) = read(frame, received) else {
            self.ledger.unreadable += 1;
            return None;
        };
        let stamp = received.meta.timestamp;
        self.give_up_old(&id, stamp);
        let ledger = &mut self.ledger;
        let fresh = |gone: Option<Gone<Id, Packet>>| {
            ledger.displaced += gone.map_or(0, |gone| gone.value.parts.len() as u64);
            Packet::default()
        };
        let packet = self.packets.enter(id, stamp.0, fresh).value;
        if !packet.take_in(piece, &mut self.ledger) {
            return None;
        }
        let at = self.packets.find(&id, self.packets.hash(&id))?;
        let packet = self.packets.remove(at).value;
        self.ledger.put_together += packet.parts.len() as u64;
        self.ledger.packets += 1;
        packet.write(&mut self.whole)?;
        Some((&self.whole, place))
    }

    /// Gives up a packet that waited too long.
    fn give_up_old(&mut self, id: &Id, stamp: Timestamp) {
        let Some(at) = self.packets.find(id, self.packets.hash(id)) else { return };
        if stamp.0.saturating_sub(self.packets.at(at).seen) > WAIT_NS {
            self.ledger.timed_out += self.packets.remove(at).value.parts.len() as u64;
        }
    }
}

impl Packet {
    fn bytes(&self) -> usize {
        self.parts.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    /// Takes a fragment in. True if nothing is missing any more.
    fn take_in(&mut self, piece: Piece<'_>, ledger: &mut FragmentLedger) -> bool {
        let Piece { header, offset, bytes, has_more } = piece;
        let end = offset + bytes.len();
        let at = self.parts.partition_point(|(place, _)| *place < offset);
        let is_same = |(place, part): &(usize, Vec<u8>)| *place == offset && part == bytes;
        if !self.is_bad && self.parts.get(at).is_some_and(is_same) {
            ledger.repeated += 1;
            return false;
        }
        let before = at.checked_sub(1).and_then(|at| self.parts.get(at));
        let overlaps = before.is_some_and(|(place, part)| place + part.len() > offset)
            || self.parts.get(at).is_some_and(|(place, _)| *place < end)
            || self.total.is_some_and(|total| end > total || !has_more && end != total)
            || !has_more && self.parts.last().is_some_and(|(place, part)| place + part.len() > end);
        if self.is_bad || overlaps || self.parts.len() == FRAGMENTS_MAX {
            ledger.overlapping += 1 + self.parts.len() as u64;
            *self = Packet { is_bad: true, ..Packet::default() };
            return false;
        }
        if offset == 0 {
            self.header = Some(header);
        }
        if !has_more {
            self.total = Some(end);
        }
        self.parts.insert(at, (offset, bytes.to_vec()));
        // None of them overlaps another, so that they are whole if they are as long as all of it.
        self.header.is_some() && self.total == Some(self.bytes())
    }

    /// Writes the packet as it was before it was cut.
    fn write(self, out: &mut Vec<u8>) -> Option<()> {
        out.clear();
        out.extend(self.header?);
        self.parts.iter().for_each(|(_, part)| out.extend(part));
        let bytes = u16::try_from(out.len()).ok()?;
        match out.first()? >> 4 {
            4 => out.get_mut(2..4)?.copy_from_slice(&bytes.to_be_bytes()),
            _ => {
                let payload = bytes.checked_sub(Ipv6::BYTES as u16)?;
                out.get_mut(4..6)?.copy_from_slice(&payload.to_be_bytes());
            }
        }
        Some(())
    }
}

/// The fragment in a frame, what it is a fragment of, and where it was met.
fn read<'f>(frame: &DissectedFrame<'f>, received: &Received<'_>) -> Option<(Id, Piece<'f>, Place)> {
    let (layers, level) = (frame.layers(), Level::Inner);
    let network = layers.network(level)?;
    let here = frame.from(network);
    let ip_bytes = frame.ip_bytes(level)? as usize;
    // A fragment that was cut would leave a hole that is never seen.
    let packet = here.get(..ip_bytes)?;
    let (id, protocol, piece) = match network.kind {
        LayerKind::Ipv4 => {
            let ip = Ipv4::new(packet).ok()?;
            let mut header = packet.get(..ip.header_bytes())?.to_vec();
            header.get_mut(6..8)?.fill(0);
            let (offset, has_more) = (ip.fragment_offset_bytes(), ip.more_fragments());
            let bytes = packet.get(ip.header_bytes()..)?;
            let piece = Piece { header, offset: offset as usize, bytes, has_more };
            (u32::from(ip.id()), ip.protocol(), piece)
        }
        LayerKind::Ipv6 => {
            let mut headers = layers.iter().rev();
            let layer = headers.find(|layer| layer.kind == LayerKind::Fragment)?;
            let fragment = Ipv6Fragment::new(frame.from(layer)).ok()?;
            let at = layer.start().checked_sub(network.start())?;
            let mut header = packet.get(..at)?.to_vec();
            *header.get_mut(next_header_at(packet, at)?)? = fragment.next_header().0;
            let (offset, has_more) = (fragment.fragment_offset_bytes(), fragment.more_fragments());
            let bytes = packet.get(at + Ipv6Fragment::BYTES..)?;
            let piece = Piece { header, offset: offset as usize, bytes, has_more };
            // Fragments of IPv6 may say different things of what follows; the first counts.
            (fragment.id(), IpProtocol(0), piece)
        }
        _ => return None,
    };
    let end = piece.header.len() + piece.offset + piece.bytes.len();
    let is_right = !piece.bytes.is_empty()
        && end <= PACKET_BYTES_MAX
        && (!piece.has_more || piece.bytes.len().is_multiple_of(8));
    let tuple = frame.tuple(level).filter(|_| is_right)?;
    let place = Place::of(frame, received);
    let (source, destination) = (tuple.source, tuple.destination);
    let number = place.tunnel.map_or(0, |tunnel| tunnel.number());
    let place_words = (place.interface.0, place.vlan, number);
    let id = Id { source, destination, protocol: protocol.0, id, place: place_words };
    Some((id, piece, place))
}

/// Where the number stands that says that the header at `at` follows, in a packet of IPv6.
fn next_header_at(packet: &[u8], at: usize) -> Option<usize> {
    const NEXT_HEADER_AT: usize = 6;
    let (mut field, mut header) = (NEXT_HEADER_AT, Ipv6::BYTES);
    while header < at {
        field = header;
        header += 8 + 8 * usize::from(*packet.get(header + 1)?);
    }
    (header == at).then_some(field)
}

#[cfg(test)]
mod tests;
