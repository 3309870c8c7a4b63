//! The headers of all flows, and how a frame is made of one.
//!
//! In a header, lengths are 0 and each checksum field holds the folded sum of all that does not
//! change from frame to frame: `bpf/generate.bpf.c` and [`Table::finish`] add the rest.

use super::stamp::{MAGIC, Numbering, STAMP_MAGIC, low_bits};
use super::template::{Places, Template};
use super::{Range, Shape, pattern};
use ringside_ebpf::abi::GENERATE_HEADER_BYTES_MAX;
use ringside_wire::checksum::{Addresses, Sum, pseudo};
use ringside_wire::{IpProtocol, Ipv4, Ipv6};

/// Shortest header, so that frames of usual headers differ in nothing but their content.
const HEADER_BYTES_MIN: usize = 64;

/// Where what is written into every frame lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub header_bytes: usize,
    pub places: Places,
    pub number: Option<usize>,
    pub stamp: Option<usize>,
    /// Bytes of number and stamp.
    numbering_bytes: usize,
}

impl Layout {
    pub fn of(template: &Template, numbering: Numbering) -> Layout {
        let places = template.places;
        let (number, stamp) = match numbering {
            Numbering::None => (None, None),
            Numbering::Number => (Some(places.payload + 8), None),
            Numbering::Stamp => (Some(places.payload + 4), Some(places.payload + 12)),
        };
        let numbering_bytes = numbering.bytes();
        let mut layout = Layout { header_bytes: 0, places, number, stamp, numbering_bytes };
        layout.header_bytes = layout.fixed_bytes().next_multiple_of(8).max(HEADER_BYTES_MIN);
        layout
    }

    /// Headers and number.
    pub fn fixed_bytes(&self) -> usize {
        self.places.payload + self.numbering_bytes
    }

    /// True if headers of this length can be made.
    pub fn fits(&self) -> bool {
        self.header_bytes <= GENERATE_HEADER_BYTES_MAX
    }

    /// The header of one flow into `out`, which begins as the template (see [`fill`]).
    pub fn header(&self, ranges: &[Range], numbering: Numbering, flow: u32, out: &mut [u8]) {
        for range in ranges {
            range.write(&self.places, flow, out);
        }
        let mut put = |at: usize, field: &[u8]| {
            out[at..at + field.len()].copy_from_slice(field);
        };
        let payload = self.places.payload;
        match numbering {
            Numbering::None => {}
            Numbering::Number => {
                put(payload, &MAGIC);
                put(payload + 8, &[0; 8]);
                put(payload + 16, &flow.to_be_bytes());
            }
            Numbering::Stamp => {
                put(payload, &STAMP_MAGIC);
                put(payload + 4, &[0; 14]);
            }
        }
        self.prepare(out);
    }

    /// Lengths 0, sums in place of checksums; of a template that is not elastic nothing.
    fn prepare(&self, out: &mut [u8]) {
        let places = self.places;
        if !places.is_elastic {
            return;
        }
        let transport_sum = places.checksum.map(|at| {
            out[at..at + 2].fill(0);
            self.pseudo_sum(out)
        });
        if let Some(at) = places.ipv4 {
            out[at + 2..at + 4].fill(0);
            out[at + 10..at + 12].fill(0);
            let end = at + usize::from(out[at] & 0xf) * 4;
            let sum = Sum::new().bytes(&out[at..end]).folded();
            out[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
        }
        if let Some(at) = places.ipv6 {
            out[at + 4..at + 6].fill(0);
        }
        if let (true, Some(at)) = (places.is_udp, places.transport) {
            out[at + 4..at + 6].fill(0);
        }
        if let (Some(at), Some(start), Some(sum)) =
            (places.checksum, places.transport, transport_sum)
        {
            let sum = sum.bytes(&out[start..self.fixed_bytes()]).folded();
            out[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
    }

    /// Of the pseudo header without its length.
    fn pseudo_sum(&self, frame: &[u8]) -> Sum {
        let protocol = if self.places.is_udp { IpProtocol::UDP } else { IpProtocol::TCP };
        let v4 = self.places.ipv4.and_then(|at| Ipv4::new(&frame[at..]).ok());
        let v6 = self.places.ipv6.and_then(|at| Ipv6::new(&frame[at..]).ok());
        let addresses = match (v4, v6) {
            (Some(ip), _) => Addresses::V4 { source: ip.source(), destination: ip.destination() },
            (None, Some(ip)) => {
                Addresses::V6 { source: ip.source(), destination: ip.destination() }
            }
            (None, None) => return Sum::new(),
        };
        pseudo(addresses, protocol, 0)
    }

    /// What payload behind the fixed bytes adds to the checksum of a frame of `bytes`.
    pub fn payload_sum(&self, frame: &[u8], bytes: usize) -> u16 {
        frame.get(self.fixed_bytes()..bytes).map_or(0, |payload| Sum::new().bytes(payload).folded())
    }

    /// Writes what depends on the frame over its header, which is at the start of `frame`.
    pub fn finish(
        &self,
        frame: &mut [u8],
        bytes: usize,
        payload_sum: u16,
        number: u64,
        tai_ns: u64,
    ) {
        let places = self.places;
        let size = bytes.max(places.payload);
        let mut put = |at: usize, field: &[u8]| {
            frame[at..at + field.len()].copy_from_slice(field);
        };
        if let Some(at) = self.number {
            put(at, &number.to_be_bytes());
        }
        if let Some(at) = self.stamp {
            put(at, &low_bits(tai_ns).to_be_bytes()[2..]);
        }
        if !places.is_elastic {
            return;
        }
        let be16 = |frame: &[u8], at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        if let Some(at) = places.ipv4 {
            let length = (size - at) as u16;
            let sum = Sum::new().add_u16(be16(frame, at + 10)).add_u16(length);
            frame[at + 2..at + 4].copy_from_slice(&length.to_be_bytes());
            frame[at + 10..at + 12].copy_from_slice(&sum.checksum().to_be_bytes());
        }
        if let Some(at) = places.ipv6 {
            frame[at + 4..at + 6].copy_from_slice(&((size - at - 40) as u16).to_be_bytes());
        }
        let Some(transport) = places.transport else { return };
        let length = (size - transport) as u16;
        let mut sum = Sum::new().add_u16(payload_sum).add_u16(length);
        if places.is_udp {
            frame[transport + 4..transport + 6].copy_from_slice(&length.to_be_bytes());
            sum = sum.add_u16(length);
        }
        let Some(at) = places.checksum else { return };
        let variable = [self.number.map(|_| number), self.stamp.map(|_| low_bits(tai_ns))];
        for word in variable.into_iter().flatten() {
            sum = sum.bytes(&word.to_be_bytes());
        }
        let checksum = match sum.add_u16(be16(frame, at)).checksum() {
            0 if places.is_udp => 0xffff,
            checksum => checksum,
        };
        frame[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// The bytes that every frame of `bytes` begins as: the template, and the pattern behind it.
pub(super) fn fill(template: &Template, bytes: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..bytes).map(pattern).collect();
    let own = template.frame.len().min(bytes);
    frame[..own].copy_from_slice(&template.frame[..own]);
    frame
}

/// Frames of a [`Shape`], made quickly: the headers of all flows are made once.
#[derive(Clone, Debug)]
pub struct Table {
    pub(super) layout: Layout,
    pub(super) headers: Vec<u8>,
    pub(super) sums: Vec<u16>,
    shape: Shape,
}

impl Table {
    pub(super) fn new(shape: &Shape) -> Table {
        let layout = shape.layout();
        let begin = fill(&shape.template, layout.header_bytes);
        let mut headers = Vec::with_capacity(layout.header_bytes * shape.flow_count as usize);
        for flow in 0..shape.flow_count {
            let at = headers.len();
            headers.extend_from_slice(&begin);
            layout.header(&shape.ranges, shape.numbering, flow, &mut headers[at..]);
        }
        let frame = shape.buffer();
        let sums = shape.sizes.table().iter().map(|&bytes| {
            if layout.places.checksum.is_some() {
                layout.payload_sum(&frame, bytes.into())
            } else {
                0
            }
        });
        Table { layout, headers, sums: sums.collect(), shape: shape.clone() }
    }

    /// Writes frame `sequence` of `stream`, made at `tai_ns`, to the start of `buffer` and returns
    /// its length. `buffer` comes from [`Shape::buffer`].
    pub fn write(&self, stream: u16, sequence: u64, tai_ns: u64, buffer: &mut [u8]) -> usize {
        let index = self.shape.sizes.index_of(sequence);
        let bytes = usize::from(self.shape.sizes.table()[index]);
        let flow = (sequence % u64::from(self.shape.flow_count)) as usize;
        let header_bytes = self.layout.header_bytes;
        let header = &self.headers[flow * header_bytes..][..header_bytes];
        buffer[..header_bytes].copy_from_slice(header);
        let number = super::stream_bits(stream) + sequence;
        self.layout.finish(buffer, bytes, self.sums[index], number, tai_ns);
        bytes
    }

    /// Length of frame `sequence`.
    pub fn bytes_of(&self, sequence: u64) -> usize {
        self.shape.sizes.of(sequence).into()
    }

    /// As [`Table::write`], into a slot of exactly the frame's length that may hold anything;
    /// `scratch` is a buffer of [`Shape::buffer`].
    pub fn write_whole(
        &self,
        stream: u16,
        sequence: u64,
        tai_ns: u64,
        slot: &mut [u8],
        scratch: &mut [u8],
    ) {
        let bytes = slot.len();
        if bytes < self.layout.header_bytes {
            self.write(stream, sequence, tai_ns, scratch);
            slot.copy_from_slice(&scratch[..bytes]);
            return;
        }
        // Behind the header the scratch is never written.
        let header_bytes = self.layout.header_bytes;
        slot[header_bytes..].copy_from_slice(&scratch[header_bytes..bytes]);
        self.write(stream, sequence, tai_ns, slot);
    }

    /// True if frames bear the time when they were made.
    pub fn is_stamped(&self) -> bool {
        self.layout.stamp.is_some()
    }

    /// What it makes frames of.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }
}
