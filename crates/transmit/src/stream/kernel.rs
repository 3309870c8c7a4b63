//! Packet sockets: a system call for a packet that the kernel cuts.

use super::{BUFFER_BYTES, Segments};
use crate::Error;
use crate::interface::{ENOBUFS, find, named, refusal};
use crate::sink::SinkConfig;
use crate::wait::{ROOM_WAIT, SLEEP_MAX, Until};
use ringside_core::{Refusal, SinkCounters};
use ringside_segment::{Checksum, Offload, SegPlan, Template};
use ringside_sys::SysError;
use ringside_sys::packet_gso::{Gso, GsoKind, GsoTx, PartialChecksum, VnetHeader};
use ringside_sys::packet_tx::bound_wait;
use ringside_wire::{LayerKind, Level, Tcp};
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

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

pub(super) fn partial(offload: Offload) -> PartialChecksum {
    PartialChecksum { start: offload.start, offset: offload.offset }
}

/// A socket whose calls end before long.
pub(super) fn socket(ifindex: u32, qdisc_bypass: bool) -> Result<GsoTx, Error> {
    let socket = GsoTx::open(ifindex, qdisc_bypass)?;
    bound_wait(&socket, SLEEP_MAX)?;
    Ok(socket)
}

/// Sends one packet, and waits for room in the socket's buffer: that is full where a queue keeps
/// what it has. `None` if `until` came before, an error of the kind `WouldBlock` after
/// [`ROOM_WAIT`].
fn send(
    socket: &GsoTx,
    header: VnetHeader,
    parts: &[&[u8]],
    until: &Until,
) -> Option<io::Result<()>> {
    let mut since = None;
    loop {
        match socket.send(header, parts) {
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                if until.has_come() {
                    return None;
                }
                if e.kind() == ErrorKind::Interrupted {
                    // A process that was stopped meanwhile has not waited.
                    since = None;
                } else if since.get_or_insert_with(Instant::now).elapsed() >= ROOM_WAIT {
                    return Some(Err(e));
                }
            }
            sent => return Some(sent),
        }
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
        Err(source) => {
            let cause = refusal(&source);
            counters.refuse(cause, frames);
            if cause == Refusal::NoRoom {
                return Ok(());
            }
            let context = format!("sending through {interface}");
            return Err(SysError::Io { context, source }.into());
        }
    }
    Ok(())
}

/// Frames that the interface dropped, as it counts them.
fn dropped(interface: &str) -> Result<u64, Error> {
    Ok(named(interface)?.statistics.tx_dropped)
}

/// One call for a packet of up to 64 KiB, which the kernel cuts.
///
/// What refused a packet is reported in two places (net/core/dev.c, `net_xmit_errno`):
/// - What a queueing discipline drops at once is reported by the call (ENOBUFS), of a whole packet.
/// - What the driver drops of the frames that the kernel made is read from the interface's
///   statistics, the host's own frames with it. Without a discipline the call says ENOBUFS too,
///   but of the last frame only: then the statistics count, unless they did not move, because
///   something before the driver (a filter of `tc`) dropped the packet. To tell whose packet moved
///   them, they are read before each packet once that has happened.
///
/// What a discipline takes and drops later, or takes in parts, the kernel does not tell: a note
/// says so.
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
    /// The last good reading of that.
    dropped: u64,
    /// A call said ENOBUFS where nothing queues.
    was_refused: bool,
    /// What queues in front of the driver, if something does.
    discipline: Option<String>,
    notes: Vec<String>,
}

impl KernelCut {
    pub fn open(
        config: &SinkConfig,
        template: &Template,
        buffers: usize,
    ) -> Result<KernelCut, Error> {
        let device = find(&config.interface)?;
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
        let discipline = Some(device.queueing_discipline.clone());
        let discipline = discipline.filter(|name| !name.is_empty() && name != "noqueue");
        let note = |name: &String| {
            let what = "what it takes and drops later, or takes of a packet in parts, is not told";
            format!("accepted is what the queueing discipline {name} took: {what}")
        };
        Ok(KernelCut {
            socket: socket(device.ifindex, false)?,
            buffers: Buffers(vec![0; buffers * BUFFER_BYTES]),
            header: template.header().to_vec(),
            kind,
            has_cwr: tcp.is_some_and(|tcp| tcp.has(Tcp::CWR)),
            counters: SinkCounters::default(),
            interface: config.interface.clone(),
            dropped_before: device.statistics.tx_dropped,
            dropped: device.statistics.tx_dropped,
            was_refused: false,
            notes: discipline.iter().map(note).collect(),
            discipline,
        })
    }

    /// Reads what the interface dropped; what was read before stays if that cannot be read.
    fn read(&mut self) -> Result<(), Error> {
        self.dropped = dropped(&self.interface)?;
        Ok(())
    }

    /// The account by the last reading.
    fn account(&self) -> SinkCounters {
        let mut counters = self.counters.clone();
        let dropped = self.dropped.saturating_sub(self.dropped_before).min(counters.accepted);
        counters.accepted -= dropped;
        counters.refuse(Refusal::NoRoom, dropped);
        counters
    }

    /// What the system said to a packet, without what the statistics tell better.
    fn judged(&mut self, sent: io::Result<()>) -> io::Result<()> {
        match sent {
            // A packet that waited in vain (EAGAIN) was not taken, whatever moved meanwhile.
            Err(e) if e.raw_os_error() == Some(ENOBUFS) && self.discipline.is_none() => {
                self.was_refused = true;
                let before = self.dropped;
                let is_the_drivers = self.read().is_ok() && self.dropped != before;
                if is_the_drivers { Ok(()) } else { Err(e) }
            }
            other => other,
        }
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

    fn send(
        &mut self,
        buffer: usize,
        from: usize,
        plan: &SegPlan<'_>,
        until: &Until,
    ) -> Result<bool, Error> {
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
        let parts = [&self.header[..written.bytes], payload];
        if self.was_refused {
            self.dropped = dropped(&self.interface)?;
        }
        let Some(sent) = send(&self.socket, header, &parts, until) else { return Ok(false) };
        let frames = plan.frame_count() as u64;
        let bytes = frames * written.bytes as u64 + plan.payload_bytes() as u64;
        let sent = self.judged(sent);
        count(&mut self.counters, sent, (frames, bytes), &self.interface)?;
        Ok(true)
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn counters(&mut self) -> SinkCounters {
        // A reading that fails is reported at the end.
        let _ = self.read();
        self.account()
    }

    fn drain(&mut self, _timeout: Duration) -> (SinkCounters, Option<Error>) {
        let failure = self.read().err();
        (self.account(), failure)
    }

    fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}
