//! A sink that hands over each frame by a call of its own, its header and the pieces of its
//! payload from where they lie. The kernel, which copies them, may leave the checksum to the
//! interface.

use super::kernel::socket;
use crate::Error;
use crate::interface::{SizeLimit, find, refusal};
use crate::sink::SinkConfig;
use ringside_core::{
    ChainFeatures, ChecksumRequest, Refusal, Sink, SinkCounters, SinkError, SinkFeatures,
};
use ringside_sys::packet_gso::{GSO_PARTS_MAX, GsoTx, PartialChecksum, VnetHeader};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::time::Duration;

/// A packet socket past the queueing discipline, a frame a call.
pub(super) struct CallSink {
    socket: GsoTx,
    interface: String,
    features: SinkFeatures,
    /// The header of one frame, or all of it.
    header: Vec<u8>,
    payload: Vec<u8>,
    counters: SinkCounters,
}

impl CallSink {
    /// # Errors
    /// There is no such interface, it is down, or a privilege is missing (CAP_NET_RAW).
    pub fn open(config: &SinkConfig) -> Result<CallSink, Error> {
        let device = find(&config.interface)?;
        let limit = SizeLimit { mtu_bytes: device.mtu_bytes as usize };
        let payload_bytes = config.payload_bytes;
        // Without borders.
        let chains = ChainFeatures {
            parts_max: GSO_PARTS_MAX - 1,
            part_bytes: payload_bytes,
            payload_bytes,
        };
        Ok(CallSink {
            socket: socket(device.ifindex, true)?,
            interface: device.name,
            features: SinkFeatures {
                frame_bytes_max: limit.frame_bytes_max(),
                chains: Some(chains),
                checksums: true,
            },
            header: vec![0; limit.frame_bytes_max()],
            payload: vec![0; payload_bytes],
            counters: SinkCounters::default(),
        })
    }

    /// Counts a frame by what the system said to it. False if it was not offered: the socket's
    /// buffer had no room.
    fn count(&mut self, sent: io::Result<()>, bytes: usize) -> Result<bool, SinkError> {
        if let Err(error) = &sent
            && matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
        {
            return Ok(false);
        }
        self.counters.offered += 1;
        self.counters.offered_bytes += bytes as u64;
        let Err(source) = sent else {
            self.counters.accepted += 1;
            return Ok(true);
        };
        let cause = refusal(&source);
        self.counters.refuse(cause, 1);
        if cause == Refusal::NoRoom {
            return Ok(true);
        }
        Err(SinkError::Io { context: format!("sending through {}", self.interface), source })
    }
}

/// Room of `bytes` bytes for a header, or the error of who asks for more than there is.
fn room(memory: &mut [u8], bytes: usize) -> Result<&mut [u8], SinkError> {
    let (what, limit) = ("the bytes of a frame", format!("{} at most", memory.len()));
    memory.get_mut(..bytes).ok_or(SinkError::Limit { what, value: bytes as u64, limit })
}

/// The error of a piece that is not in a payload memory of `bytes` bytes.
fn beyond(piece: &Range<usize>, bytes: usize) -> SinkError {
    let what = "the end of a piece of the payload";
    SinkError::Limit { what, value: piece.end as u64, limit: format!("{bytes} at most") }
}

impl Sink for CallSink {
    fn name(&self) -> &'static str {
        "calls"
    }

    fn features(&self) -> SinkFeatures {
        self.features
    }

    fn put(
        &mut self,
        bytes: usize,
        checksum: Option<ChecksumRequest>,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<bool, SinkError> {
        self.put_chain(bytes, checksum, write, &[])
    }

    fn put_chain(
        &mut self,
        header_bytes: usize,
        checksum: Option<ChecksumRequest>,
        write: impl FnOnce(&mut [u8]),
        pieces: &[Range<usize>],
    ) -> Result<bool, SinkError> {
        if pieces.len() >= GSO_PARTS_MAX {
            let (what, limit) = ("the pieces of a frame", format!("{}", GSO_PARTS_MAX - 1));
            return Err(SinkError::Limit { what, value: pieces.len() as u64, limit });
        }
        write(room(&mut self.header, header_bytes)?);
        let mut parts: [&[u8]; GSO_PARTS_MAX] = [&[]; GSO_PARTS_MAX];
        parts[0] = &self.header[..header_bytes];
        let mut bytes = header_bytes;
        for (part, piece) in parts[1..].iter_mut().zip(pieces) {
            let found = self.payload.get(piece.clone());
            *part = found.ok_or_else(|| beyond(piece, self.payload.len()))?;
            bytes += part.len();
        }
        let partial = |it: ChecksumRequest| PartialChecksum { start: it.start, offset: it.offset };
        let header = VnetHeader { checksum: checksum.map(partial), gso: None };
        let sent = self.socket.send(header, &parts[..=pieces.len()]);
        self.count(sent, bytes)
    }

    /// Nothing is in flight: what was sent the kernel has copied.
    fn write_payload(
        &mut self,
        range: Range<usize>,
        mut write: impl FnMut(&mut [u8]),
    ) -> Result<bool, SinkError> {
        let bytes = self.payload.len();
        write(self.payload.get_mut(range.clone()).ok_or_else(|| beyond(&range, bytes))?);
        Ok(true)
    }

    /// Does nothing: each frame was sent when it was put.
    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn counters(&mut self) -> SinkCounters {
        self.counters.clone()
    }

    fn drain(&mut self, _timeout: Duration) -> (SinkCounters, Option<SinkError>) {
        (self.counters(), None)
    }
}
