//! Frames that the program did not read: the packet reader of flows does.

use crate::ring::FrameRecord;
use ringside_core::{FrameMeta, InterfaceId, LaneId, SourceInterface, Timestamp};
use ringside_flow::{Counted, NoFlow, PacketReader, Sums};
use ringside_inspect::{DissectedFrame, Received};

/// Waits for all frames of a reading, so that they come in the order of their stamps: the later
/// fragments of a packet may have come on another CPU than the first.
pub(crate) struct Frames {
    reader: PacketReader,
    interface: SourceInterface,
    id: InterfaceId,
    /// Bytes of all.
    pub bytes: Vec<u8>,
    pub records: Vec<FrameRecord>,
}

impl Frames {
    pub fn new(name: &str, id: InterfaceId) -> Frames {
        let (bytes, records) = (Vec::new(), Vec::new());
        let (reader, interface) = (PacketReader::new(), SourceInterface::ethernet(name));
        Frames { reader, interface, id, bytes, records }
    }

    /// Fragments whose first was not seen.
    pub fn fragments_without_ports(&self) -> u64 {
        self.reader.fragments_without_ports()
    }

    /// Reads all that wait: each packet, with its stamps in TAI, or why it is in no flow.
    pub fn read(&mut self, mut each: impl FnMut(Result<Counted, (NoFlow, Sums)>)) {
        self.records.sort_by_key(|record| record.stamp);
        for record in &self.records {
            let (start, count) = record.bytes;
            let bytes = self.bytes.get(start..start + count).unwrap_or_default();
            let meta = FrameMeta {
                timestamp: Timestamp(record.stamp),
                wire_bytes: record.frame_bytes,
                interface: self.id,
                ..FrameMeta::default()
            };
            let frame = DissectedFrame::new(bytes, record.frame_bytes, self.interface.link_type);
            let received =
                Received { meta: &meta, interface: &self.interface, lane: LaneId::default() };
            let sums = Sums { packets: record.packets, octets: record.octets };
            each(match self.reader.read(&frame, &received) {
                Err(cause) => Err((cause, sums)),
                Ok(packet) => {
                    let more = sums.octets.saturating_sub(record.frame_bytes.into());
                    let Sums { packets, octets } = sums;
                    let one = Counted::one(&packet);
                    Ok(Counted { packets, octets, ip_octets: one.ip_octets + more, ..one })
                }
            });
        }
        self.records.clear();
        self.bytes.clear();
    }
}
