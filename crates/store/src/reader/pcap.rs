//! Reading classic pcap, with the checks of libpcap (sf-pcap.c).

use super::record::{Damage, Order, Step};
use ringside_core::limits::FRAME_BYTES_MAX;
use ringside_core::time::NANOS_PER_SEC;
use ringside_core::{FrameMeta, LinkType, SourceInterface, Timestamp, TimestampKind};

/// Length of the file header.
pub(super) const FILE_HEADER_BYTES: usize = 24;
/// Bits of the network field that are the link type; those above speak of the check sequence.
const LINK_TYPE_MASK: u32 = 0x03ff_ffff;

/// How the two lengths of a record stand; some old writers swapped them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lengths {
    CapturedFirst,
    WireFirst,
    /// Version 2.3: whichever is smaller was captured.
    SmallerIsCaptured,
}

/// Parser of the records of one file.
#[derive(Debug)]
pub(super) struct PcapParser {
    order: Order,
    nanos_per_unit: u64,
    record_header_bytes: usize,
    lengths: Lengths,
    pub(super) interface: SourceInterface,
}

/// Byte order, length of a unit of the fraction in ns, and length of a record header, by magic.
fn magic(bytes: &[u8]) -> Option<(Order, u64, usize)> {
    let (order, magic) = match Order::Little.u32(bytes, 0)? {
        magic @ (0xa1b2_c3d4 | 0xa1b2_3c4d | 0xa1b2_cd34) => (Order::Little, magic),
        other => (Order::Big, other.swap_bytes()),
    };
    match magic {
        0xa1b2_c3d4 => Some((order, 1000, 16)),
        0xa1b2_3c4d => Some((order, 1, 16)),
        // Kuznetzov's patch to libpcap: index, protocol and packet type follow.
        0xa1b2_cd34 => Some((order, 1000, 24)),
        _ => None,
    }
}

/// True if the bytes begin as a pcap file.
pub(super) fn is_pcap(bytes: &[u8]) -> bool {
    magic(bytes).is_some()
}

impl PcapParser {
    /// Reads the file header.
    pub(super) fn new(header: &[u8; FILE_HEADER_BYTES]) -> Result<PcapParser, Damage> {
        let not_pcap = || "not a pcap file".to_owned();
        let (order, nanos_per_unit, record_header_bytes) = magic(header).ok_or_else(not_pcap)?;
        let half = |at| order.u16(header, at).ok_or_else(not_pcap);
        let word = |at| order.u32(header, at).ok_or_else(not_pcap);
        let lengths = match (half(4)?, half(6)?) {
            (2, 0..=2) | (543, 0) => Lengths::WireFirst,
            (2, 3) => Lengths::SmallerIsCaptured,
            (2, 4) => Lengths::CapturedFirst,
            (major, minor) => {
                return Err(format!("pcap version {major}.{minor}; versions to 2.4 are known"));
            }
        };
        let network = word(20)? & LINK_TYPE_MASK;
        let Ok(link_type) = u16::try_from(network) else {
            return Err(format!("link type {network}; they end at 65535"));
        };
        let interface = SourceInterface {
            name: String::new(),
            link_type: LinkType(link_type),
            snaplen_bytes: word(16)?,
            description: String::new(),
            filter: String::new(),
        };
        Ok(PcapParser { order, nanos_per_unit, record_header_bytes, lengths, interface })
    }

    /// Looks at the record at the beginning of `bytes`.
    pub(super) fn step(&mut self, bytes: &[u8]) -> Result<Step, Damage> {
        let Some(header) = bytes.get(..self.record_header_bytes) else {
            return Ok(Step::Need(self.record_header_bytes));
        };
        let word = |at| self.order.u32(header, at).unwrap_or(0); // within 16 bytes, always there
        let (seconds, fraction) = (word(0), word(4));
        let (captured, wire) = match (self.lengths, word(8), word(12)) {
            (Lengths::WireFirst, wire, captured) => (captured, wire),
            (Lengths::SmallerIsCaptured, a, b) => (a.min(b), a.max(b)),
            (Lengths::CapturedFirst, captured, wire) => (captured, wire),
        };
        if captured > FRAME_BYTES_MAX {
            return Err(format!(
                "a record says that {captured} bytes were captured; the limit is {FRAME_BYTES_MAX}"
            ));
        }
        let record_bytes = self.record_header_bytes + captured as usize;
        if bytes.len() < record_bytes {
            return Ok(Step::Need(record_bytes));
        }
        if captured > self.interface.snaplen_bytes && self.interface.snaplen_bytes != 0 {
            // The file contradicts itself. The frame is there; a copy that repeated the snapshot
            // length would be refused by libpcap.
            self.interface.snaplen_bytes = FRAME_BYTES_MAX;
        }
        // 2^32 s and 2^32 units of 1000 ns stay below 2^64 ns. A fraction of a second or more is
        // carried, as libpcap's users do when they add up.
        let stamp = u64::from(seconds) * NANOS_PER_SEC + u64::from(fraction) * self.nanos_per_unit;
        let meta = FrameMeta {
            timestamp: Timestamp(stamp),
            timestamp_kind: TimestampKind::File,
            wire_bytes: wire,
            ..FrameMeta::default()
        };
        Ok(Step::Frame { record_bytes, data_at: self.record_header_bytes, captured, meta })
    }
}
