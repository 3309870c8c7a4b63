//! The frames that a generator makes.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 14 | Ethernet: destination, source, 0x0800 |
//! | 14 | 20 | IPv4, valid checksum, source 10.16.0.0 + flow, destination 198.18.0.1 (RFC 2544) |
//! | 34 | 8 | UDP, source port 1024 + flow mod 50,000, destination port 9, checksum 0 (none) |
//! | 42 | 20 | number ([`Stamp`]) |
//! | 62 | - | pattern: the low byte of the offset |
//!
//! That is [`Shape::new`]; [`Shape::like`] takes any [`Template`] and varies any [`Range`]. A frame
//! shorter than this ends where it ends: from 58 bytes it bears its number, from 62 also its flow
//! (which the source address says too). Below 42 bytes the lengths in the headers are those of 42
//! bytes. `bpf/generate.bpf.c` makes the same bytes.

mod range;
mod stamp;
mod table;
mod template;

pub use range::{Field, Range};
pub use stamp::{MAGIC, Numbering, STAMP_MAGIC, Stamp};
pub use table::Table;
pub use template::{Stack, Template};

use crate::{Error, Sizes, TemplateFix};
use ringside_ebpf::abi::{GENERATE_HEADER_BYTES_MAX, GENERATE_SIZES_MAX, GenerateConfig};
use ringside_ebpf::{Generator, gap};
use table::Layout;

/// From this length on a frame of [`Shape::new`] bears its number.
pub const STAMPED_BYTES_MIN: usize = 58;

/// Most flows: the source addresses of 10.16.0.0/12. Their headers take 64 to 192 bytes each.
pub const FLOWS_MAX: u32 = 1 << 20;

const ADDRESS_BASE: u32 = 0x0a10_0000;
const PORT_BASE: u32 = 1024;
const PORT_COUNT: u32 = 50_000;

/// What generated frames look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Frame sizes.
    pub sizes: Sizes,
    /// Flows, 1 to [`FLOWS_MAX`]; frame `n` of a stream belongs to flow `n mod flow_count`.
    pub flow_count: u32,
    template: Template,
    ranges: Vec<Range>,
    numbering: Numbering,
    is_kept: bool,
    discards: bool,
    pub(crate) awaits_room: bool,
}

impl Shape {
    /// Numbered frames of `sizes` in `flow_count` flows of UDP over IPv4 between addresses that no
    /// host has.
    ///
    /// # Errors
    /// A flow count outside 1 to [`FLOWS_MAX`].
    pub fn new(sizes: Sizes, flow_count: u32) -> Result<Shape, Error> {
        let ranges = vec![
            Range::new(Field::SourceAddress, ADDRESS_BASE.into(), FLOWS_MAX.into()),
            Range::new(Field::SourcePort, PORT_BASE.into(), PORT_COUNT.into()),
        ];
        let template = Template::of(Stack::default());
        Shape::like(template, ranges, Numbering::Number, sizes, flow_count)
    }

    /// Frames like `template`, flow `n` with the `n`-th value of each range.
    ///
    /// # Errors
    /// A flow count outside 1 to [`FLOWS_MAX`], or more flows than the ranges make different; a
    /// range of what the template does not have; a size or a number that cannot be made of it.
    pub fn like(
        template: Template,
        ranges: Vec<Range>,
        numbering: Numbering,
        sizes: Sizes,
        flow_count: u32,
    ) -> Result<Shape, Error> {
        if !(1..=FLOWS_MAX).contains(&flow_count) {
            let limit = format!("1 to {FLOWS_MAX}");
            return Err(Error::Limit { what: "the flow count", value: flow_count.into(), limit });
        }
        let (is_kept, discards, awaits_room) = (false, false, false);
        let shape = Shape {
            sizes,
            flow_count,
            template,
            ranges,
            numbering,
            is_kept,
            discards,
            awaits_room,
        };
        shape.check()?;
        Ok(shape)
    }

    fn check(&self) -> Result<(), Error> {
        let layout = self.layout();
        let refused = |reason: String| Err(Error::Template { reason, fix: TemplateFix::None });
        let fixed = layout.fixed_bytes();
        if !layout.fits() {
            let most = GENERATE_HEADER_BYTES_MAX;
            return refused(format!("headers and number take {fixed} bytes, more than {most}"));
        }
        if self.numbering != Numbering::None && !self.template.can_be_numbered() {
            let reason = "it has no payload of TCP or UDP to bear a number; leave the number out";
            return Err(Error::Template { reason: reason.into(), fix: TemplateFix::NoNumber });
        }
        let own = self.template.frame().len();
        let shortest = usize::from(self.sizes.shortest());
        let keeps_size = (shortest, usize::from(self.sizes.longest())) == (own, own);
        if !self.template.is_elastic() && !keeps_size {
            let reason = format!(
                "only IP without tunnels and fragments can be made longer or shorter; leave its \
                 {own} bytes"
            );
            return Err(Error::Template { reason, fix: TemplateFix::OwnSize });
        }
        // A checksum is over the whole number: what is cut has none.
        if layout.places.checksum.is_some() && shortest < fixed {
            let reason =
                format!("{shortest} bytes are less than its headers and number with a checksum");
            return Err(Error::Template { reason, fix: TemplateFix::Size(fixed) });
        }
        self.check_ranges(&layout)
    }

    fn check_ranges(&self, layout: &Layout) -> Result<(), Error> {
        let mut frame = table::fill(&self.template, layout.header_bytes);
        for range in &self.ranges {
            if !range.write(&layout.places, 0, &mut frame) {
                let version = if range.is_v6() { " of IPv6" } else { "" };
                let reason = format!("it has no {}{version}", range.field().name());
                return Err(Error::Template { reason, fix: TemplateFix::None });
            }
        }
        let (value, different) = (self.flow_count.into(), different_flows(&self.ranges));
        if u128::from(self.flow_count) > different {
            let limit = format!("at most {different}: the ranges make no more different flows");
            return Err(Error::Limit { what: "the flow count", value, limit });
        }
        Ok(())
    }

    /// How many flows `ranges` make different, at most [`FLOWS_MAX`].
    pub fn different_flows(ranges: &[Range]) -> u32 {
        different_flows(ranges).min(FLOWS_MAX.into()) as u32
    }

    /// Shortest frames that bear the whole number behind the template's headers.
    pub fn bytes_min(template: &Template, numbering: Numbering) -> u16 {
        Layout::of(template, numbering).fixed_bytes() as u16
    }

    /// Another destination MAC address. One that is not the far end's keeps its stack from
    /// answering.
    pub fn set_destination(&mut self, destination: [u8; 6]) {
        self.template.set_destination(destination);
    }

    /// Live frames are written once into each page of memory that the kernel recycles for them
    /// (about a thousand), and sent again as they are: the receiving core finds them in its cache,
    /// as it finds what a network card wrote, and not in that of the sending core. Numbers and
    /// flows come in no order then. For frames of one size with numbers.
    pub fn keep_pages(&mut self) {
        self.is_kept = true;
    }

    /// What the sending interface receives while live frames are sent is discarded inside its
    /// driver, where it would pass to the host: the end of the way of frames that come back. For
    /// private networks.
    pub fn discard_received(&mut self) {
        self.discards = true;
    }

    /// Live frames of a veth pair wait until the far end has room for them, as those of a network
    /// card under flow control: the far end then has no work with frames that it refuses. Where the
    /// kernel does not show its ring they do not wait, and the report has those refused. Also
    /// discards what is received ([`Shape::discard_received`]).
    pub fn await_room(&mut self) {
        self.discards = true;
        self.awaits_room = true;
    }

    /// Writes frame `sequence` of `stream` to the start of `buffer` and returns its length.
    /// `buffer` is one of [`Shape::buffer`]. Makes the header anew each time: a [`Table`] does it
    /// faster. A frame that bears a time bears 0.
    pub fn write(&self, stream: u16, sequence: u64, buffer: &mut [u8]) -> usize {
        let flow = (sequence % u64::from(self.flow_count)) as u32;
        let index = self.sizes.index_of(sequence);
        let bytes = usize::from(self.sizes.table()[index]);
        let layout = self.layout();
        buffer[..layout.header_bytes]
            .copy_from_slice(&table::fill(&self.template, layout.header_bytes));
        layout.header(&self.ranges, self.numbering, flow, &mut buffer[..layout.header_bytes]);
        let payload_sum = layout.payload_sum(buffer, bytes);
        layout.finish(buffer, bytes, payload_sum, stream_bits(stream) + sequence, 0);
        bytes
    }

    /// The headers of all flows, made once.
    pub fn to_table(&self) -> Table {
        Table::new(self)
    }

    /// A buffer for [`Shape::write`], with what is behind the headers in place.
    pub fn buffer(&self) -> Vec<u8> {
        let bytes = usize::from(self.sizes.longest()).max(self.layout().header_bytes);
        table::fill(&self.template, bytes)
    }

    /// Frame `sequence` of `stream`, whole: what a receiver must have got, but for its time.
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
        let table = self.to_table();
        let gap = rate_per_sec.map_or(0, gap);
        let config = GenerateConfig { gap, ..self.config(ifindex, &table) };
        let mut input = self.buffer();
        if let (true, Some(at)) = (self.is_kept, table.layout.number) {
            input[at..at + size_of::<u64>()].fill(0);
        }
        Ok(Generator::load(&config, &table.headers, &streams, input)?)
    }

    /// The configuration of the generator, as fast as it goes.
    fn config(&self, ifindex: u32, table: &Table) -> GenerateConfig {
        let mut sizes = [0u16; GENERATE_SIZES_MAX];
        sizes[..self.sizes.table().len()].copy_from_slice(self.sizes.table());
        let mut sums = [0u16; GENERATE_SIZES_MAX];
        sums[..table.sums.len()].copy_from_slice(&table.sums);
        let layout = table.layout;
        let places = layout.places;
        let elastic = |at: Option<usize>| at.filter(|_| places.is_elastic).unwrap_or(0) as u32;
        GenerateConfig {
            ifindex,
            flow_count: self.flow_count,
            size_count: self.sizes.table().len() as u32,
            input_bytes: usize::from(self.sizes.longest()).max(layout.header_bytes) as u32,
            header_bytes: layout.header_bytes as u32,
            payload_at: places.payload as u32,
            ipv4_at: elastic(places.ipv4),
            ipv6_at: elastic(places.ipv6),
            transport_at: elastic(places.transport),
            udp_at: elastic(places.transport.filter(|_| places.is_udp)),
            checksum_at: elastic(places.checksum),
            number_at: elastic(layout.number),
            stamp_at: elastic(layout.stamp),
            is_kept: self.is_kept.into(),
            discards: self.discards.into(),
            reserved: 0,
            gap: 0,
            sizes,
            sums,
        }
    }

    fn layout(&self) -> Layout {
        Layout::of(&self.template, self.numbering)
    }
}

/// How many flows ranges make different that advance together: their least common multiple.
fn different_flows(ranges: &[Range]) -> u128 {
    fn divisor(a: u128, b: u128) -> u128 {
        if b == 0 { a } else { divisor(b, a % b) }
    }
    let enough = u128::from(FLOWS_MAX);
    ranges.iter().fold(1, |lcm, range| {
        if lcm >= enough {
            lcm
        } else {
            (lcm / divisor(lcm, range.count())).saturating_mul(range.count())
        }
    })
}

/// The byte at `offset` behind the headers.
fn pattern(offset: usize) -> u8 {
    offset as u8
}

fn stream_bits(stream: u16) -> u64 {
    u64::from(stream) << stamp::STREAM_SHIFT
}

#[cfg(test)]
mod tests;
