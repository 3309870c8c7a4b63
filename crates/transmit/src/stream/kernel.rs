//! Packet sockets: a system call for each segment, or one for a packet that the kernel cuts.

use super::{BUFFER_BYTES, Segments, device};
use crate::Error;
use crate::sink::SinkConfig;
use ringside_core::{Refusal, SinkCounters};
use ringside_segment::{Checksum, Offload, SegPlan, Segmenter, Template};
use ringside_sys::packet_gso::{Gso, GsoKind, GsoTx, PartialChecksum, VnetHeader};
use ringside_sys::{SysError, netdev};
use ringside_wire::{LayerKind, Level, Tcp};
use std::io;
use std::time::Duration;

/// ENOBUFS of asm-generic/errno.h, for which std has no kind: the driver had no room.
const ENOBUFS: i32 = 105;

/// Buffers in memory of our own.
struct Buffers(Vec<u8>);

impl Buffers {
    fn fill(&mut self, buffer: usize, bytes: usize, write: &mut dyn FnMut(&mut [u8])) {
        write(&mut self.0[buffer * BUFFER_BYTES..][..bytes]);
    }

    fn of(&self, buffer: usize, from: usize) -> &[u8] {
        &self.0[buffer * BUFFER_BYTES + from..]
    }
}

fn partial(offload: Offload) -> PartialChecksum {
    PartialChecksum { start: offload.start, offset: offload.offset }
}

/// One call a segment. The kernel, which copies it, may leave the checksum to the interface.
pub(super) struct Calls {
    socket: GsoTx,
    buffers: Buffers,
    header: Vec<u8>,
    counters: SinkCounters,
    interface: String,
}

impl Calls {
    pub fn open(
        config: &SinkConfig,
        segmenter: &Segmenter,
        buffers: usize,
    ) -> Result<Calls, Error> {
        Ok(Calls {
            socket: GsoTx::open(device(config)?.ifindex, true)?,
            buffers: Buffers(vec![0; buffers * BUFFER_BYTES]),
            header: vec![0; segmenter.header_bytes_max()],
            counters: SinkCounters::default(),
            interface: config.interface.clone(),
        })
    }
}

impl Segments for Calls {
    fn fill(
        &mut self,
        buffer: usize,
        bytes: usize,
        write: &mut dyn FnMut(&mut [u8]),
    ) -> Result<bool, Error> {
        self.buffers.fill(buffer, bytes, write);
        Ok(true)
    }

    fn send(&mut self, buffer: usize, from: usize, plan: &SegPlan<'_>) -> Result<(), Error> {
        let payload = self.buffers.of(buffer, from);
        for segment in plan.segments() {
            let written = segment.write_header(&mut self.header, Checksum::Offload)?;
            let checksum = written.offload.map(partial);
            let parts = [&self.header[..written.bytes], &payload[segment.payload()]];
            let bytes = segment.frame_bytes() as u64;
            let sent = self.socket.send(VnetHeader { checksum, gso: None }, &parts);
            count(&mut self.counters, sent, (1, bytes), &self.interface)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn counters(&mut self) -> SinkCounters {
        self.counters.clone()
    }

    fn drain(&mut self, _timeout: Duration) -> SinkCounters {
        self.counters.clone()
    }

    fn notes(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// Counts frames that were offered together, by what the system said to them.
fn count(
    counters: &mut SinkCounters,
    sent: io::Result<()>,
    (frames, bytes): (u64, u64),
    interface: &str,
) -> Result<(), Error> {
    counters.offered += frames;
    counters.offered_bytes += bytes;
    match sent {
        Ok(()) => counters.accepted += frames,
        Err(e) if e.raw_os_error() == Some(ENOBUFS) => counters.refuse(Refusal::NoRoom, frames),
        Err(source) => {
            counters.refuse(Refusal::Other, frames);
            let context = format!("sending through {interface}");
            return Err(SysError::Io { context, source }.into());
        }
    }
    Ok(())
}

/// One call for a packet of up to 64 KiB, which the kernel cuts.
///
/// What the interface refused of the frames that the kernel made no call says: that is read from
/// its statistics, the host's own frames with it.
pub(super) struct KernelCut {
    socket: GsoTx,
    buffers: Buffers,
    header: Vec<u8>,
    kind: GsoKind,
    has_cwr: bool,
    counters: SinkCounters,
    interface: String,
    /// Frames that the interface had dropped before.
    dropped_before: u64,
}

impl KernelCut {
    pub fn open(
        config: &SinkConfig,
        template: &Template,
        buffers: usize,
    ) -> Result<KernelCut, Error> {
        let device = device(config)?;
        let layers = template.layers();
        let is_v6 = layers.network(Level::Inner).is_some_and(|layer| layer.kind == LayerKind::Ipv6);
        let kind = match (template.is_tcp(), is_v6) {
            (true, false) => GsoKind::TcpV4,
            (true, true) => GsoKind::TcpV6,
            (false, _) => GsoKind::UdpDatagrams,
        };
        if layers.is_tunnelled() {
            return Err(Error::KernelTunnel);
        }
        let transport = layers.transport(Level::Inner).map(|layer| layer.start());
        let checksum = transport.and_then(|at| template.header().get(at + 6..at + 8));
        if !template.is_tcp() && !is_v6 && checksum == Some(&[0, 0]) {
            return Err(Error::KernelNoChecksum);
        }
        let tcp = transport.filter(|_| template.is_tcp());
        let tcp = tcp.and_then(|at| Tcp::new(template.header().get(at..)?).ok());
        Ok(KernelCut {
            socket: GsoTx::open(device.ifindex, false)?,
            buffers: Buffers(vec![0; buffers * BUFFER_BYTES]),
            header: template.header().to_vec(),
            kind,
            has_cwr: tcp.is_some_and(|tcp| tcp.has(Tcp::CWR)),
            counters: SinkCounters::default(),
            interface: config.interface.clone(),
            dropped_before: device.statistics.tx_dropped,
        })
    }

    fn dropped(&self) -> u64 {
        let device = netdev::by_name(&self.interface).ok().flatten();
        let now = device.map_or(self.dropped_before, |device| device.statistics.tx_dropped);
        now.saturating_sub(self.dropped_before)
    }
}

impl Segments for KernelCut {
    fn fill(
        &mut self,
        buffer: usize,
        bytes: usize,
        write: &mut dyn FnMut(&mut [u8]),
    ) -> Result<bool, Error> {
        self.buffers.fill(buffer, bytes, write);
        Ok(true)
    }

    fn send(&mut self, buffer: usize, from: usize, plan: &SegPlan<'_>) -> Result<(), Error> {
        let whole = plan.uncut()?;
        let written = whole.write_header(&mut self.header, Checksum::Offload)?;
        let payload = &self.buffers.of(buffer, from)[..plan.payload_bytes()];
        let gso = (plan.frame_count() > 1).then_some(Gso {
            kind: self.kind,
            size: plan.mss_bytes() as u16,
            header_bytes: written.bytes as u16,
            has_cwr: self.has_cwr,
        });
        let header = VnetHeader { checksum: written.offload.map(partial), gso };
        let sent = self.socket.send(header, &[&self.header[..written.bytes], payload]);
        let frames = plan.frame_count() as u64;
        let bytes = frames * written.bytes as u64 + plan.payload_bytes() as u64;
        // A queue that refused a part of a packet says so of all of it; the interface counts which.
        let sent = match sent {
            Err(e) if e.raw_os_error() == Some(ENOBUFS) => Ok(()),
            other => other,
        };
        count(&mut self.counters, sent, (frames, bytes), &self.interface)
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn counters(&mut self) -> SinkCounters {
        let mut counters = self.counters.clone();
        let dropped = self.dropped().min(counters.accepted);
        counters.accepted -= dropped;
        counters.refuse(Refusal::NoRoom, dropped);
        counters
    }

    fn drain(&mut self, _timeout: Duration) -> SinkCounters {
        self.counters()
    }

    fn notes(&mut self) -> Vec<String> {
        Vec::new()
    }
}
