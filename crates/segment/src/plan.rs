//! How one buffer is cut: which part of the payload each frame carries, and what goes on from one
//! buffer to the next.

use crate::fragment::{Form, Fragments};
use crate::{SegmentError, Segmenter};
use ringside_wire::checksum::Sum;
use std::ops::Range;

/// How far a stream is since its template: what was sent before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Payload bytes, as a TCP sequence number counts them.
    pub(crate) sequence: u32,
    /// Frames, as an IPv4 id counts them.
    pub(crate) frames: u16,
    /// Datagrams that were cut into fragments.
    pub(crate) datagrams: u32,
}

/// The frames of one buffer, in order.
#[derive(Clone, Copy, Debug)]
pub struct SegPlan<'s> {
    segmenter: &'s Segmenter,
    position: Position,
    payload_bytes: usize,
    frame_count: usize,
    datagram_sum: Option<Sum>,
}

/// One frame to be.
#[derive(Clone, Debug)]
pub struct Segment<'s> {
    pub(crate) segmenter: &'s Segmenter,
    pub(crate) form: &'s Form,
    pub(crate) position: Position,
    pub(crate) payload: Range<usize>,
    pub(crate) is_first: bool,
    pub(crate) is_last: bool,
    /// Bytes of the packet before this fragment.
    pub(crate) fragment_offset: usize,
    /// Payload of all fragments, and its sum if it is known.
    pub(crate) datagram_bytes: usize,
    pub(crate) datagram_sum: Option<Sum>,
}

impl<'s> SegPlan<'s> {
    pub(crate) fn new(
        segmenter: &'s Segmenter,
        position: Position,
        payload_bytes: usize,
        frame_count: usize,
    ) -> SegPlan<'s> {
        SegPlan { segmenter, position, payload_bytes, frame_count, datagram_sum: None }
    }

    /// With the sum of the whole payload, for the UDP checksum in the first of several fragments:
    /// needed if [`Segment::write_header`] is not given the payload itself.
    #[must_use]
    pub fn with_datagram_sum(mut self, sum: Sum) -> SegPlan<'s> {
        self.datagram_sum = Some(sum);
        self
    }

    /// How many frames; at least one.
    pub fn frame_count(&self) -> usize {
        self.frame_count
    }

    /// Bytes of the payload.
    pub fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Payload bytes of each frame but the last, as in
    /// [`Settings::mss_bytes`](crate::Settings::mss_bytes).
    pub fn mss_bytes(&self) -> usize {
        self.segmenter.mss_bytes
    }

    /// The frames, in order.
    pub fn segments(&self) -> impl ExactSizeIterator<Item = Segment<'s>> + use<'s> {
        let plan = *self;
        (0..self.frame_count).map(move |index| plan.at(index))
    }

    /// The frame with this number, from 0.
    pub fn segment(&self, index: usize) -> Option<Segment<'s>> {
        (index < self.frame_count).then(|| self.at(index))
    }

    /// Everything in one packet, whatever the MTU: what a kernel or a card takes that cuts packets
    /// itself. Its frames are then those of this plan.
    ///
    /// # Errors
    /// Longer than the length fields can say.
    pub fn uncut(&self) -> Result<Segment<'s>, SegmentError> {
        let payload_bytes_max = self.segmenter.uncut_payload_bytes_max();
        if self.payload_bytes > payload_bytes_max {
            let payload_bytes = self.payload_bytes;
            return Err(SegmentError::TooLong { payload_bytes, payload_bytes_max });
        }
        Ok(Segment { is_last: true, ..self.of(&self.segmenter.whole, 0, 0..self.payload_bytes) })
    }

    /// Where the next buffer of the stream begins.
    pub fn end(&self) -> Position {
        let Position { sequence, frames, datagrams } = self.position;
        Position {
            // All three count modulo their width.
            sequence: sequence.wrapping_add(self.payload_bytes as u32),
            frames: frames.wrapping_add(self.frame_count as u16),
            datagrams: datagrams.wrapping_add(1),
        }
    }

    fn at(&self, index: usize) -> Segment<'s> {
        let Segmenter { whole, fragments, mss_bytes, .. } = self.segmenter;
        let cut = |at: usize| at.min(self.payload_bytes);
        match fragments {
            Some(Fragments { first, later, carried_bytes, .. }) if self.frame_count > 1 => {
                // The first fragment carries headers too: all that follows comes earlier.
                let start = (index * mss_bytes).saturating_sub(*carried_bytes);
                let end = cut((index + 1) * mss_bytes - carried_bytes);
                let form = if index == 0 { first } else { later };
                let segment = self.of(form, index, start..end);
                Segment { fragment_offset: index * mss_bytes, ..segment }
            }
            // Of an unfragmented datagram or a buffer of one frame the first segment is all.
            _ if self.frame_count == 1 => self.of(whole, 0, 0..self.payload_bytes),
            _ => self.of(whole, index, index * mss_bytes..cut((index + 1) * mss_bytes)),
        }
    }

    fn of(&self, form: &'s Form, index: usize, payload: Range<usize>) -> Segment<'s> {
        let Position { sequence, frames, datagrams } = self.position;
        Segment {
            segmenter: self.segmenter,
            form,
            position: Position {
                sequence: sequence.wrapping_add(payload.start as u32),
                frames: frames.wrapping_add(index as u16),
                datagrams,
            },
            is_first: index == 0,
            is_last: index + 1 == self.frame_count,
            fragment_offset: 0,
            datagram_bytes: self.payload_bytes,
            datagram_sum: self.datagram_sum,
            payload,
        }
    }
}

impl Segment<'_> {
    /// Which bytes of the payload it carries; [`Pieces`](crate::Pieces) says where they lie.
    pub fn payload(&self) -> Range<usize> {
        self.payload.clone()
    }

    /// Bytes of its headers.
    pub fn header_bytes(&self) -> usize {
        self.form.header.len()
    }

    /// Bytes of the frame.
    pub fn frame_bytes(&self) -> usize {
        self.form.header.len() + self.payload.len()
    }
}
