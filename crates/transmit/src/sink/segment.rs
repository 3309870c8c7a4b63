//! A segment as a frame of a sink.

use crate::Error;
use ringside_core::{ChecksumRequest, Sink};
use ringside_segment::{Checksum, HEADER_BYTES_MAX, Offload, Segment};
use ringside_wire::checksum::Sum;
use std::ops::Range;

/// Puts `segment` in one piece: its headers, and a copy of its part of `payload`, which is that of
/// the whole plan. With `has_offload` its checksum is left to the sink. False if there is no room.
///
/// # Errors
/// The sink failed; the payload is shorter than the plan says; the sum of a fragmented datagram is
/// not known.
pub(crate) fn put_segment(
    sink: &mut impl Sink,
    segment: &Segment<'_>,
    payload: &[u8],
    has_offload: bool,
) -> Result<bool, Error> {
    let part = segment.payload();
    let (needed, available) = (part.end, payload.len());
    let short = ringside_segment::SegmentError::Payload { needed, available };
    let payload = payload.get(part).ok_or(short)?;
    let checksum = match has_offload {
        true => Checksum::Offload,
        false => Checksum::PayloadSum(Sum::new().bytes(payload)),
    };
    let mut header = [0; HEADER_BYTES_MAX];
    let written = segment.write_header(&mut header, checksum)?;
    let header = &header[..written.bytes];
    let request = written.offload.map(request);
    Ok(sink.put(header.len() + payload.len(), request, |slot| {
        let (front, rest) = slot.split_at_mut(header.len());
        front.copy_from_slice(header);
        rest.copy_from_slice(payload);
    })?)
}

/// Puts `segment` as a chain: its payload stays in the sink's payload memory, where that of the
/// whole plan begins at byte `at`. Its checksum is left to the sink. False if there is no room.
///
/// # Errors
/// The sink failed, or has no chains.
pub(crate) fn put_chained(
    sink: &mut impl Sink,
    segment: &Segment<'_>,
    at: usize,
) -> Result<bool, Error> {
    let Range { start, end } = segment.payload();
    let mut header = [0; HEADER_BYTES_MAX];
    let written = segment.write_header(&mut header, Checksum::Offload)?;
    let header = &header[..written.bytes];
    let request = written.offload.map(request);
    let write = |slot: &mut [u8]| slot.copy_from_slice(header);
    let piece = at + start..at + end;
    Ok(sink.put_chain(header.len(), request, write, &[piece])?)
}

/// What is left of a header's checksum, in the words of sinks.
fn request(offload: Offload) -> ChecksumRequest {
    ChecksumRequest { start: offload.start, offset: offload.offset }
}
