//! Writing the headers of one frame, from the innermost outwards, as checksums of tunnels cover
//! what is in them.

use crate::field::{Field, IdStep};
use crate::{Cwr, Pieces, Segment, SegmentError};
use ringside_wire::checksum::Sum;
use ringside_wire::{Ipv6, Tcp, Udp};

/// How the transport checksum comes about.
#[derive(Clone, Copy, Debug)]
pub enum Checksum<'p> {
    /// The interface or the kernel finishes it: the field gets the sum of the pseudo header
    /// ([`Offload`]).
    Offload,
    /// From the sum of the segment's payload, made while it was copied or before.
    PayloadSum(Sum),
    /// From the payload of the whole plan, which is read.
    Payload(&'p Pieces<'p>),
}

/// How [`Segment::write_linear`] makes the transport checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinearChecksum {
    /// As [`Checksum::Offload`].
    Offload,
    /// Complete, added up while the payload is copied.
    Full,
}

/// A checksum that is left to be finished: the complement of the sum from `start` to the end of the
/// frame is to be stored `offset` bytes behind `start` (CHECKSUM_PARTIAL, `struct virtio_net_hdr`,
/// `struct xsk_tx_metadata`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offload {
    /// First byte that it covers, from the start of the frame.
    pub start: u16,
    /// Where its field is, from `start`.
    pub offset: u16,
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes that were written.
    pub bytes: usize,
    /// What is left to the interface; `None` if the frame is complete.
    pub offload: Option<Offload>,
}

/// The sum of the frame from byte `from` on, if it is known; always an even number of bytes before
/// the payload, because all headers are.
#[derive(Clone, Copy)]
struct Tail {
    from: usize,
    sum: Option<Sum>,
}

impl Segment<'_> {
    /// Writes the headers of the frame at the start of `slot`.
    ///
    /// # Errors
    /// The slot or the payload is too short; the sum of a fragmented datagram is not known.
    pub fn write_header(
        &self,
        slot: &mut [u8],
        checksum: Checksum<'_>,
    ) -> Result<Written, SegmentError> {
        let available = slot.len();
        let needed = self.header_bytes();
        let header = slot.get_mut(..needed).ok_or(SegmentError::Slot { needed, available })?;
        let sum = match checksum {
            Checksum::Offload => None,
            Checksum::PayloadSum(sum) => Some(sum),
            Checksum::Payload(pieces) => {
                self.check(pieces)?;
                Some(pieces.sum(self.payload()))
            }
        };
        header.copy_from_slice(&self.form.header);
        let mut tail = Tail { from: needed, sum };
        let mut offload = None;
        for field in self.form.fields.iter().rev() {
            let left = match *field {
                Field::Tcp { at, pseudo } => self.tcp(header, &mut tail, at, pseudo),
                Field::Udp { at, pseudo, has_checksum } => {
                    let pseudo = has_checksum.then_some(pseudo);
                    self.udp(header, &mut tail, at, pseudo)
                }
                Field::Datagram { at, pseudo, has_checksum } => {
                    let sum = self.datagram_sum(checksum, has_checksum)?;
                    self.datagram(header, at, sum.map(|sum| sum.plus(pseudo)));
                    None
                }
                Field::Gre { at } => seal(header, &mut tail, at, 4, Sum::new()),
                _ => {
                    self.network(header, field);
                    None
                }
            };
            offload = offload.or(left);
        }
        Ok(Written { bytes: needed, offload })
    }

    /// Writes the whole frame at the start of `slot`: headers, and a copy of its payload, which
    /// lies in `pieces`.
    ///
    /// # Errors
    /// As [`write_header`](Segment::write_header).
    pub fn write_linear(
        &self,
        slot: &mut [u8],
        pieces: &Pieces<'_>,
        checksum: LinearChecksum,
    ) -> Result<Written, SegmentError> {
        self.check(pieces)?;
        let (needed, available) = (self.frame_bytes(), slot.len());
        let slot = slot.get_mut(..needed).ok_or(SegmentError::Slot { needed, available })?;
        let (header, payload) = slot.split_at_mut(self.header_bytes());
        let is_datagram = matches!(self.form.fields.last(), Some(Field::Datagram { .. }));
        let checksum = match checksum {
            LinearChecksum::Full => {
                let sum = pieces.copy_and_sum(self.payload(), payload);
                // The first fragment's checksum covers more than its own payload.
                if is_datagram { Checksum::Payload(pieces) } else { Checksum::PayloadSum(sum) }
            }
            LinearChecksum::Offload => {
                pieces.copy(self.payload(), payload);
                Checksum::Offload
            }
        };
        let Written { offload, .. } = self.write_header(header, checksum)?;
        Ok(Written { bytes: needed, offload })
    }

    fn check(&self, pieces: &Pieces<'_>) -> Result<(), SegmentError> {
        let (needed, available) = (self.payload.end, pieces.bytes());
        if needed <= available { Ok(()) } else { Err(SegmentError::Payload { needed, available }) }
    }

    fn network(&self, header: &mut [u8], field: &Field) {
        let frame_bytes = self.frame_bytes();
        match *field {
            Field::Ipv4 { at, id, rest, .. } => {
                let length = (frame_bytes - at) as u16;
                put(header, at + 2, length);
                let step = match id {
                    IdStep::Keep => 0,
                    IdStep::PerFrame => self.position.frames,
                    IdStep::PerDatagram => self.position.datagrams as u16,
                };
                let id = get(header, at + 4).wrapping_add(step);
                put(header, at + 4, id);
                let sum = rest.add_u16(length).add_u16(id).add_u16(get(header, at + 6));
                put(header, at + 10, sum.checksum());
            }
            Field::Ipv4Fragment { at } => {
                let more = u16::from(!self.is_last) << 13;
                let reserved = u16::from(header[at + 6] & 0x80) << 8;
                put(header, at + 6, (self.fragment_offset / 8) as u16 | more | reserved);
            }
            Field::Ipv6 { at } => put(header, at + 4, (frame_bytes - at - Ipv6::BYTES) as u16),
            Field::Ipv6Fragment { at } => {
                let more = u16::from(!self.is_last);
                put(header, at + 2, self.fragment_offset as u16 | more);
                let id = self.segmenter.fragment_id.wrapping_add(self.position.datagrams);
                header[at + 4..at + 8].copy_from_slice(&id.to_be_bytes());
            }
            _ => {}
        }
    }

    fn tcp(&self, header: &mut [u8], tail: &mut Tail, at: usize, pseudo: Sum) -> Option<Offload> {
        let sequence = [header[at + 4], header[at + 5], header[at + 6], header[at + 7]];
        let sequence = u32::from_be_bytes(sequence).wrapping_add(self.position.sequence);
        header[at + 4..at + 8].copy_from_slice(&sequence.to_be_bytes());
        let mut cleared = 0;
        if !self.is_last {
            cleared |= Tcp::FIN | Tcp::PSH;
        }
        if !self.is_first && self.segmenter.cwr == Cwr::First {
            cleared |= Tcp::CWR;
        }
        // All three stand in the second byte of the flags.
        header[at + 13] &= !(cleared as u8);
        let pseudo = pseudo.add_u16((self.frame_bytes() - at) as u16);
        seal(header, tail, at, 16, pseudo)
    }

    /// UDP that is whole in this frame, also of a tunnel; with a checksum if `pseudo` is there.
    fn udp(
        &self,
        header: &mut [u8],
        tail: &mut Tail,
        at: usize,
        pseudo: Option<Sum>,
    ) -> Option<Offload> {
        let length = (self.frame_bytes() - at) as u16;
        put(header, at + 4, length);
        let Some(pseudo) = pseudo else {
            put(header, at + 6, 0);
            return None;
        };
        let left = seal(header, tail, at, 6, pseudo.add_u16(length));
        never_zero(header, at, left.is_none());
        left
    }

    /// UDP in the first of several fragments; `sum` is that of its payload and its pseudo header,
    /// without the length.
    fn datagram(&self, header: &mut [u8], at: usize, sum: Option<Sum>) {
        let length = (Udp::BYTES + self.datagram_bytes) as u16;
        put(header, at + 4, length);
        put(header, at + 6, 0);
        if let Some(sum) = sum {
            let sum = sum.add_u16(length).plus(Sum::new().bytes(&header[at..at + Udp::BYTES]));
            put(header, at + 6, sum.checksum());
            never_zero(header, at, true);
        }
    }

    /// The sum of the payload of all fragments; `None` if there is no checksum.
    fn datagram_sum(
        &self,
        checksum: Checksum<'_>,
        has_checksum: bool,
    ) -> Result<Option<Sum>, SegmentError> {
        if !has_checksum {
            return Ok(None);
        }
        match (self.datagram_sum, checksum) {
            (Some(sum), _) => Ok(Some(sum)),
            (None, Checksum::Payload(pieces)) => {
                let (needed, available) = (self.datagram_bytes, pieces.bytes());
                if needed > available {
                    return Err(SegmentError::Payload { needed, available });
                }
                Ok(Some(pieces.sum(0..needed)))
            }
            (None, _) => Err(SegmentError::DatagramSum),
        }
    }
}

/// Makes the checksum of the header at `at`, whose field is `offset` bytes further on, or leaves it
/// to be finished if the sum behind the header is not known.
fn seal(
    header: &mut [u8],
    tail: &mut Tail,
    at: usize,
    offset: usize,
    pseudo: Sum,
) -> Option<Offload> {
    put(header, at + offset, 0);
    let left = match tail.sum {
        Some(sum) => {
            let sum = sum.plus(Sum::new().bytes(&header[at..tail.from])).plus(pseudo);
            put(header, at + offset, sum.checksum());
            None
        }
        None => {
            put(header, at + offset, pseudo.folded());
            // Headers were checked to be shorter than HEADER_BYTES_MAX.
            Some(Offload { start: at as u16, offset: offset as u16 })
        }
    };
    // Once the checksum is right, what it covers and the pseudo header add up to nothing.
    *tail = Tail { from: at, sum: Some(Sum::new().add_u16(!pseudo.folded())) };
    left
}

/// A UDP checksum of 0 would say that there is none; 0xffff is the same number.
fn never_zero(header: &mut [u8], at: usize, is_complete: bool) {
    if is_complete && header[at + 6..at + 8] == [0, 0] {
        put(header, at + 6, 0xffff);
    }
}

fn get(header: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([header[at], header[at + 1]])
}

/// Lengths that are cut to 16 bits here fit: the MTU is at most [`crate::MTU_BYTES_MAX`].
fn put(header: &mut [u8], at: usize, value: u16) {
    header[at..at + 2].copy_from_slice(&value.to_be_bytes());
}
