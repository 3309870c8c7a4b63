//! The packet sender: frames of any size through a packet socket.

use crate::job::FrameSender;
use crate::sink::offer;
use crate::wait::SLEEP_MAX;
use crate::{Error, Load, Table, Wire};
use ringside_core::{OwnedFrame, SinkCounters};
use ringside_sys::SysError;
use ringside_sys::clock::tai_ns;
use ringside_sys::packet_tx::{PacketTx, SEND_FRAMES_MAX, bound_wait};
use std::sync::Arc;

/// Where the next frames come from.
enum Supply {
    Numbered { table: Box<Table>, stream: u16, buffers: Vec<Vec<u8>> },
    Replay(Arc<[OwnedFrame]>),
}

/// One thread's socket.
pub(crate) struct PacketSender {
    socket: PacketTx,
    supply: Supply,
    interface: String,
    offered: u64,
    bytes: u64,
    refused: u64,
}

impl PacketSender {
    /// For the calling thread, which is in the sender's namespace.
    pub fn new(wire: &Wire, load: &Load, stream: u16) -> Result<PacketSender, Error> {
        let device = wire.sender.device()?;
        let supply = match load {
            Load::Numbered(shape) => Supply::Numbered {
                buffers: vec![shape.buffer(); SEND_FRAMES_MAX],
                table: Box::new(shape.to_table()),
                stream,
            },
            Load::Replay(frames) => Supply::Replay(Arc::clone(frames)),
        };
        // Past the queueing discipline the kernel would take the queue of the sending CPU instead
        // of that of the flow's hash (packet_pick_tx_queue of net/packet/af_packet.c).
        let qdisc_bypass = false;
        let socket = PacketTx::open(device.ifindex, qdisc_bypass)?;
        bound_wait(&socket, SLEEP_MAX)?;
        let interface = wire.sender.place();
        Ok(PacketSender { socket, supply, interface, offered: 0, bytes: 0, refused: 0 })
    }

    /// Offers each frame once, as long as there is room: one that was refused is counted and left
    /// behind, and so are all after an error.
    fn offer(&mut self, frames: &[&[u8]]) -> Result<(), Error> {
        let mut counters = SinkCounters::default();
        let not_asked = |_: &[u8]| false;
        let result = offer(&self.socket, frames, not_asked, &mut counters);
        let offered = &frames[..*result.as_ref().unwrap_or(&frames.len())];
        self.offered += offered.len() as u64;
        self.bytes += offered.iter().map(|frame| frame.len() as u64).sum::<u64>();
        self.refused += counters.refused_total();
        result.map(drop).map_err(|source| {
            let context = format!("sending through {}", self.interface);
            SysError::Io { context, source }.into()
        })
    }
}

impl FrameSender for PacketSender {
    fn call_frames_max(&self) -> u64 {
        SEND_FRAMES_MAX as u64
    }

    fn send(&mut self, frames: u64) -> Result<u64, Error> {
        let before = self.offered;
        let count = (frames as usize).min(SEND_FRAMES_MAX);
        // The supply is taken out while its frames are lent to the socket.
        let replay = Supply::Replay(Arc::new([]));
        let mut supply = std::mem::replace(&mut self.supply, replay);
        let offered = match &mut supply {
            Supply::Numbered { table, stream, buffers } => {
                let mut batch: Vec<&[u8]> = Vec::with_capacity(count);
                for (sequence, buffer) in (before..).zip(buffers.iter_mut().take(count)) {
                    let now = if table.is_stamped() { tai_ns() } else { 0 };
                    let bytes = table.write(*stream, sequence, now, buffer);
                    batch.push(&buffer[..bytes]);
                }
                self.offer(&batch)
            }
            Supply::Replay(frames) => {
                let first = (before % frames.len().max(1) as u64) as usize;
                let batch: Vec<&[u8]> =
                    frames.iter().cycle().skip(first).take(count).map(|f| &f.bytes[..]).collect();
                self.offer(&batch)
            }
        };
        self.supply = supply;
        offered?;
        Ok(self.offered - before)
    }

    fn offered(&self) -> u64 {
        self.offered
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn refused(&self) -> u64 {
        self.refused
    }
}
