//! The frames that a generator makes, and how to read their numbers back.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 14 | Ethernet: destination, source, 0x0800 |
//! | 14 | 20 | IPv4, valid checksum, source 10.16.0.0 + flow, destination 198.18.0.1 (RFC 2544) |
//! | 34 | 8 | UDP, source port 1024 + flow mod 50,000, destination port 9, checksum 0 (none) |
//! | 42 | 8 | magic "RINGSIDE" |
//! | 50 | 8 | stream in the upper 16 bits, number within the stream from 0 in the lower 48 |
//! | 58 | 4 | flow |
//! | 62 | - | pattern: the low byte of the offset |
//!
//! Integers are in network byte order. A stream is one sending thread. A frame shorter than this
//! ends where it ends: from 58 bytes it bears its number, from 62 also its flow (which the source
//! address says too). Below 42 bytes the lengths in the headers are those of 42 bytes.
//! `bpf/generate.bpf.c` makes the same bytes.

use crate::{Error, Sizes};
use ringside_ebpf::Generator;
use ringside_ebpf::abi::{GENERATE_HEADER_BYTES, GENERATE_SIZES_MAX, GenerateConfig};

/// Marks a generated frame.
pub const MAGIC: [u8; 8] = *b"RINGSIDE";

/// From this length on a frame bears its number.
pub const STAMPED_BYTES_MIN: usize = 58;

/// Most flows: the source addresses of 10.16.0.0/12.
pub const FLOWS_MAX: u32 = 1 << 20;

const ADDRESS_BASE: u32 = 0x0a10_0000;
const PORT_BASE: u32 = 1024;
const PORT_COUNT: u32 = 50_000;
const HEADERS_BYTES: usize = 42;
const ETHERNET_BYTES: usize = 14;
const IPV4_BYTES: usize = 20;
const MAGIC_AT: usize = 42;
const SEQUENCE_AT: usize = 50;
const FLOW_AT: usize = 58;
const STREAM_SHIFT: u32 = 48;

/// What generated frames look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Frame sizes.
    pub sizes: Sizes,
    /// Flows, 1 to [`FLOWS_MAX`]; frame `n` of a stream belongs to flow `n mod flow_count`.
    pub flow_count: u32,
    /// Destination MAC address. One that is not the far end's keeps its stack from answering.
    pub destination: [u8; 6],
    /// Source MAC address.
    pub source: [u8; 6],
}

impl Shape {
    /// Frames of `sizes` in `flow_count` flows between addresses that nobody has.
    ///
    /// # Errors
    /// A flow count outside 1 to [`FLOWS_MAX`].
    pub fn new(sizes: Sizes, flow_count: u32) -> Result<Shape, Error> {
        if !(1..=FLOWS_MAX).contains(&flow_count) {
            let limit = format!("1 to {FLOWS_MAX}");
            return Err(Error::Limit { what: "the flow count", value: flow_count.into(), limit });
        }
        // Locally administered addresses.
        let (destination, source) =
            ([0x02, 0x52, 0x53, 0, 0, 0xff], [0x02, 0x52, 0x53, 0, 0, 0xfe]);
        Ok(Shape { sizes, flow_count, destination, source })
    }

    /// Writes frame `sequence` of `stream` to the start of `buffer` and returns its length.
    /// `buffer` must hold [`Sizes::longest`] and at least 64 bytes, with the pattern in place from
    /// byte 64 on (see [`Shape::buffer`]).
    pub fn write(&self, stream: u16, sequence: u64, buffer: &mut [u8]) -> usize {
        let bytes = usize::from(self.sizes.of(sequence));
        let flow = (sequence % u64::from(self.flow_count)) as u32;
        let ip_bytes = (bytes.max(HEADERS_BYTES) - ETHERNET_BYTES) as u16;
        let source = ADDRESS_BASE + flow;
        let header = self.header();
        let sum = ip_sum(&header) + u32::from(ip_bytes) + (source >> 16) + (source & 0xffff);
        let mut put = |at: usize, field: &[u8]| {
            buffer[at..at + field.len()].copy_from_slice(field);
        };
        put(0, &header);
        put(16, &ip_bytes.to_be_bytes());
        put(24, &fold(sum).to_be_bytes());
        put(26, &source.to_be_bytes());
        put(34, &((PORT_BASE + flow % PORT_COUNT) as u16).to_be_bytes());
        put(38, &(ip_bytes - IPV4_BYTES as u16).to_be_bytes());
        put(SEQUENCE_AT, &(stream_bits(stream) + sequence).to_be_bytes());
        put(FLOW_AT, &flow.to_be_bytes());
        bytes
    }

    /// A buffer for [`Shape::write`], with the pattern in place.
    pub fn buffer(&self) -> Vec<u8> {
        let bytes = usize::from(self.sizes.longest()).max(GENERATE_HEADER_BYTES);
        (0..bytes).map(pattern).collect()
    }

    /// Frame `sequence` of `stream`, whole: what a receiver must have got.
    pub fn frame(&self, stream: u16, sequence: u64) -> Vec<u8> {
        let mut buffer = self.buffer();
        let bytes = self.write(stream, sequence, &mut buffer);
        buffer.truncate(bytes);
        buffer
    }

    /// A generator in eBPF that makes these frames, one stream on each of `cpus`, and hands them to
    /// the interface `ifindex` of the calling thread's namespace; each stream as fast as it goes,
    /// or evenly at `rate_per_sec` frames a second.
    ///
    /// # Errors
    /// A size that live frames cannot carry, a CPU given twice, or the kernel refused.
    pub fn generator(
        &self,
        ifindex: u32,
        cpus: &[usize],
        rate_per_sec: Option<u64>,
    ) -> Result<Generator, Error> {
        let streams: Vec<(usize, u16)> = cpus.iter().copied().zip(0..).collect();
        let gap = rate_per_sec.map_or(0, gap);
        Ok(Generator::load(&GenerateConfig { gap, ..self.config(ifindex) }, &streams, pattern)?)
    }

    /// The configuration of the generator, as fast as it goes.
    fn config(&self, ifindex: u32) -> GenerateConfig {
        let table = self.sizes.table();
        let mut sizes = [0u16; GENERATE_SIZES_MAX];
        sizes[..table.len()].copy_from_slice(table);
        let header = self.header();
        GenerateConfig {
            ifindex,
            flow_count: self.flow_count,
            size_count: table.len() as u32,
            address_base: ADDRESS_BASE,
            port_base: PORT_BASE,
            port_count: PORT_COUNT,
            ip_sum: ip_sum(&header),
            input_bytes: u32::from(self.sizes.longest()).max(GENERATE_HEADER_BYTES as u32),
            gap: 0,
            header,
            sizes,
        }
    }

    /// The first bytes of every frame, with 0 in the fields that vary.
    fn header(&self) -> [u8; GENERATE_HEADER_BYTES] {
        let mut header = [0u8; GENERATE_HEADER_BYTES];
        let mut put = |at: usize, field: &[u8]| {
            header[at..at + field.len()].copy_from_slice(field);
        };
        put(0, &self.destination);
        put(6, &self.source);
        put(12, &[0x08, 0x00]);
        put(14, &[0x45]);
        put(20, &[0x40, 0x00, 64, 17]); // do not fragment, time to live, UDP
        put(30, &[198, 18, 0, 1]);
        put(36, &[0, 9]);
        put(MAGIC_AT, &MAGIC);
        put(62, &[pattern(62), pattern(63)]);
        header
    }
}

/// From frame to frame in 1/256 ns, rounded up: no faster than was asked for.
fn gap(rate_per_sec: u64) -> u64 {
    (256 * 1_000_000_000u64).div_ceil(rate_per_sec.max(1))
}

/// The byte at `offset` behind the headers.
fn pattern(offset: usize) -> u8 {
    offset as u8
}

fn stream_bits(stream: u16) -> u64 {
    u64::from(stream) << STREAM_SHIFT
}

/// Sum of the words of an IPv4 header whose length, checksum and source are 0.
fn ip_sum(header: &[u8; GENERATE_HEADER_BYTES]) -> u32 {
    let words = header[ETHERNET_BYTES..ETHERNET_BYTES + IPV4_BYTES].chunks_exact(2);
    words.map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum()
}

/// The internet checksum of a sum (RFC 1071).
fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    let twice = (once & 0xffff) + (once >> 16);
    !(twice as u16)
}

/// The number of a generated frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Which sending thread.
    pub stream: u16,
    /// Which frame of it, from 0.
    pub sequence: u64,
    /// Flow; `None` if the frame is too short to say.
    pub flow: Option<u32>,
}

impl Stamp {
    /// Reads the number of a frame; `None` if it was not generated here or bears none.
    pub fn read(frame: &[u8]) -> Option<Stamp> {
        let field = frame.get(MAGIC_AT..STAMPED_BYTES_MIN)?;
        let (magic, number) = field.split_first_chunk::<8>()?;
        if *magic != MAGIC {
            return None;
        }
        let number = u64::from_be_bytes(*number.first_chunk::<8>()?);
        let flow = frame.get(FLOW_AT..FLOW_AT + 4).and_then(|bytes| bytes.first_chunk::<4>());
        Some(Stamp {
            stream: (number >> STREAM_SHIFT) as u16,
            sequence: number & ((1 << STREAM_SHIFT) - 1),
            flow: flow.map(|bytes| u32::from_be_bytes(*bytes)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_ebpf::Verdict;
    use ringside_sys::thread::{allowed_cpus, pin_to_cpu};
    use ringside_testkit::need_root;

    #[test]
    fn a_stamp_is_read_back_as_far_as_the_frame_goes() {
        let shape = Shape::new(Sizes::list(&[57, 58, 61, 62, 1514]).unwrap(), 1000).unwrap();
        for sequence in 0..2000 {
            let frame = shape.frame(5, sequence);
            let flow = (frame.len() >= 62).then_some((sequence % 1000) as u32);
            let stamp = Stamp { stream: 5, sequence, flow };
            assert_eq!(Stamp::read(&frame), (frame.len() >= 58).then_some(stamp));
        }
        assert_eq!(Stamp::read(&[]), None);
        assert_eq!(Stamp::read(&[0; 100]), None);
    }

    #[test]
    fn the_ipv4_checksum_is_right() {
        let shape = Shape::new(Sizes::uniform(14, 2000).unwrap(), FLOWS_MAX).unwrap();
        for sequence in [0, 1, 65_535, 65_536, 1_048_575] {
            let mut frame = shape.buffer();
            shape.write(0, sequence, &mut frame);
            let words = frame[14..34].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
            assert_eq!(fold(words.sum()), 0, "frame {sequence}");
        }
    }

    #[test]
    fn flow_counts_outside_the_limits_are_refused() {
        for count in [0, FLOWS_MAX + 1] {
            let error = Shape::new(Sizes::imix(), count).unwrap_err().to_string();
            assert!(error.contains("1 to 1048576"), "{error}");
        }
    }

    #[test]
    fn the_generator_in_ebpf_makes_the_same_frames() {
        if !need_root("the_generator_in_ebpf_makes_the_same_frames") {
            return;
        }
        let cpu = allowed_cpus().unwrap()[0];
        pin_to_cpu(cpu).unwrap();
        for (sizes, flows) in [("14-3408", 70_000), ("14,41,58", 3), ("imix", FLOWS_MAX)] {
            let shape = Shape::new(sizes.parse().unwrap(), flows).unwrap();
            let generator = Generator::load(&shape.config(2), &[(cpu, 7)], pattern).unwrap();
            for sequence in 0..4000 {
                let run = generator.run_once().unwrap();
                assert_eq!(run.verdict, Verdict::Redirect);
                assert_eq!(run.frame, shape.frame(7, sequence), "{sizes}, frame {sequence}");
            }
        }
    }
}
