//! Writing classic pcap: one link type, stamps of nanoseconds, or of microseconds on request.
//!
//! Format: <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-04.html>.

use super::FrameWriter;
use super::buffer::RecordBuffer;
use crate::StoreError;
use crate::block::Statistics;
use ringside_core::limits::{FRAME_BYTES_MAX, INTERFACES_MAX};
use ringside_core::{Frame, InterfaceId, LinkType, SourceInterface};
use std::io::Write;

/// Header of a file.
const FILE_HEADER_BYTES: usize = 24;
/// Header of a record.
pub(super) const RECORD_HEADER_BYTES: usize = 16;

/// Resolution of the stamps of a pcap file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Magic 0xa1b2c3d4: for tools that are older than 2013. Cuts the last three digits.
    Microseconds,
    /// Magic 0xa1b23c4d.
    Nanoseconds,
}

/// Writes a pcap file or stream. The link type is that of the first frame, or of the first
/// interface if the output is flushed before.
#[derive(Debug)]
pub struct PcapWriter<W> {
    out: RecordBuffer<W>,
    precision: Precision,
    link_types: Vec<LinkType>,
    /// No frame is longer, as far as is known before the first is written.
    snaplen_bytes: u32,
    /// The link type that stands in the file header, once that is written.
    written: Option<LinkType>,
}

impl<W: Write> PcapWriter<W> {
    /// Begins a file with `interfaces` as ids from 0. Their frames must keep within their
    /// `snaplen_bytes`, the longest of which the file header states: libpcap cuts longer frames
    /// when it reads. Interfaces that are added later promise nothing.
    ///
    /// # Errors
    /// Too many interfaces.
    pub fn new(
        out: W,
        interfaces: &[SourceInterface],
        precision: Precision,
    ) -> Result<PcapWriter<W>, StoreError> {
        let mut writer = PcapWriter {
            out: RecordBuffer::new(out),
            precision,
            link_types: Vec::new(),
            snaplen_bytes: 0,
            written: None,
        };
        for interface in interfaces {
            writer.append(interface)?;
        }
        writer.snaplen_bytes = longest_snaplen(interfaces);
        Ok(writer)
    }

    fn append(&mut self, interface: &SourceInterface) -> Result<InterfaceId, StoreError> {
        if self.link_types.len() == INTERFACES_MAX {
            return Err(StoreError::TooManyInterfaces { limit: INTERFACES_MAX });
        }
        self.link_types.push(interface.link_type);
        Ok(InterfaceId(self.link_types.len() as u32 - 1))
    }

    fn write_header(&mut self, link_type: LinkType) -> Result<(), StoreError> {
        let magic: u32 = match self.precision {
            Precision::Microseconds => 0xa1b2_c3d4,
            Precision::Nanoseconds => 0xa1b2_3c4d,
        };
        let version = 2 | 4 << 16;
        let words = [magic, version, 0, 0, self.snaplen_bytes, u32::from(link_type.0)];
        self.out.record(false, |out| append_words(out, &words))?;
        self.written = Some(link_type);
        Ok(())
    }

    fn flush_all(&mut self) -> Result<(), StoreError> {
        if self.written.is_none() {
            // Of a file without an interface no frame says that it is another.
            self.write_header(self.link_types.first().copied().unwrap_or(LinkType::ETHERNET))?;
        }
        self.out.flush()
    }
}

/// The snapshot length that holds for all `interfaces`; 0 stands for no limit.
fn longest_snaplen(interfaces: &[SourceInterface]) -> u32 {
    let limits = interfaces.iter().map(|interface| match interface.snaplen_bytes {
        0 => FRAME_BYTES_MAX,
        bytes => bytes.min(FRAME_BYTES_MAX),
    });
    limits.max().unwrap_or(FRAME_BYTES_MAX)
}

fn append_words(out: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

impl<W: Write + Send> FrameWriter for PcapWriter<W> {
    fn add_interface(&mut self, interface: &SourceInterface) -> Result<InterfaceId, StoreError> {
        self.snaplen_bytes = FRAME_BYTES_MAX;
        self.append(interface)
    }

    fn write(&mut self, frame: &Frame<'_>) -> Result<(), StoreError> {
        let interface = frame.meta.interface.0;
        let known = self.link_types.len();
        let link_type = *self
            .link_types
            .get(interface as usize)
            .ok_or(StoreError::UnknownInterface { interface, known })?;
        let stamp = frame.meta.timestamp;
        let Ok(seconds) = u32::try_from(stamp.seconds()) else {
            return Err(StoreError::TimeBeyondPcap { seconds: stamp.seconds() });
        };
        match self.written {
            None => {
                // Libpcap's cooked frames do not keep within a very short snapshot length.
                if frame.bytes.len() > self.snaplen_bytes as usize {
                    self.snaplen_bytes = FRAME_BYTES_MAX;
                }
                self.write_header(link_type)?;
            }
            Some(first) if first != link_type => {
                let (first, second) = (first.0, link_type.0);
                return Err(StoreError::SecondLinkType { first, second, interface });
            }
            Some(_) => {}
        }
        let fraction = match self.precision {
            Precision::Microseconds => stamp.subsec_nanos() / 1000,
            Precision::Nanoseconds => stamp.subsec_nanos(),
        };
        let head = [seconds, fraction, frame.bytes.len() as u32, frame.meta.wire_bytes];
        self.out.record(true, |out| {
            append_words(out, &head);
            out.extend_from_slice(frame.bytes);
        })
    }

    /// The format has no place for a comment.
    fn write_commented(&mut self, frame: &Frame<'_>, _: &str) -> Result<(), StoreError> {
        self.write(frame)
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.flush_all()
    }

    /// A pcap file has no place for statistics.
    fn finish(&mut self, _statistics: &[Statistics<'_>]) -> Result<(), StoreError> {
        self.flush_all()
    }

    fn bytes_added(&self) -> u64 {
        let header_bytes = if self.written.is_none() { FILE_HEADER_BYTES } else { 0 };
        self.out.bytes_added() + header_bytes as u64
    }

    fn bytes_written(&self) -> u64 {
        self.out.bytes_written()
    }

    fn frames_written(&self) -> u64 {
        self.out.frames_written()
    }
}
