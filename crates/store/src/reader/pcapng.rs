//! Reading pcapng: sections of either byte order, interfaces, the three kinds of packet blocks.
//!
//! Every length is checked against the block that holds it. Blocks of other types are passed
//! without being held in memory.

use super::interface::{Interface, read_interface};
use super::options::options;
use super::parts::Described;
use super::record::{BeyondTime, Damage, Order, Step};
use crate::block::{BLOCK_HEADER_BYTES, block_header};
use crate::file_header::FileHeader;
use crate::pcapng::{
    BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, BYTE_ORDER_MAGIC, ENHANCED_PACKET, INTERFACE_DESCRIPTION,
    INTERFACE_STATISTICS, PACKET, RINGSIDE_BLOCK, RINGSIDE_HEADER, RINGSIDE_ROOM, SECTION_HEADER,
    SIMPLE_PACKET, aligned, option,
};
use ringside_core::ledger::ByCause;
use ringside_core::limits::{FRAME_BYTES_MAX, INTERFACES_MAX};
use ringside_core::{
    Direction, FrameMeta, InterfaceId, LaneCounters, SourceInterface, Timestamp, TimestampKind,
};

/// A statistics block of ours is shorter; a longer one is passed without a look.
const LEDGER_BYTES_MAX: usize = 4 << 10;

/// Parser of the blocks of one file.
#[derive(Clone, Debug)]
pub(super) struct PcapngParser {
    order: Order,
    in_section: bool,
    /// Of all sections; those of the current one begin at `section_start`.
    clocks: Vec<Interface>,
    pub(super) interfaces: Vec<SourceInterface>,
    section_start: usize,
    /// Bytes of text in `interfaces`.
    text_bytes: usize,
    /// A block whose body was passed and whose trailing length comes next.
    trailer: Option<u32>,
    /// Comment of the section, if it looks like one of a recording.
    comment: String,
    /// What the header block of a recording says, and the length of its header.
    pub(super) recording: Option<(FileHeader, usize)>,
    /// Interface statistics blocks that were passed.
    pub(super) statistics_blocks: u64,
    /// The ledgers in statistics blocks are read.
    pub(super) keeps_ledger: bool,
    /// The last of them: frames lost by cause, since the run began.
    pub(super) dropped: Option<ByCause>,
    /// What the last frame says of its time, if that is damaged.
    pub(super) beyond_time: Option<BeyondTime>,
}

/// True if the bytes begin as a pcapng file.
pub(super) fn is_pcapng(bytes: &[u8]) -> bool {
    Order::Little.u32(bytes, 0) == Some(SECTION_HEADER)
}

/// A word inside a block whose length was checked before; a reader of shorter blocks stops here.
fn word(order: Order, block: &[u8], at: usize) -> Result<u32, Damage> {
    order.u32(block, at).ok_or_else(|| format!("a block of {} bytes is too short", block.len()))
}

impl PcapngParser {
    pub(super) fn new() -> PcapngParser {
        PcapngParser {
            order: Order::Little,
            in_section: false,
            clocks: Vec::new(),
            interfaces: Vec::new(),
            section_start: 0,
            text_bytes: 0,
            trailer: None,
            comment: String::new(),
            recording: None,
            statistics_blocks: 0,
            keeps_ledger: false,
            dropped: None,
            beyond_time: None,
        }
    }

    /// How packet blocks are read from here on.
    pub(super) fn described(&self) -> Described {
        (self.section_start, self.order == Order::Big, self.interfaces.len())
    }

    /// True within a block: the input may not end here.
    pub(super) fn is_inside_block(&self) -> bool {
        self.trailer.is_some()
    }

    /// True if the torn block that `bytes` begins may have held a frame.
    pub(super) fn may_be_packet(&self, bytes: &[u8]) -> bool {
        let block_type = self.order.u32(bytes, 0);
        self.trailer.is_none()
            && block_type.is_none_or(|t| matches!(t, PACKET | SIMPLE_PACKET | ENHANCED_PACKET))
    }

    /// Looks at the block at the beginning of `bytes`, and takes in what it says of the section.
    pub(super) fn step(&mut self, bytes: &[u8]) -> Result<Step, Damage> {
        if let Some(length) = self.trailer {
            return self.step_trailer(bytes, length);
        }
        let (Some(block_type), Some(length)) = (self.order.u32(bytes, 0), self.order.u32(bytes, 4))
        else {
            return Ok(Step::Need(BLOCK_BYTES_MIN));
        };
        if block_type == SECTION_HEADER {
            return self.step_section(bytes);
        }
        if !self.in_section {
            return Err("it does not begin with a section header".into());
        }
        let length = check_length(length)?;
        if block_type == RINGSIDE_BLOCK && self.recording.is_some() && length == BLOCK_HEADER_BYTES
        {
            let Some(block) = bytes.get(..length) else { return Ok(Step::Need(length)) };
            check_trailer(self.order, block)?;
            return Ok(block_header(block).map_or(Step::Skip(length), Step::RingBlock));
        }
        let is_known = matches!(
            block_type,
            INTERFACE_DESCRIPTION | PACKET | SIMPLE_PACKET | ENHANCED_PACKET | RINGSIDE_HEADER
        );
        if block_type == INTERFACE_STATISTICS && self.keeps_ledger && length <= LEDGER_BYTES_MAX {
            let Some(block) = bytes.get(..length) else { return Ok(Step::Need(length)) };
            check_trailer(self.order, block)?;
            self.dropped = dropped(self.order, block).or(self.dropped.take());
            return Ok(Step::Skip(length));
        }
        if !is_known {
            self.statistics_blocks += u64::from(block_type == INTERFACE_STATISTICS);
            self.trailer = Some(length as u32);
            let is_room = block_type == RINGSIDE_ROOM && self.recording.is_some();
            return Ok(if is_room { Step::Room(length - 4) } else { Step::Skip(length - 4) });
        }
        let Some(block) = bytes.get(..length) else { return Ok(Step::Need(length)) };
        check_trailer(self.order, block)?;
        let step = match block_type {
            ENHANCED_PACKET => return self.enhanced_packet(block),
            SIMPLE_PACKET => return self.simple_packet(block),
            PACKET => return self.old_packet(block),
            INTERFACE_DESCRIPTION => self.add_interface(block)?,
            _ => self.add_header(block),
        };
        Ok(step)
    }

    fn step_trailer(&mut self, bytes: &[u8], length: u32) -> Result<Step, Damage> {
        let Some(trailer) = self.order.u32(bytes, 0) else { return Ok(Step::Need(4)) };
        if trailer != length {
            return Err(unequal_lengths(length, trailer));
        }
        self.trailer = None;
        Ok(Step::Skip(4))
    }

    fn step_section(&mut self, bytes: &[u8]) -> Result<Step, Damage> {
        const SECTION_BYTES_MIN: usize = 28;
        let Some(magic) = Order::Little.u32(bytes, 8) else {
            return Ok(Step::Need(SECTION_BYTES_MIN));
        };
        let order = match magic {
            BYTE_ORDER_MAGIC => Order::Little,
            _ if magic.swap_bytes() == BYTE_ORDER_MAGIC => Order::Big,
            _ => return Err(format!("a section header with the byte-order magic {magic:#010x}")),
        };
        let length = check_length(word(order, bytes, 4)?)?;
        let Some(block) = bytes.get(..length) else { return Ok(Step::Need(length)) };
        check_trailer(order, block)?;
        let (Some(major), Some(minor)) = (order.u16(block, 12), order.u16(block, 14)) else {
            return Err(format!("a section header of {length} bytes"));
        };
        // 1.2 is written by some tools and means the same (libpcap, sf-pcapng.c).
        if !matches!((major, minor), (1, 0 | 2)) || length < SECTION_BYTES_MIN {
            return Err(format!("pcapng version {major}.{minor}; only 1.0 is known"));
        }
        self.order = order;
        self.in_section = true;
        self.section_start = self.interfaces.len();
        let comment =
            options(order, block, 24).find_map(|(code, v)| (code == option::COMMENT).then_some(v));
        let comment = comment.filter(|value| value.starts_with(b"{\"ringside\""));
        self.comment = String::from_utf8_lossy(comment.unwrap_or_default()).into_owned();
        Ok(Step::Skip(length))
    }

    fn add_interface(&mut self, block: &[u8]) -> Result<Step, Damage> {
        /// All texts of all interfaces of an input: bounds memory against a hostile file.
        const TEXT_BYTES_MAX: usize = 16 << 20;
        let (clock, interface) = read_interface(self.order, block)?;
        let text = interface.name.len() + interface.description.len() + interface.filter.len();
        self.text_bytes += text;
        if self.interfaces.len() == INTERFACES_MAX {
            return Err(format!("more than {INTERFACES_MAX} interfaces"));
        }
        if self.text_bytes > TEXT_BYTES_MAX {
            return Err(format!("interface descriptions of more than {TEXT_BYTES_MAX} bytes"));
        }
        self.clocks.push(clock);
        self.interfaces.push(interface);
        Ok(Step::Skip(block.len()))
    }

    /// A header block that does not decode is somebody else's and is passed.
    fn add_header(&mut self, block: &[u8]) -> Step {
        if self.order == Order::Little && self.recording.is_none() {
            self.recording = FileHeader::decode(&block[8..block.len() - 4], &self.comment);
        }
        Step::Skip(block.len())
    }

    fn enhanced_packet(&mut self, block: &[u8]) -> Result<Step, Damage> {
        let field = |at| word(self.order, block, at);
        let packet = Packet {
            interface: field(8)?,
            ticks: Some(u64::from(field(12)?) << 32 | u64::from(field(16)?)),
            captured: field(20)?,
            wire: field(24)?,
            data_at: 28,
        };
        self.packet(block, &packet)
    }

    fn old_packet(&mut self, block: &[u8]) -> Result<Step, Damage> {
        let field = |at| word(self.order, block, at);
        let packet = Packet {
            interface: u32::from(self.order.u16(block, 8).unwrap_or(u16::MAX)),
            ticks: Some(u64::from(field(12)?) << 32 | u64::from(field(16)?)),
            captured: field(20)?,
            wire: field(24)?,
            data_at: 28,
        };
        self.packet(block, &packet)
    }

    /// A simple packet has neither a time nor a captured length: that follows from the snapshot
    /// length of interface 0.
    fn simple_packet(&mut self, block: &[u8]) -> Result<Step, Damage> {
        if block.len() < 16 {
            return Err(format!("a simple packet block of {} bytes", block.len()));
        }
        let wire = word(self.order, block, 8)?;
        let snaplen = self.interfaces.get(self.section_start).map_or(0, |one| one.snaplen_bytes);
        let captured = if snaplen == 0 { wire } else { wire.min(snaplen) };
        self.packet(block, &Packet { interface: 0, ticks: None, captured, wire, data_at: 12 })
    }

    fn packet(&mut self, block: &[u8], packet: &Packet) -> Result<Step, Damage> {
        let Packet { interface, captured, data_at, .. } = *packet;
        let index = self.section_start.saturating_add(interface as usize);
        let Some(clock) = self.clocks.get(index) else {
            let known = self.clocks.len() - self.section_start;
            return Err(format!("a frame of interface {interface}; the section has {known}"));
        };
        if captured > FRAME_BYTES_MAX {
            return Err(format!(
                "a block says that {captured} bytes were captured; the limit is {FRAME_BYTES_MAX}"
            ));
        }
        let data_end = data_at + aligned(captured as usize);
        if data_end + 4 > block.len() {
            let length = block.len();
            return Err(format!("{captured} captured bytes in a block of {length} bytes"));
        }
        let timestamp = packet.ticks.map_or(Ok(Timestamp::default()), |at| clock.timestamp(at));
        self.beyond_time = timestamp.err();
        let timestamp = timestamp.unwrap_or_default();
        let has_options = packet.ticks.is_some() && data_end + 8 <= block.len();
        let meta = FrameMeta {
            timestamp,
            timestamp_kind: TimestampKind::File,
            wire_bytes: packet.wire,
            interface: InterfaceId(index as u32),
            direction: if has_options {
                self.direction(block, data_end)
            } else {
                Direction::Unknown
            },
            ..FrameMeta::default()
        };
        Ok(Step::Frame { record_bytes: block.len(), data_at, captured, meta })
    }

    fn direction(&self, block: &[u8], options_at: usize) -> Direction {
        // The same code and meaning in the obsolete packet block (pack_flags).
        let flags = options(self.order, block, options_at)
            .find(|&(code, _)| code == option::EPB_FLAGS)
            .and_then(|(_, value)| self.order.u32(value, 0));
        match flags.map(|flags| flags & 3) {
            Some(1) => Direction::Inbound,
            Some(2) => Direction::Outbound,
            _ => Direction::Unknown,
        }
    }
}

/// Frames that the ledger of a statistics block calls lost, if it holds one.
fn dropped(order: Order, block: &[u8]) -> Option<ByCause> {
    let (_, comment) = options(order, block, 20).find(|&(code, _)| code == option::COMMENT)?;
    Some(serde_json::from_slice::<LaneCounters>(comment).ok()?.dropped)
}

/// Frames lost since the run began, as `block` says: a whole pcapng block, as
/// [`blocks`](crate::block::blocks) gives it. None if it is no statistics block with a ledger.
pub fn ledger_of(block: &[u8]) -> Option<ByCause> {
    let is_statistics = Order::Little.u32(block, 0) == Some(INTERFACE_STATISTICS);
    (is_statistics && block.len() <= LEDGER_BYTES_MAX)
        .then(|| dropped(Order::Little, block))
        .flatten()
}

/// The fields of a packet block, whichever kind.
struct Packet {
    interface: u32,
    ticks: Option<u64>,
    captured: u32,
    wire: u32,
    data_at: usize,
}

fn check_length(length: u32) -> Result<usize, Damage> {
    let bytes = length as usize;
    if !(BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&bytes) {
        return Err(format!(
            "a block of {length} bytes; they have {BLOCK_BYTES_MIN} to {BLOCK_BYTES_MAX}"
        ));
    }
    if !bytes.is_multiple_of(4) {
        return Err(format!("a block of {length} bytes, which is not a multiple of 4"));
    }
    Ok(bytes)
}

fn check_trailer(order: Order, block: &[u8]) -> Result<(), Damage> {
    let (length, trailer) = (block.len() as u32, word(order, block, block.len() - 4)?);
    if length == trailer { Ok(()) } else { Err(unequal_lengths(length, trailer)) }
}

fn unequal_lengths(length: u32, trailer: u32) -> Damage {
    format!("a block of {length} bytes that ends with the length {trailer}")
}
